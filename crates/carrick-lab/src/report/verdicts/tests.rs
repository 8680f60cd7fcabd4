//! Tests of the judgement.

use super::*;
use crate::experiment::catalogue;
use crate::experiment::results::{CORES, Cell, Described, ExperimentResults, Sample};
use crate::experiment::value::Value;
use crate::peers::JUDGED;
use crate::report::fixture;

/// A sample with these metrics, of a row that was measured once.
pub(crate) fn cell(workload: &str, series: &str, metrics: &[(&str, f64)]) -> Cell {
    let is_cpu =
        |name: &&(&str, f64)| name.0.starts_with("cpu") || name.0.starts_with("process_us");
    let cores = if metrics.iter().any(|metric| is_cpu(&metric)) {
        "separate"
    } else {
        "shared"
    };
    let metrics = metrics
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value));
    let sample: Sample = metrics.collect();
    Cell {
        workload: workload.to_owned(),
        series: series.to_owned(),
        parameters: [(CORES.to_owned(), Value::Word(cores.to_owned()))].into(),
        samples: vec![sample],
        ..Cell::default()
    }
}

pub(crate) fn rate(workload: &str, series: &str, value: f64) -> Cell {
    cell(workload, series, &[("requests_per_second", value)])
}

pub(crate) fn cpu(workload: &str, series: &str, value: f64) -> Cell {
    cell(workload, series, &[("cpu_us_per_request", value)])
}

/// Results of the side-by-side benchmark.
pub(crate) fn results(cells: Vec<Cell>) -> ExperimentResults {
    let bench = catalogue::bench().unwrap();
    let labels = bench.labels();
    let workloads = bench.workloads.iter().map(|workload| Described {
        id: workload.id.clone(),
        about: workload.about.clone(),
        samples: 1,
        work: workload.work(),
        targets: workload.targets.clone(),
    });
    ExperimentResults {
        workloads: workloads.collect(),
        series_labels: labels,
        ..fixture::results(cells, bench.figures)
    }
}

#[test]
fn each_peer_is_taken_in_its_best_mode() {
    let results = results(vec![
        rate("switch-1m", JUDGED, 4000.0),
        rate("switch-1m", "routed", 4500.0),
        rate("switch-1m", "haproxy", 1600.0),
        rate("switch-1m", "haproxy-splice", 4500.0),
        rate("switch-1m", "nginx", 2000.0),
        cpu("switch-1m", JUDGED, 200.0),
        cpu("switch-1m", "routed", 190.0),
        cpu("switch-1m", "haproxy", 700.0),
        cpu("switch-1m", "haproxy-splice", 300.0),
    ]);
    let verdicts = judge(&results);
    let summary: Vec<_> = verdicts
        .iter()
        .map(|verdict| (verdict.best.unwrap().0, verdict.target.what, verdict.met))
        .collect();
    assert_eq!(
        summary,
        [
            ("routed", What::Rate, true),
            ("haproxy-splice", What::Rate, false),
            ("routed", What::Cpu, true)
        ]
    );
    assert!((verdicts[1].ratio - 4000.0 / 4500.0).abs() < 1e-9);
}

#[test]
fn a_failed_run_takes_the_cell_out_of_the_judgement() {
    let mut failed = rate("tunnel-1k", JUDGED, 1e6);
    failed.failure = Some("3 read errors".into());
    let results = results(vec![failed, rate("tunnel-1k", "haproxy", 1.0)]);
    assert!(judge(&results).is_empty());
}

#[test]
fn the_engine_socket_is_judged_by_round_trips_latency_and_its_process() {
    let of = |series, rate, p50| {
        cell(
            "ping-64",
            series,
            &[("requests_per_second", rate), ("latency_p50_ms", p50)],
        )
    };
    let cpu = |series, core, process| {
        cell(
            "ping-64",
            series,
            &[
                ("cpu_us_per_request", core),
                ("process_us_per_request", process),
            ],
        )
    };
    let results = results(vec![
        of("carrick-copy", 10_000.0, 0.08),
        of("carrick-socket", 16_000.0, 0.09),
        cpu("carrick-copy", 20.0, 10.0),
        cpu("carrick-socket", 12.0, 0.4),
        // Not asked about.
        of(JUDGED, 5_000.0, 0.08),
    ]);
    let summary: Vec<_> = judge(&results)
        .iter()
        .map(|verdict| (verdict.target.of.clone(), verdict.target.what, verdict.met))
        .collect();
    let of_socket = |what, met| (String::from("carrick-socket"), what, met);
    assert_eq!(
        summary,
        [
            of_socket(What::Rate, true),
            of_socket(What::Latency, false),
            of_socket(What::Process, true),
        ]
    );
}

#[test]
fn a_crowd_is_judged_by_fetches_and_by_its_last_client() {
    let met = |asked, last| -> Vec<(What, bool)> {
        let crowd = [
            ("origin_requests", asked),
            ("crowd_first_ms", 1000.0),
            ("crowd_last_ms", last),
        ];
        let results = results(vec![cell("cache-crowd-10m", JUDGED, &crowd)]);
        let verdicts = judge(&results);
        let each = verdicts.iter();
        each.map(|verdict| (verdict.target.what, verdict.met))
            .collect()
    };
    assert_eq!(
        met(1.0, 1100.0),
        [(What::Fetches, true), (What::LastToFirst, true)]
    );
    assert_eq!(
        met(2.0, 1300.0),
        [(What::Fetches, false), (What::LastToFirst, false)]
    );
}

#[test]
fn memory_is_judged_alone_and_with_the_kernels() {
    let split = [
        ("process_bytes_each", 10_000.0),
        ("kernel_slab_bytes_each", 40_000.0),
    ];
    let results = results(vec![cell("memory-split", JUDGED, &split)]);
    let verdicts = judge(&results);
    let found: Vec<_> = verdicts
        .iter()
        .map(|verdict| (verdict.target.what, verdict.ratio, verdict.met))
        .collect();
    assert_eq!(
        found,
        [
            (What::Memory, 10_000.0, true),
            (What::MemoryAndKernel, 50_000.0, false)
        ]
    );
}
