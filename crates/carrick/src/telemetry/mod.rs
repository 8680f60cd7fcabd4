//! What carrick tells about itself: counters, the access log.
pub mod access_log;
mod exposition;
pub mod metrics;
mod process;

pub use exposition::{METRICS, MetricDeclaration, MetricKind, exposition};
