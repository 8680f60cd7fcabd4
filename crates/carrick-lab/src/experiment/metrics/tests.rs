//! Tests of the metrics.

use super::*;

fn latency(histogram_us: &[(u64, u64)]) -> Latency {
    let count: u64 = histogram_us.iter().map(|(_, count)| count).sum();
    let sum: u64 = histogram_us
        .iter()
        .map(|(value, count)| value * count)
        .sum();
    Latency {
        count,
        mean_ms: sum as f64 / count as f64 / 1000.0,
        histogram_us: histogram_us.to_vec(),
        ..Latency::default()
    }
}

fn class(name: &str, body_bytes: u64, histogram_us: &[(u64, u64)]) -> ClassOutcome {
    let latency = latency(histogram_us);
    ClassOutcome {
        name: name.to_owned(),
        completed: latency.count,
        body_bytes,
        latency,
        ..ClassOutcome::default()
    }
}

#[test]
fn rates_latencies_and_cpu_follow_from_the_outcome() {
    let outcome = LoadOutcome {
        measured_seconds: 2.0,
        classes: vec![
            class("cache-hit", 1000, &[(1_000, 10)]),
            class("miss", 3000, &[(3_000, 10)]),
        ],
        connections: 20,
        late: 0,
    };
    let mut sample = of_load(&outcome, &[50, 150]);
    add_busy(&mut sample, 0.25, 0.5);
    for (name, value) in [
        ("requests_per_second", 10.0),
        ("connections_per_second", 10.0),
        ("throughput_bytes_per_second", 2000.0),
        ("latency_mean_ms", 2.0),
        ("latency_cache_hit_mean_ms", 1.0),
        ("latency_miss_mean_ms", 3.0),
        ("latency_p50_ms", 1.0),
        ("latency_p99_ms", 3.0),
        // 20 requests of 100 bytes on average, each of 2 ms on average; more was received than was completed.
        ("download_bytes_per_second", 50_000.0),
        ("utilization_percent", 50.0),
        ("proxy_core_percent", 25.0),
        ("cpu_us_per_request", 12_500.0),
        ("cpu_percent_per_request", 5.0),
    ] {
        assert!(
            (sample[name] - value).abs() < 1e-9,
            "{name}: {}",
            sample[name]
        );
    }
}

#[test]
fn without_a_response_there_is_no_latency() {
    let outcome = LoadOutcome {
        measured_seconds: 1.0,
        classes: vec![ClassOutcome::default()],
        ..LoadOutcome::default()
    };
    let mut sample = of_load(&outcome, &[100]);
    add_busy(&mut sample, 1.0, 0.1);
    assert!(!sample.contains_key("latency_mean_ms"));
    assert!(!sample.contains_key("cpu_us_per_request"));
    assert_eq!(sample["requests_per_second"], 0.0);
}

#[test]
fn superiority_counts_pairs() {
    let one = merged([latency(&[(10, 1), (30, 1)])].iter());
    let other = merged([latency(&[(20, 1), (30, 1)])].iter());
    // Of the four pairs one is greater (30 > 20) and one equal.
    assert_eq!(one.greater_percent(&other), Some(37.5));
    assert_eq!(other.greater_percent(&one), Some(62.5));
    assert_eq!(one.greater_percent(&Merged::default()), None);
}
