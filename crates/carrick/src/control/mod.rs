//! The control thread: resolves names, checks servers' health, serves admin.
//!
//! Invariant: a worker waits for this thread only when it asks for a name that its own cache does not have, and then it
//! awaits the answer while it goes on with its other connections.
mod admin;
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
