//! A temporary packet filter on one socket.

use crate::sys::sockopt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Attaches `program` (a BPF socket filter) to the socket. False, without a change, if the socket has another
/// filter. Takes the socket's lock: afterwards every packet has passed the filter.
pub(super) fn attach(socket: &impl AsFd, program: BorrowedFd<'_>) -> io::Result<bool> {
    if has_filter(socket) {
        return Ok(false);
    }
    let number = program.as_raw_fd().to_ne_bytes();
    sockopt::set_bytes(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_ATTACH_BPF,
        &number,
    )?;
    Ok(true)
}

/// Detaches it.
pub(super) fn detach(socket: &impl AsFd) -> io::Result<()> {
    sockopt::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0)
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
    // A BPF program's instructions cannot be read (EACCES).
    outcome != 0 || instructions > 0
}
