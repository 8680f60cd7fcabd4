//! The two text formats of `/metrics`, and the choice between them by `Accept`.
#[cfg(test)]
mod tests;

use crate::telemetry::declarations::{METRICS, MetricDeclaration, MetricKind};
use std::fmt::Write;

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, which every reader supports.
    Plain,
    /// OpenMetrics.
    OpenMetrics,
}

impl Format {
    /// The value of `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Chooses by `Accept` (RFC 9110 section 12.5.1): the format with the higher quality; if equal, the one that is
    /// named more exactly; otherwise, or if neither is accepted, the plain format.
    #[must_use]
    pub fn asked_for(accept: &str) -> Self {
        let likes = |format: Self| {
            let ranges = accept.split(',').filter_map(MediaRange::parse);
            let fitting = ranges.filter_map(|range| Some((range.fits(format)?, range.quality)));
            // The most exact range for a format overrides the others.
            let best = fitting.max_by_key(|(exactness, quality)| (*exactness, *quality));
            let taken = best.filter(|(_, quality)| *quality > 0);
            taken.map_or((0, 0), |(exactness, quality)| (quality, exactness))
        };
        if likes(Self::OpenMetrics) > likes(Self::Plain) {
            Self::OpenMetrics
        } else {
            Self::Plain
        }
    }

    /// Type, subtype, and the version that `Accept` may name.
    const fn media_type(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Plain => ("text", "plain", "0.0.4"),
            Self::OpenMetrics => ("application", "openmetrics-text", "1.0.0"),
        }
    }
}

/// A member of `Accept`.
struct MediaRange<'a> {
    kind: &'a str,
    subtype: &'a str,
    version: Option<&'a str>,
    /// In thousandths.
    quality: u16,
}

impl<'a> MediaRange<'a> {
    fn parse(member: &'a str) -> Option<Self> {
        let mut parts = member.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut range = Self {
            kind,
            subtype,
            version: None,
            quality: 1000,
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                name if name.eq_ignore_ascii_case("q") => range.quality = quality(value.trim())?,
                name if name.eq_ignore_ascii_case("version") => {
                    range.version = Some(value.trim().trim_matches('"'));
                }
                // Both formats are UTF-8, and need no escaping of names.
                _ => {}
            }
        }
        Some(range)
    }

    /// How exactly the range matches the format; `None` if it does not.
    fn fits(&self, format: Format) -> Option<u8> {
        let (kind, subtype, version) = format.media_type();
        if self.kind == "*" {
            return (self.subtype == "*").then_some(1);
        }
        if !self.kind.eq_ignore_ascii_case(kind) {
            return None;
        }
        if self.subtype == "*" {
            return Some(2);
        }
        if !self.subtype.eq_ignore_ascii_case(subtype) {
            return None;
        }
        match self.version {
            None => Some(3),
            Some(wanted) => (wanted == version).then_some(4),
        }
    }
}

/// A weight in thousandths (RFC 9110 section 12.4.2).
fn quality(text: &str) -> Option<u16> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 3 || !part.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{part:0<3}").parse::<u16>().ok()?;
    match (whole, thousandths) {
        ("0", thousandths) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

/// Converts OpenMetrics text to the plain format: families have their samples' names, `info` becomes `gauge`, and there is no end mark.
pub(super) fn plain(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len() + 4096);
    for line in openmetrics.lines() {
        let described = ["# HELP ", "# TYPE "].into_iter().find_map(|start| {
            let (name, rest) = line.strip_prefix(start)?.split_once(' ')?;
            Some((start, declared(name)?, rest))
        });
        let _ = match described {
            Some((start, metric, _)) if start == "# TYPE " => {
                writeln!(text, "{start}{} {}", metric.sample_name(), kind(metric))
            }
            Some((start, metric, rest)) => {
                writeln!(text, "{start}{} {rest}", metric.sample_name())
            }
            None if line == "# EOF" => Ok(()),
            None => writeln!(text, "{line}"),
        };
    }
    text
}

fn declared(name: &str) -> Option<&'static MetricDeclaration> {
    METRICS.iter().find(|metric| metric.name == name)
}

const fn kind(metric: &MetricDeclaration) -> &'static str {
    match metric.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge | MetricKind::Info => "gauge",
        MetricKind::Histogram => "histogram",
    }
}
