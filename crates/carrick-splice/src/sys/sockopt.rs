//! Socket options that no library offers, and those that depend on the kernel's version.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// linux/tcp.h, from Linux 6.15 on.
pub(crate) const TCP_RTO_MAX_MS: i32 = 44;
pub(crate) const TCP_RTO_MIN_US: i32 = 45;
pub(crate) const TCP_DELACK_MAX_US: i32 = 46;

/// asm-generic/socket.h, from Linux 5.14 on; what is locked is in linux/socket.h.
pub(crate) const SO_BUF_LOCK: i32 = 72;
/// `SOCK_RCVBUF_LOCK`: the kernel does not change the size of the receive buffer.
pub(crate) const RECEIVE_LOCK: u32 = 2;

/// Sets an option to an int.
pub(crate) fn set(socket: BorrowedFd<'_>, level: i32, name: i32, value: u32) -> io::Result<()> {
    set_bytes(socket, level, name, &value.to_ne_bytes())
}

/// Sets an option to a structure.
#[expect(unsafe_code, reason = "no library has these options")]
pub(crate) fn set_bytes(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &[u8],
) -> io::Result<()> {
    let length = value.len() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed and open; the kernel reads at most `length` bytes, which `value` has.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            length,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an option that is an int.
pub(crate) fn get(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<u32> {
    let mut value = [0; 4];
    get_bytes(socket, level, name, &mut value)?;
    Ok(u32::from_ne_bytes(value))
}

/// Reads an option; returns its length.
#[expect(unsafe_code, reason = "no library has these options")]
pub(crate) fn get_bytes(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &mut [u8],
) -> io::Result<usize> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed and open; the kernel writes at most `length` bytes, which `value` has.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if outcome == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Which buffers of a socket were set by hand (`SO_BUF_LOCK`): 1: send, 2: receive.
pub(crate) fn buffer_locks(socket: &impl AsFd) -> io::Result<u32> {
    get(socket.as_fd(), libc::SOL_SOCKET, SO_BUF_LOCK)
}

/// Sets which of them the kernel may no longer size.
pub(crate) fn set_buffer_locks(socket: &impl AsFd, locks: u32) -> io::Result<()> {
    set(socket.as_fd(), libc::SOL_SOCKET, SO_BUF_LOCK, locks)
}

/// The number of bytes at which a reader is woken (`SO_RCVLOWAT`).
pub(crate) fn receive_low_water(socket: &impl AsFd) -> io::Result<u32> {
    get(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT)
}

/// Holds arriving data in the socket's queue until this many bytes are there (`SO_RCVLOWAT`).
pub(crate) fn set_receive_low_water(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}
