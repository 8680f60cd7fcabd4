//! Tests of the table.

use super::*;
use crate::report::verdicts::tests::{cell, cpu, rate, results};

#[test]
fn ratios_verdicts_and_failures_are_shown() {
    let mut failed = rate("switch-1k", "nginx", 1.0);
    failed.failure = Some(String::from("7 read"));
    let mut left_out = rate("cache-hit-1k", "varnish", 1.0);
    left_out.samples.clear();
    left_out.waiting_for = Some(String::from("its program"));
    let text = render(&results(vec![
        rate("switch-1k", JUDGED, 160.0),
        rate("switch-1k", "haproxy", 80.0),
        failed,
        left_out,
    ]));
    for part in [
        "switch, keep-alive, 1 KB (switch-1k)",
        "2.00",
        "target: requests/s >= 1.50 x haproxy: 2.00 x, met",
        "nginx: FAILED: 7 read",
        "1 met, 0 missed",
        "note: varnish is left out, waiting for its program",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("cache-hit-1k"), "{text}");
}

#[test]
fn each_row_has_its_figures_below_the_heads() {
    let text = render(&results(vec![
        rate("switch-1k", JUDGED, 46_000.0),
        rate("switch-1k", "carrick-copy", 40_000.0),
        cpu("switch-1k", JUDGED, 35.0),
    ]));
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let has = |words: &[&str]| lines.iter().any(|line| line == words);
    assert!(
        has(&[
            "carrick-auto",
            "46000",
            "0.0%",
            "1.00",
            "1.15",
            "35.0",
            "0.0%",
            "1.00"
        ]),
        "{text}"
    );
    assert!(
        has(&["carrick-copy", "40000", "0.0%", "1.15", "1.00"]),
        "{text}"
    );
}

#[test]
fn memory_has_the_kernels_beside_it() {
    let split = [
        ("process_bytes_each", 10_000.0),
        ("kernel_slab_bytes_each", 40_000.0),
        ("kernel_socket_bytes_each", 300.0),
    ];
    let text = render(&results(vec![cell("memory-split", JUDGED, &split)]));
    for part in [
        "process memory per idle split connection (memory-split; growth of PSS over 9000 of them",
        "in the kernel's slabs",
        "target: bytes of the processes <= 16384: 10000, met",
        "target: bytes with those of the kernel's slabs <= 42950: 50000, MISSED",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn a_partial_result_says_so() {
    let mut partial = results(Vec::new());
    partial.ended_early = Some(String::from("it did not come to its end"));
    assert!(render(&partial).contains("PARTIAL"));
}
