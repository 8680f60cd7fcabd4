//! A packet filter on one socket, for a moment.

use crate::sys::tcp_info::set_option;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Puts `program` (BPF, of the type socket filter) before the socket. False, and nothing is changed, if somebody else has put
/// a filter there. Takes the socket's lock: afterwards nothing is under way that did not pass the filter.
pub(super) fn attach(socket: &impl AsFd, program: BorrowedFd<'_>) -> io::Result<bool> {
    if has_filter(socket) {
        return Ok(false);
    }
    set_option(socket, libc::SO_ATTACH_BPF, program.as_raw_fd())?;
    Ok(true)
}

/// Takes it away.
pub(super) fn detach(socket: &impl AsFd) -> io::Result<()> {
    set_option(socket, libc::SO_DETACH_FILTER, 0)
}

#[expect(unsafe_code, reason = "no library has this option")]
fn has_filter(socket: &impl AsFd) -> bool {
    let mut instructions: libc::socklen_t = 0;
    // SAFETY: the descriptor is borrowed and open; asked for no instructions, the kernel writes none, only their number.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_GET_FILTER,
            std::ptr::null_mut(),
            &raw mut instructions,
        )
    };
    // A BPF program's instructions are not shown (EACCES).
    outcome != 0 || instructions > 0
}
