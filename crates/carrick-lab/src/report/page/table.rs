//! Tables: figures that are tables, the numbers behind those that are not, and the paper's.

use maud::{Markup, html};

use crate::experiment::figure::{Axis, Figure};
use crate::experiment::results::ExperimentResults;
use crate::experiment::value::Value;
use crate::report::draw::{published_for, shown, with_unit};
use crate::report::svg::number;
use crate::report::values::{Line, Outcome, Values, all_places, value_text};

/// More columns would not be seen at once: then each line has a row, and each metric a column.
const COLUMNS_MAX: usize = 6;

/// A figure that is a table; the paper's numbers beside ours.
pub(super) fn whole(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> Markup {
    let columns = values
        .metrics
        .iter()
        .map(|metric| metric.lines.len() + published_names(figure, metric.axis).len());
    if columns.sum::<usize>() > COLUMNS_MAX {
        tall(results, figure, values)
    } else {
        wide(results, figure, values)
    }
}

/// A row for each place, a column for each metric and line.
fn wide(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> Markup {
    let place = |x: &Value| values.x.iter().position(|known| known == x);
    html! {
        div.scroll {
            table {
                thead { (wide_heads(figure, values)) }
                tbody {
                    @for x in &all_places(figure, values) {
                        tr {
                            th scope="row" { (row_name(results, figure, x)) }
                            @for metric in &values.metrics {
                                @for line in &metric.lines { (at(metric.axis, line, place(x))) }
                                @for line in published_names(figure, metric.axis) {
                                    (published_cell(figure, metric.axis, &line, x))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// For each place a group of rows: one for each line, a column for each metric.
fn tall(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> Markup {
    let first = values
        .metrics
        .first()
        .map_or(&[][..], |metric| &metric.lines);
    let mut published: Vec<&str> = Vec::new();
    for point in &figure.published.points {
        if !published.contains(&point.line.as_str()) {
            published.push(&point.line);
        }
    }
    let place = |x: &Value| values.x.iter().position(|known| known == x);
    let is_there = |line: &str, x: &Value| {
        let mut points = figure.published.points.iter();
        points.any(|point| point.line == line && point.x == *x)
    };
    let group = |x: &Value| {
        let name = row_name(results, figure, x);
        format!("{}: {name} {}", figure.x.label, figure.x.unit)
    };
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th scope="col" {}
                        @for metric in &values.metrics { th scope="col" { (with_unit(metric.axis)) } }
                    }
                }
                @for x in &all_places(figure, values) {
                    tbody {
                        tr {
                            th scope="rowgroup" colspan=(values.metrics.len() + 1) { (group(x).trim_end()) }
                        }
                        // Where only the paper has numbers, rows of dashes say nothing.
                        @for (index, line) in first.iter().enumerate().filter(|_| place(x).is_some()) {
                            tr {
                                th scope="row" { (line.label()) }
                                @for metric in &values.metrics {
                                    @match metric.lines.get(index) {
                                        Some(line) => (at(metric.axis, line, place(x))),
                                        None => (cell(metric.axis, &Outcome::Absent)),
                                    }
                                }
                            }
                        }
                        @for line in published.iter().filter(|line| is_there(line, x)) {
                            tr {
                                th.paper scope="row" { "paper: " (line) }
                                @for metric in &values.metrics {
                                    (published_cell(figure, metric.axis, line, x))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn published_cell(figure: &Figure, axis: &Axis, line: &str, x: &Value) -> Markup {
    let mut points = published_for(figure, axis);
    let point = points.find(|point| point.line == line && point.x == *x);
    html! {
        td.paper { @if let Some(point) = point { (number::exact(point.y / axis.divide_by)) } }
    }
}

fn wide_heads(figure: &Figure, values: &Values<'_>) -> Markup {
    let columns = |axis, lines: &[Line]| lines.len() + published_names(figure, axis).len();
    let has_one_line = values
        .metrics
        .iter()
        .all(|metric| metric.lines.len() == 1 && columns(metric.axis, &metric.lines) == 1);
    let rows = (!has_one_line).then_some("2");
    html! {
        tr {
            th scope="col" rowspan=[rows] { (with_unit(&figure.x)) }
            @for metric in &values.metrics {
                @let count = columns(metric.axis, &metric.lines);
                @if count > 0 { th scope="colgroup" colspan=(count) { (with_unit(metric.axis)) } }
            }
        }
        @if !has_one_line {
            tr {
                @for metric in &values.metrics {
                    @for line in &metric.lines { th scope="col" { (line.label()) } }
                    @for line in published_names(figure, metric.axis) {
                        th.paper scope="col" { "paper: " (line) }
                    }
                }
            }
        }
    }
}

fn row_name(results: &ExperimentResults, figure: &Figure, x: &Value) -> String {
    let text = value_text(x, figure.x.divide_by);
    results.series_labels.get(&text).cloned().unwrap_or(text)
}

/// The cell of a line at a place, if it has one there.
fn at(axis: &Axis, line: &Line, place: Option<usize>) -> Markup {
    let outcome = place.and_then(|place| line.points.get(place));
    cell(axis, outcome.unwrap_or(&Outcome::Absent))
}

fn cell(axis: &Axis, outcome: &Outcome) -> Markup {
    html! {
        @match outcome {
            Outcome::Measured(measured) => td { (shown(axis, measured)) },
            Outcome::Waiting(_) => td.none { "waits" },
            Outcome::Failed(_) => td.none { "failed" },
            Outcome::Absent => td.none { "–" },
        }
    }
}

/// The numbers behind a figure: a row for each point, means with intervals, and how many samples.
pub(super) fn numbers(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> Markup {
    let mut rows: Vec<Markup> = Vec::new();
    let first = values.metrics.first();
    for (index, line) in first.iter().flat_map(|metric| &metric.lines).enumerate() {
        for (place, x) in values.x.iter().enumerate() {
            let outcome = |lines: &[Line]| lines.get(index)?.points.get(place).cloned();
            let outcomes = values
                .metrics
                .iter()
                .filter_map(|metric| outcome(&metric.lines));
            let samples = outcomes.into_iter().find_map(|outcome| match outcome {
                Outcome::Measured(measured) => Some(measured.samples),
                Outcome::Waiting(_) | Outcome::Failed(_) | Outcome::Absent => None,
            });
            let Some(samples) = samples else { continue };
            rows.push(html! {
                tr {
                    th scope="row" { (line.label()) }
                    td { (row_name(results, figure, x)) }
                    @for metric in &values.metrics {
                        (cell(metric.axis, &outcome(&metric.lines).unwrap_or(Outcome::Absent)))
                    }
                    td { (samples) }
                }
            });
        }
    }
    html! {
        @if !rows.is_empty() {
            details {
                summary {
                    "The numbers (" (points_words(rows.len())) ": means ± half widths of their 90 % confidence intervals)"
                }
                div.scroll {
                    table {
                        thead {
                            tr {
                                th scope="col" {}
                                th scope="col" { (with_unit(&figure.x)) }
                                @for metric in &values.metrics {
                                    th scope="col" { (with_unit(metric.axis)) }
                                }
                                th scope="col" { "samples" }
                            }
                        }
                        tbody { @for row in &rows { (row) } }
                    }
                }
            }
        }
    }
}

/// The paper's numbers.
pub(super) fn published(figure: &Figure) -> Markup {
    let points = &figure.published.points;
    let axis = |name: &str| {
        let mut axes = std::iter::once(&figure.y).chain(&figure.columns);
        axes.find(|axis| axis.name == name)
    };
    html! {
        @if !points.is_empty() {
            details {
                summary { "The paper’s numbers (" (points_words(points.len())) ")" }
                div.scroll {
                    table {
                        thead {
                            tr {
                                th scope="col" { "paper’s line" }
                                th scope="col" { (with_unit(&figure.x)) }
                                th scope="col" { "metric" }
                                th scope="col" { "value" }
                            }
                        }
                        tbody {
                            @for point in points {
                                @let name = point.metric.as_deref().unwrap_or(&figure.y.name);
                                @let axis = axis(name);
                                tr {
                                    th scope="row" { (point.line) }
                                    td { (value_text(&point.x, figure.x.divide_by)) }
                                    td { (axis.map_or_else(|| name.to_owned(), with_unit)) }
                                    td { (number::exact(point.y / axis.map_or(1.0, |axis| axis.divide_by))) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn points_words(count: usize) -> String {
    if count == 1 {
        String::from("1 point")
    } else {
        format!("{count} points")
    }
}

/// The paper's lines for a metric, each once.
fn published_names(figure: &Figure, axis: &Axis) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for point in published_for(figure, axis) {
        if !names.contains(&point.line) {
            names.push(point.line.clone());
        }
    }
    names
}
