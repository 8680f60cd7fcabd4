//! System calls refused by seccomp(2) once carrick serves: calls that a proxy never makes, but an attacker in it might. They fail with EPERM,
//! and the kernel's audit log has a line for each (`type=1326`).
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;
use std::io;

/// Calls that are refused whatever their arguments.
const REFUSED: &[i64] = &[
    // Other programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_syslog,
    // Kernel interfaces with a history of vulnerabilities.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_personality,
    // File permissions: pinned maps are read-only.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_mknodat,
    libc::SYS_open_by_handle_at,
];

/// Calls that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const REFUSED_OLD: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_mknod,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_kexec_file_load,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_OLD: &[i64] = &[];

/// asm-generic/unistd.h (Linux 6.6).
const SYS_FCHMODAT2: i64 = 452;

/// Calls of the x32 ABI, where the kernel has it: the usual numbers with this bit set, and some of its own
/// (arch/x86/entry/syscalls/syscall_64.tbl).
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const REFUSED_X32: &[i64] = &[520, 521, 528, 539, 540, 545];

/// bpf(2) commands that the engines need after the start: map entries, test runs of own programs, iterators, pins of adopted tunnels, and
/// detaching links (linux/bpf.h, `enum bpf_cmd`). Loading, attaching, pinning and opening by ID are refused.
const BPF_ALLOWED: [u64; 14] = [
    1,  // BPF_MAP_LOOKUP_ELEM
    2,  // BPF_MAP_UPDATE_ELEM
    3,  // BPF_MAP_DELETE_ELEM
    4,  // BPF_MAP_GET_NEXT_KEY
    7,  // BPF_OBJ_GET
    10, // BPF_PROG_TEST_RUN
    15, // BPF_OBJ_GET_INFO_BY_FD
    16, // BPF_PROG_QUERY
    21, // BPF_MAP_LOOKUP_AND_DELETE_ELEM
    22, // BPF_MAP_FREEZE
    24, // BPF_MAP_LOOKUP_BATCH
    33, // BPF_ITER_CREATE
    34, // BPF_LINK_DETACH
    9,  // BPF_PROG_DETACH
];

/// Restricts this thread and the threads that it starts.
pub(super) fn restrict() -> Result<String, String> {
    let program = program().map_err(|error| format!("seccomp: {error}"))?;
    install(&program).map_err(|error| format!("seccomp: {error}"))?;
    Ok("seccomp".to_owned())
}

/// Whether the kernel supports such a filter: it is asked, because /proc/sys may be hidden.
#[expect(unsafe_code, reason = "seccomp(2) with SECCOMP_GET_ACTION_AVAIL")]
pub(super) fn probe() -> Result<String, String> {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the call reads four bytes of `action`, and changes nothing.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    if outcome == 0 {
        return Ok("seccomp".to_owned());
    }
    Err(format!(
        "the kernel has no seccomp filters with SECCOMP_RET_ERRNO (CONFIG_SECCOMP_FILTER): {}",
        io::Error::last_os_error()
    ))
}

fn program() -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED
        .iter()
        .chain(REFUSED_OLD)
        .map(|call| (*call, Vec::new()))
        .collect();
    let is_other = BPF_ALLOWED.map(|command| {
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, command)
    });
    let is_other = is_other.into_iter().collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_bpf, vec![SeccompRule::new(is_other)?]);
    #[cfg(target_arch = "x86_64")]
    {
        let usual: Vec<i64> = rules.keys().copied().collect();
        rules.extend(
            usual
                .iter()
                .chain(REFUSED_X32)
                .map(|call| (call | X32, Vec::new())),
        );
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(filter.try_into()?)
}

/// Installs the filter with SECCOMP_FILTER_FLAG_LOG, which `seccompiler` cannot set.
#[expect(unsafe_code, reason = "seccomp(2) with SECCOMP_FILTER_FLAG_LOG")]
fn install(program: &BpfProgram) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the program is one of classic BPF, as `sock_filter` has it, and outlives the call, which copies it.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_LOG,
            &raw const program,
        )
    };
    match outcome {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_can_be_made() {
        let program = program().unwrap();
        // The kernel's limit (linux/bpf_common.h, `BPF_MAXINSNS`).
        assert!((100..4096).contains(&program.len()), "{}", program.len());
    }

    #[test]
    fn what_is_refused_fails_and_what_is_needed_goes_on() {
        // Valid for the life of the thread.
        let thread = std::thread::spawn(|| {
            restrict().unwrap();
            let refused = std::process::Command::new("/bin/true").spawn();
            let program = std::fs::File::open("/proc/self/exe").unwrap();
            let rights = program.metadata().unwrap().permissions();
            [
                refused.map(drop).map_err(|error| error.kind()),
                program
                    .set_permissions(rights)
                    .map_err(|error| error.kind()),
                std::fs::read("/proc/self/stat")
                    .map(drop)
                    .map_err(|error| error.kind()),
            ]
        });
        let denied = Err(io::ErrorKind::PermissionDenied);
        assert_eq!(thread.join().unwrap(), [denied, denied, Ok(())]);
    }
}
