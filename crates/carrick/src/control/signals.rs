//! Signals as commands to the program.
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalOrder {
    /// SIGTERM, SIGINT: finish what is under way, then end. The second one ends at once.
    Drain,
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGUSR1: reopen the access log.
    ReopenLogs,
}

/// The signals that carrick handles.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    user_1: Signal,
}

impl Signals {
    /// Installs the handlers; needs a tokio runtime.
    ///
    /// # Errors
    /// The kernel refused a handler.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the one that asks to end.
    pub async fn told_to_end(&mut self) {
        while self.next().await != SignalOrder::Drain {}
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> SignalOrder {
        tokio::select! {
            _ = self.terminate.recv() => SignalOrder::Drain,
            _ = self.interrupt.recv() => SignalOrder::Drain,
            _ = self.hang_up.recv() => SignalOrder::Reload,
            _ = self.user_1.recv() => SignalOrder::ReopenLogs,
        }
    }
}

#[cfg(test)]
mod tests;
