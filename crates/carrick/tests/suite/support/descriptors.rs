//! Descriptors for tests with thousands of connections: one such test at a time, since all tests share one process and its limit.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Connections of such a test, each with two descriptors in this process.
pub const MANY: usize = 9_000;

/// Descriptors that this process needs for it, in addition to concurrent tests.
const NEEDED: u64 = 2 * MANY as u64 + 1_000;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A lock for tests with [`MANY`] connections. `None`, with a message, if the machine allows too few descriptors.
pub fn turn() -> Option<MutexGuard<'static, ()>> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.maximum.is_some_and(|maximum| maximum < NEEDED)
        || setrlimit(Resource::Nofile, raised).is_err()
    {
        carrick_test::lacks!(
            "{NEEDED} file descriptors are needed, {:?} are allowed",
            limit.maximum
        );
        return None;
    }
    Some(guard)
}
