//! How much of a figure there is, and what is missing for which reason.

use crate::experiment::figure::Figure;
use crate::experiment::results::{ExperimentResults, Scale};
use crate::report::values::{Line, Outcome, Values, value_text};

/// Above this load at the start, other programs had a say in the figures.
const LOAD_MAX: f64 = 0.3;

/// How much of a figure there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// All of it.
    Measured,
    /// Some of it.
    Partly,
    /// None: it waits for this to be built.
    Waiting(String),
    /// None: it was tried in vain.
    Failed(String),
    /// None: it was not tried.
    Absent,
}

impl State {
    /// Whether there is anything to draw.
    #[must_use]
    pub fn has_values(&self) -> bool {
        matches!(self, Self::Measured | Self::Partly)
    }

    /// For the table of contents.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Measured => String::from("measured"),
            Self::Partly => String::from("partly measured"),
            Self::Waiting(what) => format!("waiting for {what}"),
            Self::Failed(_) => String::from("failed"),
            Self::Absent => String::from("not measured"),
        }
    }

    /// The style's class.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Partly => "partly",
            Self::Waiting(_) => "waiting",
            Self::Failed(_) => "failed",
            Self::Absent => "absent",
        }
    }
}

/// Works it out.
#[must_use]
pub fn of(values: &Values<'_>) -> State {
    let (mut measured, mut missing) = (0_usize, 0_usize);
    let (mut waiting, mut failed) = (Vec::new(), None);
    for outcome in values.outcomes() {
        match outcome {
            Outcome::Measured(_) => measured += 1,
            Outcome::Waiting(what) => {
                missing += 1;
                if !waiting.contains(what) {
                    waiting.push(what.clone());
                }
            }
            Outcome::Failed(why) => {
                missing += 1;
                failed.get_or_insert_with(|| why.clone());
            }
            Outcome::Absent => missing += 1,
        }
    }
    match (measured, missing) {
        (0, _) if !waiting.is_empty() => State::Waiting(waiting.join(", ")),
        (0, _) => failed.map_or(State::Absent, State::Failed),
        (_, 0) if !has_empty_line(values) => State::Measured,
        _ => State::Partly,
    }
}

fn has_empty_line(values: &Values<'_>) -> bool {
    values
        .metrics
        .iter()
        .flat_map(|metric| &metric.lines)
        .any(|line| line.points.is_empty())
}

/// What is missing, one sentence for each line and reason; for each series and reason, where it is the whole series.
#[must_use]
pub fn missing(figure: &Figure, values: &Values<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    for line in values.metrics.iter().flat_map(|metric| &metric.lines) {
        for (reason, places) in reasons(figure, line, values) {
            let is_missing_alike =
                |other: &Line| whole_reason(figure, other, values).as_ref() == Some(&reason);
            let is_whole = places.len() == line.points.len();
            let mut of_series = values
                .metrics
                .iter()
                .flat_map(|metric| &metric.lines)
                .filter(|other| other.series == line.series);
            let sentence =
                if is_whole && of_series.all(is_missing_alike) && !line.series_label.is_empty() {
                    format!("{}: {reason}", line.series_label)
                } else if is_whole {
                    format!("{}: {reason}", line.label())
                } else {
                    let at = format!("{} {}", places.join(", "), figure.x.unit);
                    format!("{} at {}: {reason}", line.label(), at.trim_end())
                };
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
    }
    sentences
}

/// The one reason for which a whole line is missing.
fn whole_reason(figure: &Figure, line: &Line, values: &Values<'_>) -> Option<String> {
    match reasons(figure, line, values).as_slice() {
        [(reason, places)] if places.len() == line.points.len() => Some(reason.clone()),
        _ => None,
    }
}

/// Each reason with the places where it holds.
fn reasons(figure: &Figure, line: &Line, values: &Values<'_>) -> Vec<(String, Vec<String>)> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for (outcome, x) in line.points.iter().zip(&values.x) {
        let reason = match outcome {
            Outcome::Measured(measured) => match &measured.remark {
                Some(remark) => format!("fewer samples than wanted ({remark})"),
                None => continue,
            },
            Outcome::Waiting(what) => format!("waits for {what}"),
            Outcome::Failed(why) => format!("failed: {why}"),
            Outcome::Absent => String::from("not measured"),
        };
        let place = value_text(x, figure.x.divide_by);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, places)) => places.push(place),
            None => reasons.push((reason, vec![place])),
        }
    }
    reasons
}

/// Quick or full, what that is worth, and what the command line replaced of it.
#[must_use]
pub fn scale_words(results: &ExperimentResults) -> String {
    let scale = match results.scale {
        Scale::Quick => "quick: a look, not a result",
        Scale::Full => "full",
    };
    match &results.selection {
        Some(selection) => format!("{scale}; {selection}"),
        None => scale.to_owned(),
    }
}

/// Why the figures may be disturbed by what else the machine did.
#[must_use]
pub fn noise(results: &ExperimentResults) -> Option<String> {
    let load = results.machine.load_at_start.parse::<f64>().ok();
    if let Some(load) = load.filter(|load| *load > LOAD_MAX) {
        return Some(format!(
            "the machine's load was {load} when the run began (a quiet machine: below {LOAD_MAX}); measure again when it is quiet"
        ));
    }
    let is_noise = |note: &&String| note.to_lowercase().contains("noisy");
    results.notes.iter().find(is_noise).cloned()
}

#[cfg(test)]
mod tests;
