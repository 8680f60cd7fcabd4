//! `/metrics`: every metric's name, type and help text, and their values in OpenMetrics text.
use crate::control::ControlState;

/// Kinds of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are OpenMetrics'")]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric's declaration.
#[derive(Debug)]
pub struct MetricDeclaration {
    /// As it appears in the output, without what histograms append.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// What it means, one sentence.
    pub help: &'static str,
}

/// All metrics.
pub const METRICS: &[MetricDeclaration] = &[];

/// Writes all metrics.
#[must_use]
pub fn exposition(state: &ControlState) -> String {
    let _ = state;
    String::new()
}
