//! A client that asks for numbered objects, so many of them and no longer: what wrk cannot do. This program again.

pub mod client;

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::bench::generator;
use crate::bench::measured::Measured;
use crate::bench::plan::Target;
use crate::testbed::Testbed;

/// A crowd that brings 10 GB through the slowest peer is done by then.
const TIMEOUT: Duration = Duration::from_secs(180);

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The number of the first object.
    pub first: u64,
    /// Requests in all.
    pub requests: u64,
    /// They go round over so many objects.
    pub objects: u64,
    /// Connections, all opened before the first request; each asks for one object after the other.
    pub connections: usize,
    /// The length that each body must have.
    pub body_bytes: usize,
}

/// What came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fetched {
    /// As of any load; latencies count from the request.
    pub measured: Measured,
    /// From the moment when all connections were open to the end of the first response.
    pub first_us: u64,
    /// The same of the last one.
    pub last_us: u64,
    /// Bytes of all heads.
    pub head_bytes: u64,
}

/// Asks from inside the client's namespace; the object's number is put behind `target.request_target`.
///
/// # Errors
/// When one answer is not 200 with a body of that length, or a connection breaks.
pub async fn run(testbed: &Testbed, target: &Target, wish: &Wish) -> Result<Fetched> {
    let mut command = testbed.this_program(&testbed.client)?;
    command
        .args(["fetch", "--connect", &target.connect])
        .args(["--host", &target.host])
        .args(["--target", &target.request_target])
        .args(["--first", &wish.first.to_string()])
        .args(["--requests", &wish.requests.to_string()])
        .args(["--objects", &wish.objects.to_string()])
        .args(["--connections", &wish.connections.to_string()])
        .args(["--body-bytes", &wish.body_bytes.to_string()]);
    generator::run_own(command, "fetching client", TIMEOUT).await
}

#[cfg(test)]
mod tests;
