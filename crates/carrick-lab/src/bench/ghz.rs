//! ghz as the load generator, for gRPC: started, and read; and the server of the calls.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::bench::generator;
use crate::bench::measured::{Errors, Latency, Measured};
use crate::bench::plan::{Call, Work};
use crate::command::require;
use crate::testbed::service::Service;
use crate::testbed::{Testbed, cores, files};

/// What it is to know of the service.
const PROTOCOL: &str = include_str!("ghz.proto");
/// Messages of a streamed call.
const MESSAGES: usize = 100;
/// For the server to come up.
const START_TIMEOUT: Duration = Duration::from_secs(15);

/// Starts gRPC's own test server in the server's namespace.
///
/// # Errors
/// When it is not installed, or does not start: with what it said.
pub async fn start_server(testbed: &Testbed) -> Result<Service> {
    let port = testbed.addresses().origin_calls().port();
    let on = cores::list(&testbed.placement().other_cores());
    let program = require("grpc-interop-server")?;
    let mut command = testbed.server.command(&program, &on);
    command.args(["--port", &port.to_string()]);
    let log = testbed.directory().join("calls.log");
    let name = "the server of calls";
    let mut service = Service::start(name, command, &testbed.server, log, false)?;
    service.wait_until_listening(port, START_TIMEOUT).await?;
    Ok(service)
}

/// Runs ghz once in the client's namespace.
///
/// # Errors
/// When ghz cannot be run or does not report; calls that failed are in the result.
pub async fn run(
    testbed: &Testbed,
    work: &Work,
    call: Call,
    connect: &str,
    seconds: f64,
) -> Result<Measured> {
    let protocol = testbed.directory().join("ghz.proto");
    files::write(&protocol, PROTOCOL)?;
    let (method, asked) = match call {
        Call::Unary => (
            "UnaryCall",
            format!("{{\"response_size\":{}}}", work.body_bytes),
        ),
        Call::Stream => {
            let message = format!("{{\"size\":{}}}", work.body_bytes);
            let messages = vec![message; MESSAGES].join(",");
            (
                "StreamingOutputCall",
                format!("{{\"response_parameters\":[{messages}]}}"),
            )
        }
    };
    let (said, _) = generator::run(testbed, &require("ghz")?, seconds, |command, seconds| {
        command
            .arg("--proto")
            .arg(&protocol)
            .args(["--insecure", "--format=json", "--duration-stop=ignore"])
            .arg(format!("--call=grpc.testing.TestService/{method}"))
            .arg(format!("--data={asked}"))
            .arg(format!("--connections={}", work.connections))
            .arg(format!(
                "--concurrency={}",
                work.connections * work.streams.max(1)
            ))
            .arg(format!("--duration={seconds}s"))
            .arg(connect);
    })
    .await?;
    // It is long: each call has a line.
    let report: Report = serde_json::from_str(&said).context("ghz's report cannot be read")?;
    Ok(report.measured(call, work.body_bytes))
}

/// What ghz reports; times in nanoseconds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    total: u64,
    slowest: u64,
    #[serde(default)]
    status_code_distribution: BTreeMap<String, u64>,
    /// Missing if no call was answered.
    latency_distribution: Option<Vec<Quantile>>,
}

#[derive(Debug, Deserialize)]
struct Quantile {
    percentage: u64,
    latency: u64,
}

impl Report {
    fn measured(&self, call: Call, message_bytes: usize) -> Measured {
        let statuses = &self.status_code_distribution;
        let good = statuses.get("OK").copied().unwrap_or(0);
        let bad = statuses.values().sum::<u64>() - good;
        let messages = match call {
            Call::Unary => good,
            Call::Stream => good * MESSAGES as u64,
        };
        let us = |percentage| {
            let mut quantiles = self.latency_distribution.iter().flatten();
            let found = quantiles.find(|one| one.percentage == percentage);
            found.map_or(0.0, |one| one.latency as f64 / 1e3)
        };
        Measured {
            duration_us: self.total / 1000,
            requests: messages,
            bytes: messages * message_bytes as u64,
            errors: Errors {
                status: bad,
                ..Errors::default()
            },
            latency_us: Latency {
                p50: us(50),
                p90: us(90),
                p99: us(99),
                max: self.slowest as f64 / 1e3,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let said = r#"{"count":5,"total":2000000000,"average":5,"fastest":1,"slowest":9000,"rps":2.5,
            "statusCodeDistribution":{"OK":4,"Unavailable":1},"errorDistribution":{"x":1},
            "latencyDistribution":[{"percentage":50,"latency":4000},{"percentage":99,"latency":8000}],
            "details":[]}"#;
        let report: Report = serde_json::from_str(said).unwrap();
        let measured = report.measured(Call::Unary, 1024);
        assert_eq!((measured.requests, measured.bytes), (4, 4096));
        assert_eq!(
            (measured.duration_us, measured.errors.status),
            (2_000_000, 1)
        );
        let latency = &measured.latency_us;
        assert_eq!((latency.p50, latency.p99, latency.max), (4.0, 8.0, 9.0));
        assert_eq!(report.measured(Call::Stream, 10).requests, 400);
    }
}
