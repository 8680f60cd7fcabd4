//! Tests of cells that follow from others.

use super::*;
use crate::experiment::file;
use crate::load::outcome::{ClassOutcome, Latency};

const TEXT: &str = r#"
name = "x"
title = "x"
about = "x"
[series.routed]
label = "no proxy"
[series.split]
label = "split"
peer = "carrick-pipe"
[[workload]]
id = "w"
about = "x"
job = "tunnel"
series = ["routed", "split"]
distribution = { id = "w-distribution", percentiles = [50.0, 100.0] }
by_class = { id = "w-classes" }
[workload.load]
arrival = { closed = { clients = 1 } }
class = [{ name = "file", body_bytes = 1000 }]
[workload.quick]
samples = 1
measured_seconds = 1
[workload.full]
samples = 1
measured_seconds = 1
[[workload.derived]]
name = "gos"
how = "gain"
of = "split"
against = "routed"
[[workload.derived]]
name = "slower_percent"
how = "slower_percent"
of = "split"
against = "routed"
"#;

fn outcome(histogram_us: &[(u64, u64)]) -> LoadOutcome {
    let count: u64 = histogram_us.iter().map(|(_, count)| count).sum();
    let sum: u64 = histogram_us
        .iter()
        .map(|(value, count)| value * count)
        .sum();
    LoadOutcome {
        measured_seconds: 1.0,
        classes: vec![ClassOutcome {
            name: String::from("file"),
            completed: count,
            body_bytes: 1000 * count,
            latency: Latency {
                count,
                mean_ms: sum as f64 / count as f64 / 1000.0,
                histogram_us: histogram_us.to_vec(),
                ..Latency::default()
            },
            ..ClassOutcome::default()
        }],
        ..LoadOutcome::default()
    }
}

fn cell(series: &str, outcome: &LoadOutcome) -> Cell {
    Cell {
        workload: String::from("w"),
        series: series.to_owned(),
        samples: vec![crate::experiment::metrics::of_load(outcome, &[1000])],
        ..Cell::default()
    }
}

#[test]
fn series_are_compared_sample_by_sample() {
    let experiment = file::parse(TEXT, "x.toml").unwrap();
    let (routed, split) = (
        outcome(&[(40_000, 2)]),
        outcome(&[(10_000, 1), (50_000, 1)]),
    );
    let mut cells = vec![cell("routed", &routed), cell("split", &split)];
    let mut outcomes = Outcomes::default();
    outcomes.add("routed", &Point::new(), routed, vec![1000]);
    outcomes.add("split", &Point::new(), split, vec![1000]);
    compare(&experiment.workloads[0], &mut cells, &outcomes);
    // 1,000 bytes in 30 ms against 40 ms.
    assert!((cells[1].samples[0]["gos"] - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!(cells[1].samples[0]["slower_percent"], 50.0);
    assert!(!cells[0].samples[0].contains_key("gos"));
}

#[test]
fn percentiles_and_classes_become_cells() {
    let experiment = file::parse(TEXT, "x.toml").unwrap();
    let split = outcome(&[(10_000, 1), (50_000, 1)]);
    let waiting = Cell {
        workload: String::from("w"),
        series: String::from("routed"),
        waiting_for: Some(String::from("the splitter")),
        ..Cell::default()
    };
    let cells = vec![waiting, cell("split", &split)];
    let mut outcomes = Outcomes::default();
    outcomes.add("split", &Point::new(), split, vec![1000]);
    let further = further_cells(&experiment.workloads[0], &cells, &outcomes);
    let names: Vec<(&str, &str)> = further
        .iter()
        .map(|cell| (cell.workload.as_str(), cell.series.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            ("w-distribution", "routed"),
            ("w-distribution", "routed"),
            ("w-classes", "routed"),
            ("w-distribution", "split"),
            ("w-distribution", "split"),
            ("w-classes", "split"),
        ]
    );
    assert!(further[0].waiting_for.is_some() && further[0].samples.is_empty());
    assert_eq!(further[3].samples[0]["latency_ms"], 10.0);
    assert_eq!(further[4].parameters["percentile"], Value::Number(100.0));
    assert_eq!(further[4].samples[0]["latency_ms"], 50.0);
    assert_eq!(further[5].parameters["class_bytes"], Value::Number(1000.0));
}
