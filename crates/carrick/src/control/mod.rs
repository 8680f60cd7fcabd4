//! The control thread: resolves names, checks servers' health, serves admin. It never holds anything that a worker waits for
//! except the answer to a name that no cache knows.
pub mod admin;
pub mod health;
pub mod resolver;
pub mod signals;
mod state;

pub use resolver::{ResolveError, Resolver, WorkerResolver};
pub use state::{ControlState, EngineStatus, Running};

use std::io;
use std::sync::Arc;

/// Starts the control thread.
#[derive(Debug)]
pub struct Control;

impl Control {
    /// Binds the admin address, then starts the thread.
    ///
    /// # Errors
    /// The admin address cannot be bound (the message says which and what to do), or the thread not started.
    pub fn start(state: Arc<ControlState>) -> io::Result<ControlHandle> {
        let _ = state;
        Err(io::Error::other("not yet"))
    }
}

/// What the rest of the program has of the control thread.
#[derive(Debug)]
pub struct ControlHandle {
    resolver: Resolver,
}

impl ControlHandle {
    /// Takes up a new configuration: admin address, health checks, DNS cache; `/etc/resolv.conf` and `/etc/hosts` are read again.
    /// Publishes `running` in the state.
    ///
    /// # Errors
    /// The new admin address cannot be bound; nothing has changed.
    pub fn apply(&self, running: Running) -> io::Result<()> {
        let _ = running;
        Ok(())
    }

    /// Resolves names; to be cloned into workers.
    #[must_use]
    pub fn resolver(&self) -> Resolver {
        self.resolver.clone()
    }

    /// Ends the thread. Look-ups under way fail.
    pub fn shutdown(self) {}
}
