//! Tests of grids, loads and estimates.

use super::*;
use crate::experiment::file;
use crate::experiment::spec::Experiment;
use crate::load::plan::{Arrival, Kind};

const TEXT: &str = r#"
name = "x"
title = "x"
about = "x"
[series.carrick-copy]
label = "copy"
[series.persistent]
label = "persistent"
peer = "carrick-copy"
load.requests_per_connection = { fixed = 7 }
[[workload]]
id = "w"
about = "x"
job = "forward"
series = ["carrick-copy", "persistent"]
quick = { samples = 1, warm_up_seconds = 0.1, measured_seconds = 1 }
full = { samples = 10, warm_up_seconds = 20, measured_seconds = "20 * $size / 1024", shutdown_seconds = 20 }
[workload.parameters.clients]
values = [20, 40, 60]
quick = [20, 60]
[workload.parameters.size]
values = [1024, 2048]
[workload.parameters.cache]
values = ["hit", "miss"]
quick = ["hit"]
load.hit.class = [{ name = "a", body_bytes = "$size", kind = { cacheable = { objects = 1 } } }]
load.miss.class = [{ name = "a", body_bytes = "$size" }]
[workload.load]
arrival = { closed = { clients = "$clients + 5" } }
"#;

fn experiment() -> Experiment {
    file::parse(TEXT, "x.toml").unwrap()
}

#[test]
fn a_grid_is_every_combination() {
    let workload = &experiment().workloads[0];
    for (thoroughness, count) in [
        (Thoroughness::Scale(Scale::Full), 12),
        (Thoroughness::Scale(Scale::Quick), 4),
        (Thoroughness::Smoke, 1),
    ] {
        assert_eq!(
            points(workload, thoroughness).len(),
            count,
            "{thoroughness:?}"
        );
    }
    let smoke = &points(workload, Thoroughness::Smoke)[0];
    assert_eq!(
        expression::show_point(smoke),
        "cache hit, clients 20, size 1024"
    );
}

#[test]
fn a_load_is_filled_in_for_point_and_series() {
    let experiment = experiment();
    let workload = &experiment.workloads[0];
    for (word, kind) in [
        ("hit", Kind::Cacheable { objects: 1 }),
        ("miss", Kind::NonCacheable),
    ] {
        let mut point = points(workload, Thoroughness::Smoke).remove(0);
        point.insert(String::from("cache"), Value::Word(word.to_owned()));
        let series = &experiment.series["persistent"];
        let plan =
            try_load_plan(workload, series, &point, Thoroughness::Scale(Scale::Full)).unwrap();
        assert!(
            matches!(plan.arrival, Arrival::Closed { clients: 25, .. }),
            "{:?}",
            plan.arrival
        );
        assert_eq!(
            (plan.classes[0].body_bytes, plan.classes[0].kind),
            (1024, kind)
        );
        assert_eq!(
            plan.requests_per_connection,
            crate::origin::quota::RequestsPerConnection::Fixed(7)
        );
        assert_eq!((plan.warm_up_seconds, plan.measured_seconds), (20.0, 20.0));
    }
}

#[test]
fn the_estimate_grows_with_series_points_and_samples() {
    let workload = &experiment().workloads[0];
    let quick = workload_time(workload, 2, Thoroughness::Scale(Scale::Quick)).as_secs_f64();
    // Two series at four points of 1.1 s, and what starting them takes.
    assert!(
        (quick - (EACH_WORKLOAD_SECONDS + 2.0 * 4.0 * (1.1 + EACH_RUN_SECONDS))).abs() < 1e-6,
        "{quick}"
    );
    let full = workload_time(workload, 1, Thoroughness::Scale(Scale::Full)).as_secs_f64();
    // Ten samples at six points of 60 s and six of 80 s.
    assert!(
        (full
            - (EACH_WORKLOAD_SECONDS + 10.0 * (6.0 * 60.0 + 6.0 * 80.0 + 12.0 * EACH_RUN_SECONDS)))
            .abs()
            < 1e-6,
        "{full}"
    );
    assert_eq!(
        workload_time(workload, 0, Thoroughness::Smoke),
        Duration::ZERO
    );
}

#[test]
fn times_are_shown_in_the_unit_that_fits() {
    for (seconds, text) in [(12, "12 s"), (100, "2 min"), (9000, "2.5 h")] {
        assert_eq!(show_time(Duration::from_secs(seconds)), text);
    }
}
