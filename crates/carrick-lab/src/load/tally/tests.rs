//! Tests of counts and histograms.

use super::*;
use crate::load::plan::Kind as ClassKind;
use crate::load::work::tests::{CLOSED, class, plan};

pub(in crate::load) fn tally(plan: &LoadPlan) -> Tally {
    Tally::new(plan, Arc::new(Targets::new(plan))).unwrap()
}

fn completed(ms: u64) -> Ending {
    Ending {
        first_byte_ns: ms * 500_000,
        ended_ns: ms * 1_000_000,
        result: Ok(Finish::Completed),
    }
}

#[test]
fn latencies_of_a_known_distribution() {
    let plan = plan(CLOSED, vec![class("a", ClassKind::NonCacheable, 1.0)]);
    let (mut one, mut two) = (tally(&plan), tally(&plan));
    one.is_measuring = true;
    two.is_measuring = true;
    for ms in 1..=1000 {
        let tally = if ms % 2 == 0 { &mut one } else { &mut two };
        tally.ended(&Request::default(), &completed(ms));
        tally.received(0, 10);
    }
    one.add(&two).unwrap();
    let outcome = one.outcome(2.0);
    let latency = &outcome.classes[0].latency;
    assert_eq!(
        (latency.count, outcome.classes[0].body_bytes),
        (1000, 10_000)
    );
    assert!((outcome.requests_per_second() - 500.0).abs() < 1e-9);
    // Of 1, 2, … 1000: the histogram is off by a thousandth at most.
    let near = |value: f64, expected: f64| {
        assert!(
            (value / expected - 1.0).abs() < 2e-3,
            "{value} instead of {expected}"
        );
    };
    near(latency.mean_ms, 500.5);
    near(latency.deviation_ms, (999_999.0_f64 / 12.0).sqrt());
    near(latency.min_ms, 1.0);
    near(latency.p50_ms, 500.0);
    near(latency.p90_ms, 900.0);
    near(latency.p99_ms, 990.0);
    near(latency.p999_ms, 999.0);
    near(latency.max_ms, 1000.0);
    near(outcome.classes[0].first_byte.p50_ms, 250.0);
    assert_eq!(
        latency
            .histogram_us
            .iter()
            .map(|(_, count)| count)
            .sum::<u64>(),
        1000
    );
    assert!(latency.histogram_us.is_sorted());
}

#[test]
fn failures_are_counted_by_kind_and_the_first_is_told() {
    let plan = plan(CLOSED, vec![class("a", ClassKind::NonCacheable, 1.0)]);
    let mut tally = tally(&plan);
    let request = Request {
        seed: 9,
        body_bytes: 5,
        ..Request::default()
    };
    tally.failed(&request, &Fault::Status(500));
    assert_eq!(tally.failures(), (0, None), "not measuring yet");
    tally.is_measuring = true;
    tally.failed(
        &request,
        &Fault::WrongByte {
            at: 3,
            received: 1,
            expected: 2,
        },
    );
    tally.failed(&request, &Fault::Status(503));
    tally.failed(&request, &Fault::Status(503));
    tally.ended(
        &request,
        &Ending {
            result: Ok(Finish::Aborted),
            ..completed(1)
        },
    );
    let class = &tally.outcome(1.0).classes[0];
    let counts: Vec<(&str, u64)> = class
        .failed
        .iter()
        .map(|(kind, count)| (kind.as_str(), *count))
        .collect();
    assert_eq!(counts, [("status_503", 2), ("wrong_byte", 1)]);
    assert_eq!(
        (class.aborted, class.completed, class.latency.count),
        (1, 0, 0)
    );
    assert_eq!(
        class.first_failure.as_deref(),
        Some(
            "GET /b/5?cache=no-store&seed=9: byte 3 of the body (counted from 0) is 0x01 instead of 0x02"
        )
    );
}
