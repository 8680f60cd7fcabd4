//! Tests of what goes into which picture.

use super::*;
use crate::bench::targets::tests::{results, run};

#[test]
fn a_file_for_each_job_that_was_measured() {
    let results = results(vec![
        run("switch-1k", JUDGED, Figure::Rate, 100.0),
        run("switch-1k", "haproxy", Figure::Rate, 90.0),
        run("tunnel-1k", "haproxy", Figure::Cpu, 20.0),
    ]);
    let names: Vec<String> = render(&results).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["switch.svg", "tunnel.svg"]);
}

#[test]
fn the_target_is_drawn_at_the_factor_of_the_best_peer() {
    let results = results(vec![
        run("switch-1k", JUDGED, Figure::Rate, 100.0),
        run("switch-1k", "haproxy", Figure::Rate, 80.0),
        run("switch-1k", "nginx", Figure::Rate, 60.0),
    ]);
    let work = crate::bench::works::named("switch-1k").unwrap();
    assert!((target_value(&results, &work, Figure::Rate).unwrap() - 84.0).abs() < 1e-9);
    assert_eq!(target_value(&results, &work, Figure::Cpu), None);
}

#[test]
fn the_target_of_another_row_is_not_drawn_at_ours() {
    let results = results(vec![
        run("switch-10k", JUDGED, Figure::Rate, 100.0),
        run("switch-10k", "carrick-packet", Figure::Rate, 100.0),
        run("switch-10k", "haproxy", Figure::Rate, 80.0),
    ]);
    assert!(!judge(&results).is_empty());
    let work = crate::bench::works::named("switch-10k").unwrap();
    assert_eq!(target_value(&results, &work, Figure::Rate), None);
}
