//! HTTPS requests of which each has a new connection, with the session of the one before: what wrk cannot do. This program
//! again.

pub mod client;

use std::time::Duration;

use anyhow::Result;

use crate::bench::generator::{self, GRACE};
use crate::bench::measured::Measured;
use crate::bench::plan::{Target, Work};
use crate::testbed::Testbed;

/// Asks from inside the client's namespace.
///
/// # Errors
/// When a connection fails or does not resume the session, or an answer is not 200 with a body of the right length.
pub async fn run(
    testbed: &Testbed,
    work: &Work,
    target: &Target,
    seconds: f64,
) -> Result<Measured> {
    let time = Duration::try_from_secs_f64(seconds)?;
    let mut command = testbed.this_program(&testbed.client)?;
    command
        .args(["resume", "--connect", &target.connect])
        .args(["--host", &target.host])
        .args(["--target", &target.request_target])
        .args(["--connections", &work.connections.to_string()])
        .args(["--body-bytes", &work.body_bytes.to_string()])
        .args(["--milliseconds", &time.as_millis().to_string()]);
    generator::run_own(command, "resuming client", time + GRACE).await
}

#[cfg(test)]
mod tests;
