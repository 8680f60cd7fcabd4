//! tcx: programs at an interface by BPF links, which go when their last descriptor or pin goes (Linux 6.6 and later).

use super::{Direction, HookPosition};
use libbpf_rs::libbpf_sys;
use libbpf_rs::query::{LinkInfo, LinkTypeInfo};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The kernel's own limit for a hook (`BPF_MPROG_MAX`, include/linux/bpf_mprog.h).
const PROGRAMS_MAX: usize = 64;

/// Linux 6.6 is the first with it.
const SINCE: (u32, u32) = (6, 6);

/// A program on a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OnHook {
    pub(super) program: u32,
    /// 0: attached without a link.
    pub(super) link: u32,
}

/// What a link says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::tc) struct Standing {
    pub(super) link: u32,
    pub(super) program: u32,
    /// 0: the interface has vanished, or somebody has detached it.
    pub(in crate::engine::tc) interface: u32,
    pub(super) direction: Direction,
}

const fn attach_type(direction: Direction) -> libbpf_sys::bpf_attach_type {
    match direction {
        Direction::Ingress => libbpf_sys::BPF_TCX_INGRESS,
        Direction::Egress => libbpf_sys::BPF_TCX_EGRESS,
    }
}

/// Puts a program on the hook of an interface. It stays until the descriptor is closed, unless it is pinned.
#[expect(unsafe_code, reason = "libbpf-rs does not have it")]
pub(super) fn attach(
    program: BorrowedFd<'_>,
    interface: u32,
    direction: Direction,
    place: HookPosition,
) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        // Relative to nothing: before, or behind, all that are there.
        flags: match place {
            HookPosition::First => libbpf_sys::BPF_F_BEFORE,
            HookPosition::Last => libbpf_sys::BPF_F_AFTER,
        },
        ..Default::default()
    };
    // SAFETY: the program's descriptor is open; the options have their size, and live for the call.
    let link = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            interface.cast_signed(),
            attach_type(direction),
            &raw const options,
        )
    };
    succeeded(link)?;
    // SAFETY: the kernel has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Puts another program into the place of a link's, between two packets.
#[expect(
    unsafe_code,
    reason = "libbpf-rs has it for programs of its own kind only"
)]
pub(super) fn replace(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open; no options are given.
    succeeded(unsafe {
        libbpf_sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
    })
}

/// Takes a link's program away from its hook, whoever else has the link. Needs no privileges.
#[expect(unsafe_code, reason = "libbpf-rs does not have it")]
pub(in crate::engine::tc) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    succeeded(unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) })
}

/// Gives a link, a program or a map a name on a BPF file system, which keeps it.
#[expect(
    unsafe_code,
    reason = "libbpf-rs has it for objects of its own kind only"
)]
pub(in crate::engine::tc) fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the descriptor is open; the path ends with a zero byte, and lives for the call.
    succeeded(unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), path.as_ptr()) })
}

/// Opens the link that has a name; `None` if something else has it.
pub(super) fn open_pinned(path: &Path) -> io::Result<Option<OwnedFd>> {
    let link = quietly(|| libbpf_rs::Link::open(path))?;
    let link = link.as_fd().try_clone_to_owned()?;
    // Asked for a link's information, the kernel would give that of a map or program as well.
    let told = std::fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", link.as_raw_fd()))?;
    Ok(told
        .lines()
        .any(|line| line == "link_type:\ttcx")
        .then_some(link))
}

/// What a tcx link says of itself.
pub(in crate::engine::tc) fn standing(link: BorrowedFd<'_>) -> io::Result<Standing> {
    let info = LinkInfo::from_fd(link).map_err(as_io)?;
    let LinkTypeInfo::Tcx(tcx) = info.info else {
        return Err(io::Error::other("it is no tcx link"));
    };
    let direction = if tcx.attach_type as u32 == attach_type(Direction::Ingress) {
        Direction::Ingress
    } else {
        Direction::Egress
    };
    Ok(Standing {
        link: info.id,
        program: info.prog_id,
        interface: tcx.ifindex,
        direction,
    })
}

/// The programs on a hook, in the order in which they run. Needs `CAP_NET_ADMIN`. A kernel without tcx says `EINVAL`.
#[expect(unsafe_code, reason = "libbpf-rs does not have it")]
pub(super) fn on_hook(interface: u32, direction: Direction) -> io::Result<Vec<OnHook>> {
    let mut programs = [0_u32; PROGRAMS_MAX];
    let mut links = [0_u32; PROGRAMS_MAX];
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: programs.as_mut_ptr(),
        link_ids: links.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = PROGRAMS_MAX as u32;
    // SAFETY: the options have their size; both arrays have room for as many numbers as `count` says; all live for the call.
    succeeded(unsafe {
        libbpf_sys::bpf_prog_query_opts(
            interface.cast_signed(),
            attach_type(direction),
            &raw mut options,
        )
    })?;
    // SAFETY: both fields of the union are the same number.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    Ok(programs
        .iter()
        .zip(&links)
        .take(count)
        .map(|(program, link)| OnHook {
            program: *program,
            link: *link,
        })
        .collect())
}

/// Whether the kernel has tcx: by asking it, or, where that is not allowed, by its version.
pub(super) fn is_there(interface: u32) -> bool {
    match on_hook(interface, Direction::Ingress) {
        Ok(_) => true,
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => false,
        Err(_) => release() >= Some(SINCE),
    }
}

/// The kernel's version: major, minor.
fn release() -> Option<(u32, u32)> {
    let name = rustix::system::uname();
    let text = name.release().to_string_lossy();
    let mut numbers = text.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Calls libbpf without what it prints on standard error; errors say that as well.
pub(in crate::engine::tc) fn quietly<T>(
    call: impl FnOnce() -> libbpf_rs::Result<T>,
) -> io::Result<T> {
    let printed = libbpf_rs::set_print(None);
    let outcome = call().map_err(as_io);
    libbpf_rs::set_print(printed);
    outcome
}

/// libbpf returns a negative error number (libbpf 1.0 and later).
fn succeeded(outcome: i32) -> io::Result<()> {
    if outcome < 0 {
        Err(io::Error::from_raw_os_error(-outcome))
    } else {
        Ok(())
    }
}

/// The kernel's error in one of libbpf-rs, which hides its number, but prints it.
fn as_io(error: libbpf_rs::Error) -> io::Error {
    let text = format!("{error:#}");
    let number = text
        .rsplit_once("(os error ")
        .and_then(|(_, rest)| rest.split_once(')')?.0.parse().ok());
    number.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error)
}
