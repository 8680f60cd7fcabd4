//! The one call to the kernel that no library wraps safely.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// How many bytes of a TCP socket the other side has not acknowledged yet (`SIOCOUTQ`, tcp(7)).
///
/// # Errors
/// When it is no TCP socket.
#[expect(unsafe_code, reason = "ioctl(2) has no safe wrapper for SIOCOUTQ")]
pub fn unacknowledged_bytes(socket: &impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for as long as it is borrowed, and SIOCOUTQ (the same number as TIOCOUTQ) writes one
    // int to where the pointer points, which lives until the call is over.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}
