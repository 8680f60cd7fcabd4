//! The control thread: resolves names, checks servers' health, serves admin.
//!
//! Invariant: a worker asks this thread only for names that are not in its own cache, and serves its other connections while it waits.
pub mod acme;
mod admin;
mod dial;
mod exposition;
mod health;
mod signals;
mod state;
#[cfg(test)]
pub(crate) mod testing;
mod thread;

pub use exposition::{Format, exposition};
pub use signals::{SignalOrder, Signals};
pub use state::{ControlState, EngineStatus, NotReloaded, ReloadResult, Reloads, Running};
pub use thread::{Control, ControlHandle};
