//! Binds to addresses that the previous carrick is about to release.
use std::io;
use std::time::{Duration, Instant};

/// How long to wait for addresses that a draining carrick is releasing.
pub const FREE_WAIT: Duration = Duration::from_secs(1);

const FREE_EVERY: Duration = Duration::from_millis(5);

/// Binds as soon as the address is free; tries until `give_up_at`.
///
/// # Errors
/// The last error; at once if it is not that the address is in use.
pub fn bind_when_free<T>(
    give_up_at: Instant,
    mut bind: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match bind() {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < give_up_at =>
            {
                std::thread::sleep(FREE_EVERY);
            }
            result => return result,
        }
    }
}
