//! Tests of which lines are drawn, and where.

use super::*;
use crate::report::fixture;

fn chart_of(id: &str) -> Chart {
    let results = fixture::everything();
    let figure = results
        .figures
        .iter()
        .find(|figure| figure.id == id)
        .unwrap();
    chart(&results, figure, &values::of(&results, figure))
}

#[test]
fn what_was_not_measured_has_no_line() {
    let chart = chart_of("figure-4");
    let labels: Vec<&str> = chart.panels[0]
        .lines
        .iter()
        .map(|line| line.label.as_str())
        .collect();
    assert_eq!(
        labels,
        [
            "carrick copy",
            "carrick pipe",
            "HAProxy",
            "nginx",
            "paper: application-level"
        ]
    );
    assert_eq!(chart.panels.len(), 1);
    assert_eq!(chart.panels[0].lines[0].dots[0].x, 1.0, "KB, not bytes");
}

#[test]
fn nothing_leads_over_a_point_that_failed() {
    let mut results = fixture::everything();
    let figure = results.figures.swap_remove(0);
    for cell in &mut results.cells {
        if cell.series == "haproxy"
            && cell.parameters.get("body_bytes") == Some(&Value::Number(20_480.0))
        {
            cell.samples.clear();
        }
    }
    let chart = chart(&results, &figure, &values::of(&results, &figure));
    let haproxy = &chart.panels[0].lines[2];
    assert_eq!(haproxy.dots.len(), 5);
    assert!(haproxy.dots[3].is_after_gap && !haproxy.dots[2].is_after_gap);
}

#[test]
fn the_paper_has_its_own_scale_where_it_is_far_from_ours() {
    let chart = chart_of("figure-5");
    assert_eq!(chart.panels.len(), 2);
    assert!(chart.panels[1].has_own_scale && chart.panels[1].lines[0].is_published);
}

#[test]
fn too_many_lines_are_spread_over_panels() {
    let by_series = chart_of("figure-6");
    let titles: Vec<&str> = by_series
        .panels
        .iter()
        .map(|panel| panel.title.as_str())
        .collect();
    assert_eq!(titles, ["carrick copy", "carrick pipe", "HAProxy", "nginx"]);
    assert_eq!(by_series.panels[0].lines[0].label, "10 clients");
    let plain = chart_of("figure-13");
    assert_eq!(
        plain
            .panels
            .iter()
            .map(|panel| panel.lines.len())
            .collect::<Vec<_>>(),
        [6, 5]
    );
}

#[test]
fn lines_of_a_panel_differ_by_shape() {
    for id in ["figure-4", "figure-5", "figure-6", "figure-7", "figure-13"] {
        for panel in chart_of(id).panels {
            let mut shapes: Vec<usize> = panel
                .lines
                .iter()
                .filter(|line| !line.is_published)
                .map(|line| line.shape)
                .collect();
            let count = shapes.len();
            shapes.sort_unstable();
            shapes.dedup();
            assert_eq!(shapes.len(), count, "{id}");
        }
    }
}

#[test]
fn a_figure_without_measurements_is_a_box_that_says_why() {
    let results = fixture::everything();
    let waiting = results
        .figures
        .iter()
        .find(|figure| figure.id == "figure-15")
        .unwrap();
    let values = values::of(&results, waiting);
    assert_eq!(picture(&results, waiting, &values, Look::WIDE), None);
    let file = file(&results, waiting, &values).unwrap();
    assert!(file.contains("waits for the socket engine"));
    assert!(!file.contains("class=\"mark") && !file.contains("class=\"line"));
}

#[test]
fn two_series_of_a_figure_never_look_alike() {
    let line = |series_index| values::Line {
        series: String::new(),
        series_label: String::new(),
        by: None,
        series_index,
        by_index: 0,
        points: Vec::new(),
    };
    let lines = [line(1), line(9), line(2), line(17)];
    let slots = slots(&lines);
    let mut found: Vec<usize> = lines.iter().map(|line| slot(&slots, line)).collect();
    assert_eq!(found[0], 1, "as in all figures");
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|slot| *slot < COLOURS));
}

#[test]
fn side_by_side_the_target_is_drawn_at_the_factor_of_the_best_peer() {
    use crate::report::verdicts::tests::{cpu, rate, results};
    let results = results(vec![
        rate("switch-1k", "carrick-auto", 100.0),
        rate("switch-1k", "haproxy", 80.0),
        rate("switch-1k", "nginx", 60.0),
        cpu("switch-1k", "haproxy", 20.0),
        // What is asked of another row is not drawn at ours.
        rate("switch-256k", "carrick-auto", 100.0),
        rate("switch-256k", "carrick-packet", 100.0),
        rate("switch-256k", "haproxy", 80.0),
    ]);
    let figure = results.figures.iter().find(|figure| figure.id == "switch");
    let figure = figure.unwrap();
    let bars = bars(&results, figure, &values::of(&results, figure));
    let titles: Vec<&str> = bars
        .groups
        .iter()
        .map(|group| group.title.as_str())
        .collect();
    assert_eq!(
        titles,
        ["switch, keep-alive, 1 KB", "switch, keep-alive, 256 KB"]
    );
    let labels = |group: usize| -> Vec<&str> {
        let bars = bars.groups[group].bars.iter();
        bars.map(|bar| bar.label.as_str()).collect()
    };
    assert_eq!(
        labels(0),
        ["carrick", "HAProxy", "nginx", "target for carrick"]
    );
    assert_eq!(labels(1), ["carrick", "HAProxy", "carrick, packet"]);
    let Length::Value(target, _) = bars.groups[0].bars[3].length else {
        panic!("{:?}", bars.groups[0].bars[3]);
    };
    assert!((target - 120.0).abs() < 1e-9);
    assert!(picture(&results, figure, &values::of(&results, figure), Look::ALONE).is_some());
}
