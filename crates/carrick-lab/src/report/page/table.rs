//! Tables: figures that are tables, the numbers behind those that are not, and the paper's.

use std::fmt::Write as _;

use crate::experiment::figure::{Axis, Figure};
use crate::experiment::results::ExperimentResults;
use crate::experiment::value::Value;
use crate::report::draw::{published_for, shown, with_unit};
use crate::report::svg::{escape, number};
use crate::report::values::{Outcome, Values, all_places, value_text};

/// More columns would not be seen at once: then each line has a row, and each metric a column.
const COLUMNS_MAX: usize = 6;

/// A figure that is a table; the paper's numbers beside ours.
pub(super) fn whole(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> String {
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
fn wide(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> String {
    let mut html = String::from("<div class=\"scroll\"><table>\n<thead>\n");
    html += &wide_heads(figure, values);
    html += "</thead>\n<tbody>\n";
    for x in &all_places(figure, values) {
        let place = values.x.iter().position(|known| known == x);
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{}</th>",
            escape(&row_name(results, figure, x))
        );
        for metric in &values.metrics {
            for line in &metric.lines {
                let outcome = place.and_then(|place| line.points.get(place));
                html += &cell(metric.axis, outcome.unwrap_or(&Outcome::Absent));
            }
            for line in published_names(figure, metric.axis) {
                html += &published_cell(figure, metric.axis, &line, x);
            }
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n"
}

/// For each place a group of rows: one for each line, a column for each metric.
fn tall(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> String {
    let mut html =
        String::from("<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\"></th>");
    for metric in &values.metrics {
        let _ = write!(
            html,
            "<th scope=\"col\">{}</th>",
            escape(&with_unit(metric.axis))
        );
    }
    html += "</tr></thead>\n";
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
    let count = values.metrics.len() + 1;
    for x in &all_places(figure, values) {
        let place = values.x.iter().position(|known| known == x);
        let group = format!(
            "{}: {} {}",
            figure.x.label,
            row_name(results, figure, x),
            figure.x.unit
        );
        let _ = writeln!(
            html,
            "<tbody>\n<tr><th scope=\"rowgroup\" colspan=\"{count}\">{}</th></tr>",
            escape(group.trim_end())
        );
        // Where only the paper has numbers, rows of dashes say nothing.
        for (index, line) in first.iter().enumerate().filter(|_| place.is_some()) {
            let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(&line.label()));
            for metric in &values.metrics {
                let line = metric.lines.get(index);
                let outcome = line.and_then(|line| line.points.get(place?));
                html += &cell(metric.axis, outcome.unwrap_or(&Outcome::Absent));
            }
            html += "</tr>\n";
        }
        for line in published.iter().filter(|line| {
            let mut points = figure.published.points.iter();
            points.any(|point| point.line == **line && point.x == *x)
        }) {
            let _ = write!(
                html,
                "<tr><th scope=\"row\" class=\"paper\">paper: {}</th>",
                escape(line)
            );
            for metric in &values.metrics {
                html += &published_cell(figure, metric.axis, line, x);
            }
            html += "</tr>\n";
        }
        html += "</tbody>\n";
    }
    html + "</table></div>\n"
}

fn published_cell(figure: &Figure, axis: &Axis, line: &str, x: &Value) -> String {
    let mut points = published_for(figure, axis);
    let point = points.find(|point| point.line == line && point.x == *x);
    let text = point.map(|point| number::exact(point.y / axis.divide_by));
    format!("<td class=\"paper\">{}</td>", text.unwrap_or_default())
}

fn wide_heads(figure: &Figure, values: &Values<'_>) -> String {
    let mut metrics = String::new();
    let mut lines = String::new();
    let has_one_line = values
        .metrics
        .iter()
        .all(|metric| metric.lines.len() == 1 && published_names(figure, metric.axis).is_empty());
    for metric in &values.metrics {
        let published = published_names(figure, metric.axis);
        let count = metric.lines.len() + published.len();
        if count == 0 {
            continue;
        }
        let _ = write!(
            metrics,
            "<th scope=\"colgroup\" colspan=\"{count}\">{}</th>",
            escape(&with_unit(metric.axis))
        );
        for line in &metric.lines {
            let _ = write!(lines, "<th scope=\"col\">{}</th>", escape(&line.label()));
        }
        for line in published {
            let _ = write!(
                lines,
                "<th scope=\"col\" class=\"paper\">paper: {}</th>",
                escape(&line)
            );
        }
    }
    let x = escape(&with_unit(&figure.x));
    if has_one_line {
        return format!("<tr><th scope=\"col\">{x}</th>{metrics}</tr>\n");
    }
    format!("<tr><th scope=\"col\" rowspan=\"2\">{x}</th>{metrics}</tr>\n<tr>{lines}</tr>\n")
}

fn row_name(results: &ExperimentResults, figure: &Figure, x: &Value) -> String {
    let text = value_text(x, figure.x.divide_by);
    results.series_labels.get(&text).cloned().unwrap_or(text)
}

fn cell(axis: &Axis, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Measured(measured) => format!("<td>{}</td>", shown(axis, measured)),
        Outcome::Waiting(_) => String::from("<td class=\"none\">waits</td>"),
        Outcome::Failed(_) => String::from("<td class=\"none\">failed</td>"),
        Outcome::Absent => String::from("<td class=\"none\">–</td>"),
    }
}

/// The numbers behind a figure: a row for each point, means with intervals, and how many samples.
pub(super) fn numbers(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> String {
    let Some(first) = values.metrics.first() else {
        return String::new();
    };
    let mut rows = String::new();
    let mut count = 0_usize;
    for (index, line) in first.lines.iter().enumerate() {
        for (place, x) in values.x.iter().enumerate() {
            let outcomes: Vec<Option<&Outcome>> = values
                .metrics
                .iter()
                .map(|metric| {
                    metric
                        .lines
                        .get(index)
                        .and_then(|line| line.points.get(place))
                })
                .collect();
            let samples = outcomes.iter().flatten().find_map(|outcome| match outcome {
                Outcome::Measured(measured) => Some(measured.samples),
                Outcome::Waiting(_) | Outcome::Failed(_) | Outcome::Absent => None,
            });
            let Some(samples) = samples else { continue };
            count += 1;
            let _ = write!(
                rows,
                "<tr><th scope=\"row\">{}</th><td>{}</td>",
                escape(&line.label()),
                escape(&row_name(results, figure, x))
            );
            for (metric, outcome) in values.metrics.iter().zip(outcomes) {
                rows += &cell(metric.axis, outcome.unwrap_or(&Outcome::Absent));
            }
            let _ = writeln!(rows, "<td>{samples}</td></tr>");
        }
    }
    if count == 0 {
        return String::new();
    }
    let mut html = format!(
        "<details><summary>The numbers ({}: means ± half widths of their 90 % confidence intervals)</summary>\n\
         <div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\"></th><th scope=\"col\">{}</th>",
        points_words(count),
        escape(&with_unit(&figure.x))
    );
    for metric in &values.metrics {
        let _ = write!(
            html,
            "<th scope=\"col\">{}</th>",
            escape(&with_unit(metric.axis))
        );
    }
    html += "<th scope=\"col\">samples</th></tr></thead>\n<tbody>\n";
    html + &rows + "</tbody>\n</table></div></details>\n"
}

/// The paper's numbers.
pub(super) fn published(figure: &Figure) -> String {
    let points = &figure.published.points;
    if points.is_empty() {
        return String::new();
    }
    let axes: Vec<&Axis> = std::iter::once(&figure.y).chain(&figure.columns).collect();
    let mut html = format!(
        "<details><summary>The paper’s numbers ({})</summary>\n<div class=\"scroll\"><table>\n<thead><tr>\
         <th scope=\"col\">paper’s line</th><th scope=\"col\">{}</th><th scope=\"col\">metric</th><th scope=\"col\">value</th>\
         </tr></thead>\n<tbody>\n",
        points_words(points.len()),
        escape(&with_unit(&figure.x))
    );
    for point in points {
        let name = point.metric.as_deref().unwrap_or(&figure.y.name);
        let axis = axes.iter().find(|axis| axis.name == name);
        let (label, divide_by) = axis.map_or_else(
            || (name.to_owned(), 1.0),
            |axis| (with_unit(axis), axis.divide_by),
        );
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&point.line),
            escape(&value_text(&point.x, figure.x.divide_by)),
            escape(&label),
            number::exact(point.y / divide_by)
        );
    }
    html + "</tbody>\n</table></div></details>\n"
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
