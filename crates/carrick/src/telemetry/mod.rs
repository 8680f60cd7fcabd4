//! Counters, the access log, messages, and the list of tunnels.
use carrick_splice::Engine;
pub mod access_log;
pub mod control;
pub mod declarations;
pub mod forwarded;
pub mod job;
pub mod messages;
pub mod metrics;
pub mod process;
pub mod tunnels;

pub use control::{ControlMetrics, LookupResult};
pub use declarations::{METRICS, MetricDeclaration, MetricKind};

/// An engine's name, as in the configuration.
pub fn engine_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Copy => "copy",
        Engine::Pipe => "pipe",
        Engine::Socket => "socket",
        Engine::Packet => "packet",
    }
}
