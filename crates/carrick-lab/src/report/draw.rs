//! From the values of a figure to its picture: which lines, in which panel, in which colour.

use std::collections::BTreeMap;

use crate::experiment::figure::{Axis, Figure, FigureKind, PublishedPoint, WORKLOAD};
use crate::experiment::results::ExperimentResults;
use crate::experiment::target::What;
use crate::experiment::value::Value;
use crate::peers::JUDGED;
use crate::report::plot::{
    Bar, Bars, Chart, Dot, Group, Heading, Horizontal, Length, Line, Look, Panel, Vertical, empty,
};
use crate::report::state::{self, State};
use crate::report::svg::number;
use crate::report::svg::style::COLOURS;
use crate::report::values::{self, Measured, Outcome, Values, value_text};
use crate::report::verdicts::{Verdict, judge, metric};

/// More lines than that are drawn in several panels.
const LINES_MAX: usize = 8;

/// So much larger or smaller than ours, and the paper's points get a panel of their own: else one of the two is flat.
const APART: f64 = 8.0;

/// The same on a logarithmic axis, where more fits.
const APART_LOG: f64 = 1000.0;

/// The picture of a figure; `None` if it is a table, or if nothing of it was measured.
#[must_use]
pub fn picture(
    results: &ExperimentResults,
    figure: &Figure,
    values: &Values<'_>,
    look: Look,
) -> Option<String> {
    let is_measured = state::of(values).has_values();
    match figure.kind {
        FigureKind::Lines if is_measured => Some(chart(results, figure, values).to_svg(look)),
        FigureKind::Bars if is_measured => Some(bars(results, figure, values).to_svg(look)),
        FigureKind::Lines | FigureKind::Bars | FigureKind::Table => None,
    }
}

/// The picture for a file of its own. Without anything measured it is a box that says why; tables have none.
#[must_use]
pub fn file(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> Option<String> {
    if figure.kind == FigureKind::Table {
        return None;
    }
    let drawn = picture(results, figure, values, Look::ALONE);
    Some(drawn.unwrap_or_else(|| {
        empty(
            &heading(results, figure, values),
            &reason(&state::of(values)),
            Look::ALONE,
        )
    }))
}

/// Why nothing is drawn.
#[must_use]
pub fn reason(state: &State) -> String {
    match state {
        State::Waiting(what) => format!("Nothing was measured: it waits for {what}."),
        State::Failed(why) => format!("Nothing was measured: {why}."),
        State::Absent => String::from(
            "Nothing was measured: this was not part of the run, or the run did not get so far.",
        ),
        State::Measured | State::Partly => String::new(),
    }
}

/// A label with its unit.
#[must_use]
pub fn with_unit(axis: &Axis) -> String {
    if axis.unit.is_empty() {
        axis.label.clone()
    } else {
        format!("{}, {}", axis.label, axis.unit)
    }
}

fn heading(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> Heading {
    let mut parts = Vec::new();
    if !results.paper.is_empty() {
        parts.push(format!("after {}", results.paper));
    }
    parts.push(format!(
        "measured on {}, {} cores, Linux {}",
        results.machine.processor, results.machine.cores, results.machine.kernel
    ));
    parts.push(results.congestion_control.clone());
    parts.push(state::scale_words(results));
    if results.ended_early.is_some() {
        parts.push(String::from("ended early"));
    }
    if state::noise(results).is_some() {
        parts.push(String::from("noisy: measure again"));
    }
    // A picture that leaves the page must not hide what is missing in it.
    if state::of(values) == State::Partly && !is_side_by_side(figure) {
        let mut lines: Vec<String> = Vec::new();
        for sentence in state::missing(figure, values) {
            let short = sentence
                .split_once(": failed: ")
                .map_or(sentence.clone(), |(line, _)| format!("{line}: failed"));
            lines.push(short);
        }
        parts.push(format!("missing: {}", lines.join("; ")));
    }
    Heading {
        title: format!("{}: {}", figure.number, figure.title),
        subtitle: parts.join(" · "),
    }
}

/// Places on the horizontal axis: numbers as they are, words by their order.
struct Places {
    words: Vec<String>,
    divide_by: f64,
}

impl Places {
    fn of(figure: &Figure, values: &Values<'_>) -> Self {
        let all = || {
            values
                .x
                .iter()
                .chain(figure.published.points.iter().map(|point| &point.x))
        };
        let mut words: Vec<String> = Vec::new();
        if all().any(|x| matches!(x, Value::Word(_))) {
            for x in all() {
                let word = value_text(x, figure.x.divide_by);
                if !words.contains(&word) {
                    words.push(word);
                }
            }
        }
        Self {
            words,
            divide_by: figure.x.divide_by,
        }
    }

    fn place(&self, x: &Value) -> f64 {
        match x {
            Value::Number(number) if self.words.is_empty() => number / self.divide_by,
            x => {
                let text = value_text(x, self.divide_by);
                self.words
                    .iter()
                    .position(|word| *word == text)
                    .unwrap_or(0) as f64
            }
        }
    }
}

fn chart(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> Chart {
    let places = Places::of(figure, values);
    let panels = panels(figure, values, &places);
    let words = places
        .words
        .iter()
        .map(|word| results.series_labels.get(word).unwrap_or(word).clone());
    Chart {
        heading: heading(results, figure, values),
        x: Horizontal {
            label: with_unit(&figure.x),
            is_log: figure.x.log,
            words: words.collect(),
        },
        y: Vertical {
            label: with_unit(&figure.y),
            is_log: figure.y.log,
        },
        panels,
    }
}

fn panels(figure: &Figure, values: &Values<'_>, places: &Places) -> Vec<Panel> {
    let all = values
        .metrics
        .first()
        .map_or(&[][..], |metric| &metric.lines);
    let measured: Vec<&values::Line> = all
        .iter()
        .filter(|line| line.measured().next().is_some())
        .collect();
    let published = published_lines(figure, places);
    let is_single = all.iter().all(|line| line.series == all[0].series);
    let slots = slots(all);
    let ours = |line: &values::Line, shape: usize, label: String| Line {
        label,
        colour: if is_single {
            line.by_index
        } else {
            slot(&slots, line)
        },
        shape,
        is_published: false,
        dots: dots(figure, values, places, line),
    };
    let plain = |title: &str, lines| Panel {
        title: title.to_owned(),
        has_own_scale: false,
        lines,
    };
    let mut panels = Vec::new();
    if measured.len() <= LINES_MAX {
        let lines = measured.iter().enumerate().map(|(index, line)| {
            let shape = if line.by.is_none() {
                slot(&slots, line)
            } else {
                index
            };
            ours(line, shape, line.label())
        });
        panels.push(plain("", lines.collect()));
    } else if figure.lines_by.is_some() && !is_single {
        let mut of_series: BTreeMap<usize, Vec<&values::Line>> = BTreeMap::new();
        for line in &measured {
            of_series.entry(line.series_index).or_default().push(line);
        }
        for lines in of_series.into_values() {
            let title = lines[0].series_label.clone();
            let drawn = lines.iter().map(|line| Line {
                colour: line.by_index,
                ..ours(line, line.by_index, line.by.clone().unwrap_or_default())
            });
            panels.push(plain(&title, drawn.collect()));
        }
    } else {
        let count = measured.len().div_ceil(LINES_MAX);
        for lines in measured.chunks(measured.len().div_ceil(count)) {
            let drawn = lines
                .iter()
                .enumerate()
                .map(|(index, line)| ours(line, index, line.label()));
            panels.push(plain("", drawn.collect()));
        }
    }
    add_published(figure, &mut panels, published);
    panels
}

/// Beside ours where both can be seen, else in a panel of their own.
fn add_published(figure: &Figure, panels: &mut Vec<Panel>, published: Vec<Line>) {
    if published.is_empty() {
        return;
    }
    let apart = if figure.y.log { APART_LOG } else { APART };
    let largest = |lines: &mut dyn Iterator<Item = &Line>| {
        lines
            .flat_map(|line| &line.dots)
            .fold(0.0, |largest: f64, dot| largest.max(dot.y.abs()))
    };
    let ours = largest(&mut panels.iter().flat_map(|panel| &panel.lines));
    let theirs = largest(&mut published.iter());
    let is_apart = ours > 0.0 && theirs > 0.0 && !(1.0 / apart..=apart).contains(&(theirs / ours));
    match panels.as_mut_slice() {
        [only] if !is_apart && only.lines.len() + published.len() <= LINES_MAX + 4 => {
            only.lines.extend(published);
        }
        several => {
            if let [only] = several {
                only.title = String::from("Measured here");
            }
            panels.push(Panel {
                title: String::from(if is_apart {
                    "The paper's, on a scale of its own"
                } else {
                    "The paper's"
                }),
                has_own_scale: is_apart,
                lines: published,
            });
        }
    }
}

fn dots(figure: &Figure, values: &Values<'_>, places: &Places, line: &values::Line) -> Vec<Dot> {
    let mut last = None;
    let mut dots = Vec::new();
    for (index, measured) in line.measured() {
        let Some(x) = values.x.get(index) else {
            continue;
        };
        dots.push(Dot {
            x: places.place(x),
            y: measured.value / figure.y.divide_by,
            half_width: measured.half_width.map(|width| width / figure.y.divide_by),
            tip: tip(figure, line, x, measured),
            is_after_gap: last.is_some_and(|last| last + 1 < index),
        });
        last = Some(index);
    }
    dots
}

fn tip(figure: &Figure, line: &values::Line, x: &Value, measured: &Measured) -> String {
    let number = shown(&figure.y, measured);
    let unit = &figure.y.unit;
    format!(
        "{}, {} {}: {number} {unit} ({})",
        line.label(),
        value_text(x, figure.x.divide_by),
        figure.x.unit,
        samples(measured.samples)
    )
}

/// The mean with its interval, in the axis's unit.
#[must_use]
pub fn shown(axis: &Axis, measured: &Measured) -> String {
    let half_width = measured.half_width.map(|width| width / axis.divide_by);
    number::with_half_width(measured.value / axis.divide_by, half_width)
}

/// How many, as words.
#[must_use]
pub fn samples(count: usize) -> String {
    if count == 1 {
        String::from("1 sample")
    } else {
        format!("{count} samples")
    }
}

/// The paper's points that belong to a metric of the figure.
pub fn published_for<'f>(
    figure: &'f Figure,
    axis: &'f Axis,
) -> impl Iterator<Item = &'f PublishedPoint> {
    figure
        .published
        .points
        .iter()
        .filter(|point| match &point.metric {
            None => axis.name == figure.y.name,
            Some(metric) => *metric == axis.name,
        })
}

fn published_lines(figure: &Figure, places: &Places) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for point in published_for(figure, &figure.y) {
        let label = format!("paper: {}", point.line);
        let dot = Dot {
            x: places.place(&point.x),
            y: point.y / figure.y.divide_by,
            half_width: None,
            tip: format!(
                "{label}, {} {}: {} {}",
                value_text(&point.x, figure.x.divide_by),
                figure.x.unit,
                number::exact(point.y / figure.y.divide_by),
                figure.y.unit
            ),
            is_after_gap: false,
        };
        match lines.iter_mut().find(|line| line.label == label) {
            Some(line) => line.dots.push(dot),
            None => {
                let shape = lines.len();
                lines.push(Line {
                    label,
                    colour: 0,
                    shape,
                    is_published: true,
                    dots: vec![dot],
                });
            }
        }
    }
    for line in &mut lines {
        line.dots.sort_by(|one, other| one.x.total_cmp(&other.x));
    }
    lines
}

/// A number for the colour of each series: the same in all figures of an experiment, unless two of one figure would look alike.
fn slots(lines: &[values::Line]) -> BTreeMap<usize, usize> {
    let mut slots: BTreeMap<usize, usize> = BTreeMap::new();
    for line in lines {
        let taken: Vec<usize> = slots.values().copied().collect();
        slots.entry(line.series_index).or_insert_with(|| {
            let wanted = line.series_index % COLOURS;
            let mut others = (0..COLOURS).map(|further| (wanted + further) % COLOURS);
            others
                .find(|slot| !taken.contains(slot))
                .unwrap_or(line.series_index)
        });
    }
    slots
}

fn slot(slots: &BTreeMap<usize, usize>, line: &values::Line) -> usize {
    slots
        .get(&line.series_index)
        .copied()
        .unwrap_or(line.series_index)
}

fn bars(results: &ExperimentResults, figure: &Figure, values: &Values<'_>) -> Bars {
    let lines = values
        .metrics
        .first()
        .map_or(&[][..], |metric| &metric.lines);
    let is_single = lines.iter().all(|line| line.series == lines[0].series);
    let slots = slots(lines);
    let places = values::all_places(figure, values);
    let verdicts = if is_side_by_side(figure) {
        judge(results)
    } else {
        Vec::new()
    };
    let groups = places.iter().map(|x| {
        let index = values.x.iter().position(|known| known == x);
        // Not every peer is measured at every workload.
        let is_there = |line: &&values::Line| {
            let outcome = index.and_then(|index| line.points.get(index));
            !(is_side_by_side(figure) && matches!(outcome, Some(Outcome::Absent) | None))
        };
        let ours = lines.iter().filter(is_there).map(|line| Bar {
            label: line.label(),
            colour: if is_single {
                line.by_index
            } else {
                slot(&slots, line)
            },
            is_published: false,
            length: match index.and_then(|index| line.points.get(index)) {
                Some(Outcome::Measured(measured)) => Length::Value(
                    measured.value / figure.y.divide_by,
                    measured.half_width.map(|width| width / figure.y.divide_by),
                ),
                Some(Outcome::Waiting(what)) => Length::Nothing(format!("waits for {what}")),
                Some(Outcome::Failed(_)) => Length::Nothing(String::from("failed")),
                Some(Outcome::Absent) | None => Length::Nothing(String::from("not measured")),
            },
        });
        let theirs = published_for(figure, &figure.y)
            .filter(|point| point.x == *x)
            .map(|point| Bar {
                label: format!("paper: {}", point.line),
                colour: 0,
                is_published: true,
                length: Length::Value(point.y / figure.y.divide_by, None),
            });
        Group {
            title: group_title(results, figure, x),
            bars: ours
                .chain(theirs)
                .chain(target(&verdicts, figure, x))
                .collect(),
        }
    });
    Bars {
        heading: heading(results, figure, values),
        label: with_unit(&figure.y),
        is_log: figure.y.log,
        has_own_scales: is_side_by_side(figure),
        groups: groups.collect(),
    }
}

/// Whether it has a group of bars for each workload.
fn is_side_by_side(figure: &Figure) -> bool {
    figure.x.name == WORKLOAD
}

/// The hardest of the bounds of carrick as users get it, for the figure's metric.
fn target(verdicts: &[Verdict<'_>], figure: &Figure, workload: &Value) -> Option<Bar> {
    let Value::Word(id) = workload else {
        return None;
    };
    let own: Vec<&Verdict<'_>> = verdicts
        .iter()
        .filter(|verdict| verdict.workload == id && verdict.target.of == JUDGED)
        .filter(|verdict| {
            let metric = |is_stream| metric(verdict.target.what, is_stream);
            let is_plain = verdict.target.what != What::MemoryAndKernel;
            is_plain && [metric(false), metric(true)].contains(&figure.y.name.as_str())
        })
        .collect();
    let values = own.iter().map(|verdict| verdict.value());
    let hardest = match own.first()?.target.what {
        What::Rate => values.max_by(f64::total_cmp),
        _ => values.min_by(f64::total_cmp),
    };
    Some(Bar {
        label: String::from("target for carrick"),
        colour: 0,
        is_published: true,
        length: Length::Value(hardest? / figure.y.divide_by, None),
    })
}

fn group_title(results: &ExperimentResults, figure: &Figure, x: &Value) -> String {
    match x {
        Value::Word(word) => match results.workload(word) {
            Some(workload) if is_side_by_side(figure) => workload.about.clone(),
            _ => results.series_labels.get(word).unwrap_or(word).clone(),
        },
        Value::Number(_) => {
            let text = value_text(x, figure.x.divide_by);
            format!("{}: {text} {}", figure.x.label, figure.x.unit)
                .trim_end()
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
