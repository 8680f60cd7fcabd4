//! What carrick tells about itself: counters, the access log.
pub mod access_log;
mod declarations;
mod exposition;
pub mod forwarded;
pub mod metrics;
mod process;
pub mod tunnels;

pub use declarations::{METRICS, MetricDeclaration, MetricKind};
pub use exposition::{Format, exposition};
