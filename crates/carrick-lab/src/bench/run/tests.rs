//! Tests of the judgement over a sample, and of what its metrics are counted in.

use super::*;
use crate::bench::measured::{Errors, Latency};
use crate::testbed::busy::Source;

const GET: Work = Work {
    does: Does::Get,
    connections: 16,
    idle_connections: 0,
    body_bytes: 1024,
    close: false,
    resumes: false,
    streams: 0,
};

fn measured(requests: u64, bytes: u64) -> Measured {
    Measured {
        duration_us: 1_000_000,
        requests,
        bytes,
        errors: Errors::default(),
        latency_us: Latency {
            p50: 80.0,
            ..Latency::default()
        },
    }
}

fn cpu(core_busy_seconds: f64, process_seconds: f64) -> ProxyCpu {
    ProxyCpu {
        wall_seconds: 1.0,
        busy_seconds: 0.0,
        core_busy_seconds,
        taken_seconds: 0.0,
        background_share: 0.9,
        stolen_seconds: 0.0,
        process_seconds,
        source: Source::Stat,
        foreign_cores: 0.0,
        backlog_dropped: 0,
    }
}

#[test]
fn new_connections_must_be_new() {
    let close = Work { close: true, ..GET };
    assert_eq!(connection_fault(&close, 1000, 1016), None);
    assert!(connection_fault(&close, 1000, 16).is_some_and(|fault| fault.contains("only 16")));
    assert_eq!(connection_fault(&GET, 1000, 16), None);
}

#[test]
fn streams_are_counted_in_bytes() {
    let stream = Work {
        does: Does::Talk(Talk::Stream),
        ..GET
    };
    let sample = metrics_of(&stream, &measured(1192, 1_250_000_000), None);
    let rate = [(String::from("throughput_bytes_per_second"), 1.25e9)];
    assert_eq!(sample, rate.into());
    let sample = metrics_of(
        &stream,
        &measured(1907, 2_000_000_000),
        Some(&cpu(0.5, 0.1)),
    );
    assert_eq!(sample["cpu_ms_per_gigabyte"], 250.0);
    assert_eq!(sample["process_ms_per_gigabyte"], 50.0);
}

#[test]
fn requests_have_a_rate_a_latency_and_the_cpu_of_each() {
    let sample = metrics_of(&GET, &measured(100_000, 1 << 30), Some(&cpu(0.5, 0.1)));
    let expected = [
        ("cpu_us_per_request", 5.0),
        ("latency_p50_ms", 0.08),
        ("process_us_per_request", 1.0),
        ("requests_per_second", 100_000.0),
    ];
    assert_eq!(
        sample,
        expected
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    );
}
