//! In which points ours and the paper's agree or differ: the tests of a figure, worked out on means.

use crate::experiment::figure::{Check, Figure, Test};
use crate::experiment::value::Value;
use crate::report::svg::number;
use crate::report::values::{Line, Outcome, Values, value_text};

/// The outcome of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Agree, differ, or not known.
    pub verdict: Verdict,
    /// The sentence for the reader.
    pub sentence: String,
    /// The numbers behind it.
    pub evidence: String,
}

/// Whether ours and the paper's agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They do.
    Agree,
    /// They do not.
    Differ,
    /// Something has to be built before it can be said.
    Waits,
    /// It cannot be said: not measured, or failed.
    Unknown,
}

impl Verdict {
    /// As a word before the sentence.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Agree => "Agrees",
            Self::Differ => "Differs",
            Self::Waits => "Waits",
            Self::Unknown => "Not known",
        }
    }
}

/// Why a check cannot be worked out.
struct Missing {
    verdict: Verdict,
    reason: String,
}

/// Whether a test holds, and by which numbers.
struct Found {
    holds: bool,
    evidence: Vec<String>,
    is_partial: bool,
}

/// Works out all checks of a figure, on the metric of its vertical axis.
#[must_use]
pub fn judge(figure: &Figure, values: &Values<'_>) -> Vec<Judged> {
    figure
        .checks
        .iter()
        .map(|check| judge_one(figure, check, values))
        .collect()
}

fn judge_one(figure: &Figure, check: &Check, values: &Values<'_>) -> Judged {
    let bench = Bench { figure, values };
    match bench.find(&check.test) {
        Ok(found) => {
            let mut evidence = found.evidence.join("; ");
            if found.is_partial {
                evidence.push_str("; only on the points that were measured");
            }
            let (verdict, sentence) = if found.holds {
                (Verdict::Agree, &check.agree)
            } else {
                (Verdict::Differ, &check.differ)
            };
            Judged {
                verdict,
                sentence: sentence.clone(),
                evidence,
            }
        }
        Err(Missing { verdict, reason }) => Judged {
            verdict,
            sentence: format!(
                "Whether {} cannot be said yet: {reason}.",
                bench.question(&check.test)
            ),
            evidence: String::new(),
        },
    }
}

/// What the tests are worked out on.
struct Bench<'a> {
    figure: &'a Figure,
    values: &'a Values<'a>,
}

impl<'a> Bench<'a> {
    fn find(&self, test: &Test) -> Result<Found, Missing> {
        match test {
            Test::Rises { of } => self.slope(of, |first, last| last > first),
            Test::Falls { of } => self.slope(of, |first, last| last < first),
            Test::Below { of, than, share } => self.below(of, than, *share),
            Test::Within { of, min, max } => self.within(of, *min, *max),
            Test::BestAtLeast { of, min, from } => self.best_at_least(of, *min, *from),
        }
    }

    fn question(&self, test: &Test) -> String {
        let label = |name: &str| {
            self.lines(name)
                .next()
                .map_or_else(|| name.to_owned(), |line| line.series_label.clone())
        };
        match test {
            Test::Rises { of } => format!("{} rises along the axis", label(of)),
            Test::Falls { of } => format!("{} falls along the axis", label(of)),
            Test::Below { of, than, .. } => format!("{} is below {}", label(of), label(than)),
            Test::Within { of, min, max } => {
                let (min, max) = (self.shown(*min), self.shown(*max));
                format!("{} lies between {min} and {max}", label(of))
            }
            Test::BestAtLeast { of, min, .. } => {
                let labels: Vec<String> = of.iter().map(|name| label(name)).collect();
                let min = self.shown(*min);
                format!("the best of {} is at least {min}", labels.join(" and "))
            }
        }
    }

    /// Every line of the series with two points at least has to do it.
    fn slope(&self, of: &str, is_right: fn(f64, f64) -> bool) -> Result<Found, Missing> {
        let lines = self.measured_lines(of)?;
        let mut found = Found {
            holds: true,
            evidence: Vec::new(),
            is_partial: has_gaps(&lines),
        };
        for line in lines {
            let points: Vec<(usize, f64)> = values_of(line).collect();
            if let (Some((first_x, first)), Some((last_x, last))) = (points.first(), points.last())
                && first_x < last_x
            {
                found.holds &= is_right(*first, *last);
                found.evidence.push(format!(
                    "{}: {} at {}, {} at {}",
                    line.label(),
                    self.shown(*first),
                    self.place(*first_x),
                    self.shown(*last),
                    self.place(*last_x)
                ));
            }
        }
        if found.evidence.is_empty() {
            return Err(unknown(String::from(
                "it takes two points of a line at least, and there is one",
            )));
        }
        Ok(found)
    }

    fn below(&self, of: &str, than: &str, share: f64) -> Result<Found, Missing> {
        let (ones, others) = (self.measured_lines(of)?, self.measured_lines(than)?);
        let (mut common, mut below) = (0_u32, 0_u32);
        for one in &ones {
            for other in others.iter().filter(|other| other.by == one.by) {
                for (x, value) in values_of(one) {
                    let Some((_, against)) = values_of(other).find(|(at, _)| *at == x) else {
                        continue;
                    };
                    common += 1;
                    below += u32::from(value < against);
                }
            }
        }
        if common == 0 {
            return Err(unknown(String::from(
                "the two have no measured point in common",
            )));
        }
        let is_partial = has_gaps(&ones) || has_gaps(&others);
        Ok(Found {
            // A share such as 0.7 of ten points is seven of them, whatever a computer makes of 0.7.
            holds: f64::from(below) + 1e-9 >= share * f64::from(common),
            evidence: vec![format!("below at {below} of {common} common points")],
            is_partial,
        })
    }

    fn within(&self, of: &str, min: f64, max: f64) -> Result<Found, Missing> {
        let lines = self.measured_lines(of)?;
        let values = || {
            lines
                .iter()
                .flat_map(|line| values_of(line))
                .map(|(_, value)| value)
        };
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        Ok(Found {
            holds: low >= min && high <= max,
            evidence: vec![format!(
                "from {} to {}; tested: {} to {}",
                self.shown(low),
                self.shown(high),
                self.shown(min),
                self.shown(max)
            )],
            is_partial: has_gaps(&lines),
        })
    }

    fn best_at_least(&self, of: &[String], min: f64, from: f64) -> Result<Found, Missing> {
        let mut lines = Vec::new();
        let mut missing = None;
        for name in of {
            match self.measured_lines(name) {
                Ok(measured) => lines.extend(measured),
                Err(why) => missing = missing.or(Some(why)),
            }
        }
        let mut found = Found {
            holds: true,
            evidence: Vec::new(),
            is_partial: missing.is_some() || has_gaps(&lines),
        };
        // The lines of one number of clients (or whatever the lines are by) are alternatives.
        let mut alternatives: Vec<&Option<String>> = Vec::new();
        for line in &lines {
            if !alternatives.contains(&&line.by) {
                alternatives.push(&line.by);
            }
        }
        for by in alternatives {
            let mut places = Vec::new();
            for (index, x) in self.values.x.iter().enumerate() {
                if !matches!(x, Value::Number(at) if *at >= from) {
                    continue;
                }
                let best = lines
                    .iter()
                    .filter(|line| line.by == *by)
                    .filter_map(|line| {
                        let (_, value) = values_of(line).find(|(at, _)| *at == index)?;
                        Some((value, line))
                    })
                    .max_by(|one, other| one.0.total_cmp(&other.0));
                if let Some((value, line)) = best {
                    found.holds &= value >= min;
                    let (value, place) = (self.shown(value), self.place(index));
                    places.push(format!("{value} at {place} by {}", line.label()));
                }
            }
            if !places.is_empty() {
                found.evidence.push(places.join(", "));
            }
        }
        if found.evidence.is_empty() {
            let none = || unknown(format!("nothing was measured from {from} on"));
            return Err(missing.unwrap_or_else(none));
        }
        Ok(found)
    }

    /// The lines of a series, by its name or by what it is called.
    fn lines(&self, name: &str) -> impl Iterator<Item = &'a Line> {
        let lines = self
            .values
            .metrics
            .first()
            .map_or(&[][..], |metric| &metric.lines);
        lines.iter().filter(move |line| {
            line.series == name || line.series_label == name || line.label() == name
        })
    }

    /// Those of which anything was measured.
    fn measured_lines(&self, name: &str) -> Result<Vec<&'a Line>, Missing> {
        let all: Vec<&Line> = self.lines(name).collect();
        let measured: Vec<&Line> = all
            .iter()
            .copied()
            .filter(|line| line.measured().next().is_some())
            .collect();
        if !measured.is_empty() {
            return Ok(measured);
        }
        let points = || all.iter().flat_map(|line| &line.points);
        let label = all.first().map_or(name, |line| &line.series_label);
        let waiting = points().find_map(|point| match point {
            Outcome::Waiting(what) => Some(what),
            _ => None,
        });
        let failed = points().find_map(|point| match point {
            Outcome::Failed(why) => Some(why),
            _ => None,
        });
        Err(match (waiting, failed) {
            (Some(what), _) => Missing {
                verdict: Verdict::Waits,
                reason: format!("{label} waits for {what}"),
            },
            (None, Some(why)) => unknown(format!("{label} failed ({why})")),
            (None, None) => unknown(format!("{label} was not measured")),
        })
    }

    fn shown(&self, value: f64) -> String {
        let axis = &self.figure.y;
        let number = number::exact(value / axis.divide_by);
        if axis.unit.is_empty() {
            number
        } else {
            format!("{number} {}", axis.unit)
        }
    }

    fn place(&self, index: usize) -> String {
        let axis = &self.figure.x;
        let text = self
            .values
            .x
            .get(index)
            .map(|x| value_text(x, axis.divide_by));
        let text = text.unwrap_or_default();
        if axis.unit.is_empty() {
            text
        } else {
            format!("{text} {}", axis.unit)
        }
    }
}

fn unknown(reason: String) -> Missing {
    Missing {
        verdict: Verdict::Unknown,
        reason,
    }
}

fn values_of(line: &Line) -> impl Iterator<Item = (usize, f64)> {
    line.measured()
        .map(|(index, measured)| (index, measured.value))
}

fn has_gaps(lines: &[&Line]) -> bool {
    lines
        .iter()
        .any(|line| line.measured().count() < line.points.len())
}

#[cfg(test)]
mod tests;
