//! What the tests of all crates share: a test that cannot be run here says which one it is, and why; waits and listeners that do not wait for
//! ever.
//!
//! The lines go to standard error, and to the file that the environment variable `CARRICK_SKIPPED` names, of which `make test` shows them
//! at its end. With `CARRICK_REQUIRE_ROOT=1` what [`skip!`] would leave out fails, so that nobody takes a run without root for a whole one.
#![forbid(unsafe_code)]
#![expect(clippy::panic, clippy::print_stderr, reason = "it is for tests")]
mod programs;
mod random;

pub use programs::{EndInTime, Killed, RunInTime};
pub use random::{Random, mix};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::fmt::Arguments;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Time limit for whatever a test waits for: only a hang reaches it, also on a machine that does other work.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Polls `condition` until it has an answer, the less often the longer that takes. For events that cannot be awaited otherwise.
///
/// # Panics
/// With `what`, after [`PATIENCE`].
#[track_caller]
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = condition() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "timed out waiting for {what}");
        std::thread::sleep(pause(begun.elapsed()));
    }
}

/// Polls `is_so` until it holds, like [`wait_for`].
///
/// # Panics
/// With `what`, after [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// Until the next look at something that was waited for this long.
#[must_use]
pub fn pause(waited: Duration) -> Duration {
    (waited / 8).clamp(Duration::from_millis(1), Duration::from_millis(50))
}

/// With `1`, [`is_root`] says that nobody is: `make test-quick`.
const QUICK: &str = "CARRICK_QUICK";

/// Whether the running test may do what only root can; otherwise it is skipped.
///
/// # Panics
/// As [`skip!`].
#[must_use]
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root() && !is_set(QUICK);
    if !is_root {
        skip!("it is for root");
    }
    is_root
}

/// The congestion controls that `net.ipv4.tcp_available_congestion_control` lists, without those that a laboratory beside this test has
/// brought (`rfc3465_0001234`, by its pid): the whole machine sees them, and they go when it ends.
pub fn congestion_controls(listed: &str) -> impl Iterator<Item = &str> {
    let is_lasting = |name: &&str| !name.contains('_');
    listed.split_whitespace().filter(is_lasting)
}

/// Leaves out the running test, or the rest of it, for want of root, of what root has on every kernel that carrick is for, or of a program that `make test` installs. The caller returns.
///
/// # Panics
/// With `CARRICK_REQUIRE_ROOT=1`.
#[macro_export]
macro_rules! skip {
    ($($words:tt)*) => { $crate::leave_out(format_args!($($words)*), true) };
}

/// Leaves out the running test, or the rest of it: this kernel or machine lacks something that `make test` cannot install. The caller returns.
#[macro_export]
macro_rules! lacks {
    ($($words:tt)*) => { $crate::leave_out(format_args!($($words)*), false) };
}

#[doc(hidden)]
pub fn leave_out(reason: Arguments<'_>, may_fail: bool) {
    // The test harness names threads by their tests.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    assert!(
        !(may_fail && is_set("CARRICK_REQUIRE_ROOT")),
        "{test} cannot be skipped here: {reason}"
    );
    let line = format!("skipped: {test}: {reason}\n");
    eprint!("{line}");
    let Some(path) = std::env::var_os("CARRICK_SKIPPED") else {
        return;
    };
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!(
            "CARRICK_SKIPPED: cannot write to {}: {error}",
            path.display()
        );
    }
}

/// Binds a socket to an address of which the last socket is closed. A program that another test starts meanwhile has it still, from fork(2) to
/// execve(2).
///
/// # Errors
/// Of `bind`; that the address is in use, after [`PATIENCE`].
pub fn until_free<T>(bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse && begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => return bound,
        }
    }
}

/// Listens here once the address is [free](until_free). If nothing connects, `accept` fails after [`PATIENCE`], and so does a read from a connection
/// that it returns, which inherits the limit (`SO_RCVTIMEO`).
///
/// # Panics
/// If it cannot.
#[must_use]
pub fn listen(address: impl ToSocketAddrs) -> TcpListener {
    let listening = until_free(|| TcpListener::bind(&address)).and_then(|listener| {
        set_socket_timeout(&listener, Timeout::Recv, Some(PATIENCE))?;
        Ok(listener)
    });
    listening.unwrap_or_else(|error| panic!("cannot listen: {error}"))
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == "1")
}
