//! System calls that are refused once carrick serves, by seccomp (seccomp(2)): those that a proxy has no use for, and who has taken it over has.
//! They fail with EPERM, and the kernel's audit log has a line for each (`type=1326`).
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;
use std::io;

/// Calls that are refused whatever they are given.
const REFUSED: &[i64] = &[
    // Other programs, and other processes.
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
    // Parts of the kernel that holes are found in.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_personality,
    // Rights of files: pinned maps are for reading only.
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_mknodat,
    libc::SYS_open_by_handle_at,
];

/// Those that newer architectures do not have.
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

/// The calls of the x32 ABI, which some kernels have beside the usual ones: the numbers with this bit, and some of their own
/// (arch/x86/entry/syscalls/syscall_64.tbl).
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const REFUSED_X32: &[i64] = &[520, 521, 528, 539, 540, 545];

/// What the engines ask of bpf(2) after the start: entries of maps, their own programs that are run by the process, iterators, pins of tunnels
/// that are adopted, and links that are let go (linux/bpf.h, `enum bpf_cmd`). Nothing is loaded, attached or pinned, and nothing is
/// opened by its number.
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

/// Restricts this thread, and those that it starts.
pub(super) fn restrict() -> Result<String, String> {
    let program = program().map_err(|error| format!("seccomp: {error}"))?;
    install(&program).map_err(|error| format!("seccomp: {error}"))?;
    Ok("seccomp".to_owned())
}

/// Whether the kernel takes such a filter.
pub(super) fn probe() -> Result<String, String> {
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail");
    match actions {
        Ok(actions) if actions.split_whitespace().any(|action| action == "errno") => {
            Ok("seccomp".to_owned())
        }
        Ok(_) => Err("the kernel's seccomp cannot refuse calls".to_owned()),
        Err(error) => Err(format!(
            "the kernel has no filters of system calls (CONFIG_SECCOMP_FILTER): /proc/sys/kernel/seccomp: {error}"
        )),
    }
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

/// With a line in the kernel's log for each call that is refused, which `seccompiler` cannot ask for.
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
        // It stays with the thread.
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
