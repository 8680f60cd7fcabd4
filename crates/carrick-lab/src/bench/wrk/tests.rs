//! Tests of reading and judging what wrk says.

use super::*;
use crate::bench::plan::{Does, Work};

const GET: Work = Work {
    does: Does::Get,
    connections: 16,
    idle_connections: 0,
    body_bytes: 1024,
    close: false,
    resumes: false,
    streams: 0,
};

const SAID: &str = "Running 3s test @ http://10.77.1.1:8080/\nRESULT {\"duration_us\":2000000,\"requests\":100,\"bytes\":130000,\
\"errors\":{\"connect\":0,\"read\":0,\"write\":0,\"timeout\":0,\"status\":0},\
\"latency_us\":{\"p50\":5,\"p90\":6,\"p99\":7,\"max\":8}}\n";

#[test]
fn a_result_is_found_among_other_output() {
    let measured = parse(SAID).unwrap();
    assert!((measured.requests_per_second() - 50.0).abs() < 1e-9);
    assert_eq!(measured.fault(&GET), None);
    assert!(parse("Running 3s test\n").is_err());
}

#[test]
fn faults_of_a_run_are_named() {
    let mut measured = parse(SAID).unwrap();
    measured.errors.read = 3;
    assert!(measured.fault(&GET).unwrap().contains("3 read"));

    let mut measured = parse(SAID).unwrap();
    measured.bytes = 50_000;
    assert!(measured.fault(&GET).unwrap().contains("500 bytes each"));

    let mut measured = parse(SAID).unwrap();
    measured.requests = 0;
    assert!(measured.fault(&GET).is_some());
}
