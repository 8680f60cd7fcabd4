//! Tests of the judgement.

use super::*;
use crate::bench::results::{Crowd, Run, Settings};
use crate::bench::works::named;
use crate::bench::wrk::{Errors, Latency, Measured};
use crate::peers::by_name;
use crate::testbed::busy::Busy;
use crate::testbed::cores::CorePair;

pub(crate) fn run(work: &str, peer: &str, figure: Figure, value: f64) -> Run {
    let (requests, busy_seconds) = match figure {
        Figure::Rate => (value as u64, 0.0),
        Figure::Cpu => (1_000_000, value),
    };
    Run {
        repetition: 1,
        work: work.into(),
        peer: peer.into(),
        figure,
        measured: Some(Measured {
            duration_us: 1_000_000,
            requests,
            bytes: requests * 2048,
            errors: Errors::default(),
            latency_us: Latency::default(),
        }),
        busy: Some(Busy {
            wall_seconds: 1.0,
            busy_seconds,
            stolen_seconds: 0.0,
            sampled_seconds: 0.0,
            taken_seconds: 0.0,
        }),
        process_seconds: None,
        engine_share: None,
        foreign_cores: None,
        connections: None,
        origin_requests: None,
        crowd: None,
        fault: None,
    }
}

pub(crate) fn results(runs: Vec<Run>) -> Results {
    Results {
        complete: true,
        started_unix_seconds: 0,
        settings: Settings {
            command: String::new(),
            repetitions: 1,
            seconds: 1,
            cores: CorePair { other: 0, proxy: 1 },
            congestion_control: "cubic".into(),
        },
        machine: crate::testbed::machine::Machine::default(),
        versions: std::collections::BTreeMap::new(),
        calibration: None,
        notes: Vec::new(),
        runs,
        memory: Vec::new(),
    }
}

#[test]
fn each_peer_is_taken_in_its_best_mode() {
    let results = results(vec![
        run("switch-1m", JUDGED, Figure::Rate, 4000.0),
        run("switch-1m", "haproxy", Figure::Rate, 1600.0),
        run("switch-1m", "haproxy-splice", Figure::Rate, 4500.0),
        run("switch-1m", "nginx", Figure::Rate, 2000.0),
        run("switch-1m", JUDGED, Figure::Cpu, 200.0),
        run("switch-1m", "haproxy", Figure::Cpu, 700.0),
        run("switch-1m", "haproxy-splice", Figure::Cpu, 300.0),
    ]);
    let verdicts = judge(&results);
    let summary: Vec<_> = verdicts
        .iter()
        .map(|verdict| (verdict.best_peer, verdict.what, verdict.met))
        .collect();
    assert_eq!(
        summary,
        [
            ("haproxy-splice", What::Rate, false),
            ("nginx", What::Rate, true),
            ("haproxy-splice", What::Cpu, true)
        ]
    );
    assert!((verdicts[0].ratio - 4000.0 / 4500.0).abs() < 1e-9);
}

#[test]
fn a_failed_run_takes_the_cell_out_of_the_judgement() {
    let mut failed = run("tunnel-1k", JUDGED, Figure::Rate, 1e6);
    failed.fault = Some("3 read errors".into());
    let results = results(vec![
        run("tunnel-1k", JUDGED, Figure::Rate, 1e6),
        failed,
        run("tunnel-1k", "haproxy", Figure::Rate, 1.0),
    ]);
    assert!(judge(&results).is_empty());
    assert!(results.has_faults());
}

#[test]
fn every_target_names_a_work_that_its_row_does() {
    for target in TARGETS {
        let work = named(target.work).unwrap_or_else(|| panic!("{}", target.work));
        let own = by_name(target.own).unwrap_or_else(|| panic!("{}", target.own));
        assert!(work.is_for(&own), "{} of {}", target.work, target.own);
        // The others are named by whoever wants to know.
        assert!(
            work.by_default || own.engine() == Some("packet"),
            "{}",
            target.work
        );
    }
}

#[test]
fn the_packet_engine_is_judged_by_its_own_rows_and_against_routing() {
    let results = results(vec![
        run("switch-10k", "routed", Figure::Rate, 100_000.0),
        run("switch-10k", "carrick-packet", Figure::Rate, 50_000.0),
        run("switch-10k", "carrick-judged", Figure::Rate, 80_000.0),
        run("switch-10k", "haproxy", Figure::Rate, 40_000.0),
        run("switch-10k", "nginx", Figure::Rate, 30_000.0),
    ]);
    let summary: Vec<_> = judge(&results)
        .iter()
        .map(|verdict| (verdict.own, verdict.best_peer, verdict.met))
        .collect();
    assert_eq!(
        summary,
        [
            ("carrick-packet", "haproxy", false),
            ("carrick-judged", "routed", false),
            ("carrick-judged", "haproxy", true),
        ]
    );
}

#[test]
fn the_socket_engine_is_judged_by_its_own_row() {
    let of = |peer, figure, value, process_seconds, p50| {
        let mut run = run("ping-64", peer, figure, value);
        run.process_seconds = Some(process_seconds);
        if let Some(measured) = &mut run.measured {
            measured.latency_us.p50 = p50;
            measured.latency_us.p99 = p50;
        }
        run
    };
    let results = results(vec![
        of("carrick-copy", Figure::Rate, 10_000.0, 0.0, 80.0),
        of("carrick-socket", Figure::Rate, 16_000.0, 0.0, 90.0),
        of("carrick-copy", Figure::Cpu, 20.0, 10.0, 80.0),
        of("carrick-socket", Figure::Cpu, 12.0, 0.4, 50.0),
        // Not asked about.
        of(JUDGED, Figure::Rate, 5_000.0, 0.0, 80.0),
    ]);
    let summary: Vec<_> = judge(&results)
        .iter()
        .map(|verdict| (verdict.own, verdict.what, verdict.met))
        .collect();
    assert_eq!(
        summary,
        [
            ("carrick-socket", What::Rate, true),
            ("carrick-socket", What::Latency, false),
            ("carrick-socket", What::Process, true),
        ]
    );
}

#[test]
fn a_crowd_is_judged_by_fetches_and_by_its_last_client() {
    let of = |origin_requests, last_us| {
        let mut run = run("cache-crowd-10m", JUDGED, Figure::Rate, 100.0);
        run.origin_requests = Some(origin_requests);
        run.crowd = Some(Crowd {
            first_us: 1_000_000,
            last_us,
        });
        run
    };
    let met = |run| -> Vec<(What, bool)> {
        judge(&results(vec![run]))
            .iter()
            .map(|verdict| (verdict.what, verdict.met))
            .collect()
    };
    assert_eq!(
        met(of(1, 1_100_000)),
        [(What::Fetches, true), (What::LastToFirst, true)]
    );
    assert_eq!(
        met(of(2, 1_300_000)),
        [(What::Fetches, false), (What::LastToFirst, false)]
    );
}

#[test]
fn streams_are_counted_in_bytes() {
    let of = |figure, bytes, busy_seconds| {
        let mut run = run("bulk-1", "carrick-pipe", figure, busy_seconds);
        if let Some(measured) = &mut run.measured {
            measured.bytes = bytes;
            measured.requests = bytes >> 20;
        }
        run
    };
    let rate = of(Figure::Rate, 1_250_000_000, 0.0);
    assert_eq!(rate.value(), Some(10.0), "Gbit/s");
    let mut cpu = of(Figure::Cpu, 2_000_000_000, 0.5);
    assert_eq!(cpu.value(), Some(250.0), "ms/GB");
    cpu.process_seconds = Some(0.1);
    assert_eq!(cpu.process_value(), Some(50.0), "ms/GB");
    assert_eq!(rate.process_value(), None);
}
