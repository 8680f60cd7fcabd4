//! Tests of shorter runs and of runs of a part.

use super::*;
use crate::experiment::file;
use crate::experiment::results::Scale;
use crate::experiment::schedule::{points, workload_time};
use crate::experiment::spec::Thoroughness;

const TEXT: &str = r#"
name = "x"
title = "x"
about = "x"
[series.carrick-copy]
label = "copy"
[[workload]]
id = "pages"
about = "x"
job = "forward"
series = ["carrick-copy"]
quick = { samples = 1, warm_up_seconds = 0.1, measured_seconds = 1 }
full = { samples = 10, warm_up_seconds = 20, measured_seconds = "20 * $size / 1024", shutdown_seconds = 20 }
[workload.parameters.size]
values = [1024, 2048]
quick = [512]
[workload.parameters.cache]
values = ["hit", "miss"]
quick = ["hit"]
[workload.load]
arrival = { closed = { clients = 5 } }
class = [{ name = "a", body_bytes = "$size" }]
[[workload]]
id = "clients"
about = "x"
job = "forward"
series = ["carrick-copy"]
quick = { samples = 1, measured_seconds = 1 }
full = { samples = 2, measured_seconds = 10 }
[workload.parameters.clients]
values = [1, 2]
[workload.load]
arrival = { closed = { clients = "$clients" } }
class = [{ name = "a", body_bytes = 1 }]
[[figure]]
id = "f"
number = "Figure 1"
title = "x"
workload = "clients"
x = { name = "clients", label = "x" }
y = { name = "requests_per_second", label = "y" }
[figure.published]
claims = ["x"]
"#;

const FULL: Thoroughness = Thoroughness::Scale(Scale::Full);

fn of(wheres: &[&str]) -> Selection {
    let mut selection = Selection::default();
    for text in wheres {
        selection.add(text).unwrap();
    }
    selection
}

fn applied(selection: &Selection) -> Result<Vec<Experiment>> {
    let mut experiments = vec![file::parse(TEXT, "x.toml").unwrap()];
    selection.apply(&mut experiments)?;
    Ok(experiments)
}

#[test]
fn seconds_and_samples_replace_those_of_the_grid_and_the_estimate_follows() {
    let selection = Selection {
        seconds: Some(3.0),
        samples: Some(2),
        ..Selection::default()
    };
    let experiments = applied(&selection).unwrap();
    let pages = &experiments[0].workloads[0];
    let effort = pages.effort(FULL);
    assert_eq!((effort.samples, effort.warm_up_seconds), (2, 3.0));
    assert!(matches!(effort.measured_seconds, Amount::Number(3.0)));
    // Four points, two samples of 3 + 3 + 20 seconds, and half a second around each; a second for the test bed.
    assert_eq!(
        workload_time(pages, 1, FULL).as_secs_f64(),
        1.0 + 8.0 * 26.5
    );
    let quick = pages.effort(Thoroughness::Scale(Scale::Quick));
    assert_eq!(quick.warm_up_seconds, 0.1, "a shorter warm-up stays");
}

#[test]
fn only_the_points_that_were_named_are_left() {
    let experiments = applied(&of(&["size=2048", "cache=miss", "cache=hit"])).unwrap();
    let [pages] = experiments[0].workloads.as_slice() else {
        panic!("the workload without these parameters is left out");
    };
    assert!(experiments[0].figures.is_empty(), "its figure, too");
    for thoroughness in [FULL, Thoroughness::Scale(Scale::Quick)] {
        let points = points(pages, thoroughness);
        assert_eq!(points.len(), 2, "{points:?}");
        assert!(
            points
                .iter()
                .all(|point| point["size"] == Value::Number(2048.0))
        );
    }
    let quick_only = applied(&of(&["size=512"])).unwrap();
    assert_eq!(points(&quick_only[0].workloads[0], FULL).len(), 2);
}

#[test]
fn what_does_not_exist_is_answered_with_what_does() {
    let said = |selection: &Selection| applied(selection).unwrap_err().to_string();
    let text = said(&of(&["sise=1024"]));
    assert!(
        text.contains("no parameter `sise`, only cache, clients, size"),
        "{text}"
    );
    let text = said(&of(&["size=1000"]));
    assert!(
        text.contains("`size` is never 1000, only 1024, 2048, 512"),
        "{text}"
    );
    let text = said(&of(&["size=1024", "clients=1"]));
    assert!(text.contains("no workload has such a point"), "{text}");
    let text = Selection::default().add("size").unwrap_err().to_string();
    assert!(text.contains("NAME=VALUE"), "{text}");
    for seconds in [0.0, -1.0, f64::NAN, 1e9] {
        let selection = Selection {
            seconds: Some(seconds),
            ..Selection::default()
        };
        assert!(said(&selection).contains("0.1 to 86400 seconds"));
    }
    let selection = Selection {
        samples: Some(0),
        ..Selection::default()
    };
    assert!(said(&selection).contains("1 to 1000 samples"));
}

#[test]
fn a_reader_is_told_what_was_replaced() {
    assert_eq!(Selection::default().words(), None);
    let selection = Selection {
        seconds: Some(60.0),
        samples: Some(3),
        ..of(&["embedded=19"])
    };
    assert_eq!(
        selection.words().unwrap(),
        "samples of 60 s instead of the experiment's own, 3 of each point, only embedded=19"
    );
}
