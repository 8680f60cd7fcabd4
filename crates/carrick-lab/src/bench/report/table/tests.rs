//! Tests of the table.

use super::*;
use crate::bench::targets::tests::{results, run};

#[test]
fn ratios_verdicts_and_failures_are_shown() {
    let mut failed = run("switch-1k", "nginx", Figure::Rate, 1.0);
    failed.fault = Some(String::from("7 read"));
    let text = render(&results(vec![
        run("switch-1k", JUDGED, Figure::Rate, 100.0),
        run("switch-1k", "haproxy", Figure::Rate, 80.0),
        failed,
    ]));
    for part in [
        "1.25",
        "target: requests/s >= 1.05 x haproxy: 1.25 x, met",
        "FAILED: 7 read",
        "1 met, 0 missed",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn a_partial_result_says_so() {
    let mut partial = results(Vec::new());
    partial.complete = false;
    assert!(render(&partial).contains("PARTIAL"));
}
