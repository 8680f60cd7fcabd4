//! Binds to addresses that the previous carrick is about to release.
use std::io;
use std::time::{Duration, Instant};

/// How long it may take until addresses are free that a carrick leaves when it begins to drain.
pub const FREE_WAIT: Duration = Duration::from_secs(1);

const FREE_EVERY: Duration = Duration::from_millis(5);

/// Binds as soon as the address is free, and gives up at that time.
///
/// # Errors
/// What binding says then, or at once if it is not that somebody has the address.
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
