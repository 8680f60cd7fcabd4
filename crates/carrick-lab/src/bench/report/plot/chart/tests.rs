//! Tests of the chart's scales and of what must be in the picture.

use super::*;

fn chart(bars: Vec<Bar>, target: Option<f64>) -> Chart {
    let panel = Panel {
        unit: "requests/s".into(),
        bars,
        target,
    };
    Chart {
        title: "a < b".into(),
        subtitle: "s".into(),
        rows: vec![Row {
            title: "r".into(),
            panels: vec![panel],
        }],
    }
}

fn bar(label: &'static str, is_judged: bool, value: Value) -> Bar {
    Bar {
        label,
        class: "carrick",
        legend: "carrick",
        is_judged,
        value,
    }
}

#[test]
fn every_bar_target_and_failure_is_drawn() {
    let measured = Value::Measured {
        median: 50.0,
        min: 40.0,
        max: 60.0,
    };
    let svg = chart(
        vec![
            bar("carrick-auto", true, measured),
            bar("nginx", false, Value::Failed),
        ],
        Some(55.0),
    )
    .to_svg();
    for part in [
        "a &lt; b",
        ">carrick-auto<",
        ">nginx<",
        ">failed<",
        "class=\"whisker\"",
        "target for carrick-auto",
        ">50<",
    ] {
        assert!(svg.contains(part), "{part} is missing");
    }
    assert_eq!(
        svg.matches("<line class=\"target\"").count(),
        2,
        "in the legend and at the bar"
    );
}

#[test]
fn nothing_measured_draws_no_endless_axis() {
    let svg = chart(vec![bar("nginx", false, Value::Failed)], None).to_svg();
    assert!(svg.ends_with("</svg>\n"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}
