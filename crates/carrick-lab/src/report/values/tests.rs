//! Tests of what a figure's values come to.

use super::*;
use crate::report::fixture;

fn measured(outcome: &Outcome) -> &Measured {
    match outcome {
        Outcome::Measured(measured) => measured,
        other => panic!("{other:?}"),
    }
}

fn single(against: Option<Against>) -> (Vec<String>, Vec<Vec<Outcome>>) {
    let figure = Figure {
        against,
        ..fixture::figure("figure-4")
    };
    let results = fixture::results(fixture::three_sizes(), vec![figure.clone()]);
    let values = of(&results, &figure);
    let lines = &values.metrics[0].lines;
    (
        lines.iter().map(Line::label).collect(),
        lines.iter().map(|line| line.points.clone()).collect(),
    )
}

#[test]
fn means_have_confidence_intervals_and_what_waits_says_for_what() {
    let (labels, points) = single(None);
    assert_eq!(labels, ["carrick copy", "carrick pipe", "carrick socket"]);
    let first = measured(&points[0][0]);
    // Student's t for 90 % and 2 degrees of freedom is 2.92; the deviation is 1.
    assert!((first.value - 30.0).abs() < 1e-9);
    assert!((first.half_width.unwrap() - 2.919_985_6 / 3_f64.sqrt()).abs() < 1e-4);
    assert_eq!(first.samples, 3);
    assert_eq!(points[2][0], Outcome::Waiting("the socket engine".into()));
}

#[test]
fn comparisons_are_made_cell_by_cell() {
    for (how, expected) in [
        (Comparison::Saving, [-4.0, 2.0, 20.0]),
        (
            Comparison::SavingPercent,
            [-4.0 / 30.0 * 100.0, 2.0 / 42.0 * 100.0, 20.0 / 90.0 * 100.0],
        ),
        (Comparison::Gain, [4.0 / 30.0, -2.0 / 42.0, -20.0 / 90.0]),
        (Comparison::Ratio, [34.0 / 30.0, 40.0 / 42.0, 70.0 / 90.0]),
    ] {
        let (labels, points) = single(Some(Against {
            series: "carrick-copy".into(),
            how,
        }));
        assert_eq!(
            labels,
            ["carrick pipe", "carrick socket"],
            "the one that is compared with has no line"
        );
        for (point, expected) in points[0].iter().zip(expected) {
            let measured = measured(point);
            assert!((measured.value - expected).abs() < 1e-9, "{how:?}");
            assert_eq!(measured.half_width, None, "no interval on a difference");
        }
        assert!(matches!(points[1][0], Outcome::Waiting(_)));
    }
}

#[test]
fn a_division_by_zero_is_said_and_not_drawn() {
    let at = [("body_bytes", 1.0)];
    let cells = vec![
        fixture::cell("sizes", "a", &at, "cpu_us_per_request", &[5.0]),
        fixture::cell("sizes", "b", &at, "cpu_us_per_request", &[0.0]),
    ];
    let against = Some(Against {
        series: "b".into(),
        how: Comparison::Ratio,
    });
    let figure = Figure {
        against,
        ..fixture::figure("figure-4")
    };
    let results = fixture::results(cells, Vec::new());
    assert!(matches!(
        of(&results, &figure).metrics[0].lines[0].points[0],
        Outcome::Failed(_)
    ));
}

#[test]
fn lines_by_a_parameter_and_only_what_the_filter_lets_through() {
    let mut cells = Vec::new();
    for size in [2.0, 1.0] {
        for clients in [20.0, 5.0, 10.0] {
            let at = [("body_bytes", size), ("clients", clients)];
            cells.push(fixture::cell(
                "sizes",
                "a",
                &at,
                "cpu_us_per_request",
                &[size * clients],
            ));
        }
    }
    cells.push(fixture::cell(
        "other",
        "a",
        &[("body_bytes", 3.0), ("clients", 5.0)],
        "cpu_us_per_request",
        &[9.0],
    ));
    let results = fixture::results(cells, Vec::new());
    let mut figure = Figure {
        lines_by: Some("clients".into()),
        ..fixture::figure("figure-4")
    };
    let values = of(&results, &figure);
    assert_eq!(values.x, [Value::Number(1.0), Value::Number(2.0)]);
    let labels: Vec<String> = values.metrics[0].lines.iter().map(Line::label).collect();
    assert_eq!(labels, ["a, 5 clients", "a, 10 clients", "a, 20 clients"]);
    assert!((measured(&values.metrics[0].lines[2].points[1]).value - 40.0).abs() < 1e-9);
    assert!(values.remarks.is_empty());
    figure.only = fixture::parameters(&[("clients", 10.0)]);
    assert_eq!(of(&results, &figure).metrics[0].lines.len(), 1);
    figure.only.clear();
    figure.lines_by = None;
    let remark = &of(&results, &figure).remarks[0];
    assert!(
        remark.contains("clients") && remark.contains('3'),
        "{remark}"
    );
}

#[test]
fn one_sample_has_no_interval_and_what_is_no_number_does_not_count() {
    let at = [("body_bytes", 1.0)];
    let cells = vec![fixture::cell(
        "sizes",
        "a",
        &at,
        "cpu_us_per_request",
        &[f64::NAN, 7.0, f64::INFINITY],
    )];
    let figure = fixture::figure("figure-4");
    let results = fixture::results(cells, Vec::new());
    let values = of(&results, &figure);
    let point = measured(&values.metrics[0].lines[0].points[0]);
    assert_eq!(
        (point.value, point.half_width, point.samples),
        (7.0, None, 1)
    );
}

#[test]
fn a_metric_that_the_samples_do_not_have_is_named() {
    let mut figure = fixture::figure("figure-4");
    figure.y.name = "no_such_metric".into();
    let results = fixture::results(fixture::three_sizes(), Vec::new());
    let values = of(&results, &figure);
    let Outcome::Failed(why) = &values.metrics[0].lines[0].points[0] else {
        panic!("it failed")
    };
    assert!(why.contains("no_such_metric"));
}

#[test]
fn the_series_can_be_the_axis() {
    let mut figure = fixture::figure("table-1");
    figure.x = fixture::axis("series", "Method", "", 1.0);
    figure.only = fixture::parameters(&[("body_bytes", 1024.0)]);
    let results = fixture::results(fixture::three_sizes(), Vec::new());
    let values = of(&results, &figure);
    assert_eq!(values.x.len(), 3);
    assert_eq!(values.metrics[0].lines.len(), 1);
    assert!((measured(&values.metrics[0].lines[0].points[1]).value - 34.0).abs() < 1e-9);
}

#[test]
fn parameters_are_spoken() {
    let number = Value::Number(80.0);
    assert_eq!(
        parameter_value("round_trip_ms", &number),
        "round trip 80 ms"
    );
    assert_eq!(parameter_value("clients", &number), "80 clients");
    assert_eq!(
        parameter_value("body_bytes", &Value::Number(10_240.0)),
        "10 KB"
    );
    assert_eq!(
        parameter_value("body_bytes", &Value::Number(1000.0)),
        "1000 bytes"
    );
    assert_eq!(
        parameter_value("method", &Value::Word("persistent".into())),
        "persistent"
    );
    assert_eq!(spoken("loss_percent"), "loss");
}
