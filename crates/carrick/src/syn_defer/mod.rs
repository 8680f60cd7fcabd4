//! Deferred SYNs: a transparent listener answers a client's SYN only after the server has accepted.
//!
//! | module | contents |
//! |---|---|
//! | this one | state shared by workers: the BPF programs, the slots, counters |
//! | `kept` | server connections that wait for their client |
//! | `places` | the slots of SYNs and connections, per server too |
//!
//! `accept/syn_defer.rs` decides about each SYN. docs/internals/splitting.md has the states and limits.
mod kept;
mod places;

pub use kept::Kept;
pub use places::Place;

use crate::config::plan::{Handshake, Plan};
use carrick_splice::Unavailable;
use carrick_splice::syn_defer::{Reader, Settings, SynDefer, UNATTENDED};
use kept::KeptTable;
use places::Places;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a server connection waits for its client: long enough for some retransmissions. Then it is reset; if the client still comes,
/// carrick connects anew.
pub const KEPT_MAX: Duration = Duration::from_secs(8);

carrick_logic::named! {
    /// What became of deferred SYNs.
    pub enum DeferredOutcome with label {
        /// The server accepted, so the client is admitted.
        Released = "released",
        /// The server refused or access is denied, so the client is refused.
        Refused = "refused",
        /// The server is unreachable, and the client was told so.
        Unreachable = "unreachable",
        /// The server did not answer, so the client gets no answer either.
        Unanswered = "unanswered",
        /// Admitted without asking the server: no slot or file descriptor was free, or a drain began.
        Crowded = "crowded",
        /// The client's connection arrived and uses the waiting server connection.
        Joined = "joined",
        /// The client did not arrive; the server connection was reset.
        Expired = "expired",
    }
}

/// State of deferred SYNs, shared by all threads.
#[derive(Debug, Clone, Default)]
pub struct DeferredSyns(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// `None`: no listener defers SYNs.
    syn_defer: OnceLock<Result<SynDefer, Unavailable>>,
    places: Arc<Places>,
    table: KeptTable,
    outcomes: [AtomicU64; DeferredOutcome::ALL.len()],
}

impl DeferredSyns {
    /// Starts deferring SYNs for the plan's listeners that ask for it, once workers [read](DeferredSyns::reader). Needs start-up privileges.
    /// If the kernel cannot do it, clients are answered at once and the reason is logged.
    ///
    /// # Errors
    /// The kernel cannot do it, and the configuration requires it.
    pub fn attach(&self, plan: &Plan) -> io::Result<()> {
        let listeners = plan.listeners.iter().filter_map(|listener| {
            let mark = listener.interception.as_ref()?.mark;
            match listener.handshake {
                Handshake::ServerFirst { is_named } => Some((listener.address, mark, is_named)),
                Handshake::AtOnce => None,
            }
        });
        let listeners: Vec<_> = listeners.collect();
        if listeners.is_empty() {
            return Ok(());
        }
        let settings = Settings {
            marks: listeners.iter().map(|(_, mark, _)| *mark).collect(),
            readers: plan.workers,
            assigned_only: true,
            unattended: UNATTENDED,
        };
        // Called only once, at start.
        let Err(because) = self.0.syn_defer.get_or_init(|| SynDefer::attach(&settings)) else {
            return Ok(());
        };
        if let Some((address, ..)) = listeners.iter().find(|(.., is_named)| *is_named) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "`handshake = \"server-first\"` on the listener {address}: this machine cannot defer SYNs, because {because}; use \"at-once\""
                ),
            ));
        }
        for (address, ..) in &listeners {
            tracing::warn!(
                "listener {address} answers clients before their server has accepted, because {because}"
            );
        }
        Ok(())
    }

    /// Whether SYNs are deferred.
    #[must_use]
    pub fn are_deferred(&self) -> bool {
        self.syn_defer().is_some()
    }

    /// Whether SYNs can be deferred; `None`: no listener asks for it.
    #[must_use]
    pub fn usable(&self) -> Option<Result<(), &Unavailable>> {
        let syn_defer = self.0.syn_defer.get()?;
        Some(syn_defer.as_ref().map(|_| ()))
    }

    fn syn_defer(&self) -> Option<&SynDefer> {
        self.0.syn_defer.get()?.as_ref().ok()
    }

    /// A worker's reader of deferred SYNs; `None`: none are deferred. Call it within the worker's runtime.
    ///
    /// # Errors
    /// From the kernel.
    pub fn reader(&self, worker: usize) -> io::Result<Option<Reader>> {
        let syn_defer = self.syn_defer();
        syn_defer
            .map(|syn_defer| syn_defer.reader(worker))
            .transpose()
    }

    /// Takes a slot for a server, if there is one. `clients_max` is the limit on connected clients.
    #[must_use]
    pub fn place(&self, clients_max: usize, server: IpAddr) -> Option<Place> {
        self.0.places.take(clients_max, server)
    }

    /// Number of slots in use.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.places.used()
    }

    /// Keeps a server connection until its client arrives.
    pub fn keep(&self, client: SocketAddr, server: SocketAddr, kept: Kept) {
        let replaced = self.0.table.put((client, server), kept, Instant::now());
        if replaced {
            self.count(DeferredOutcome::Expired);
        }
    }

    /// Takes the server connection that waits for a client, which has completed its handshake. Of a client that has as many connections
    /// as it may have, it is reset.
    #[must_use]
    pub fn take(&self, client: SocketAddr, server: SocketAddr) -> Option<Kept> {
        let kept = self.0.table.take(&(client, server))?;
        let admitted = kept.admitted.as_ref();
        if admitted.is_some_and(|admitted| admitted.count_for(Some(client.ip())).is_err()) {
            self.count(DeferredOutcome::Expired);
            return None;
        }
        self.count(DeferredOutcome::Joined);
        Some(kept)
    }

    /// Resets connections that have waited for their clients for `age_max`.
    pub fn expire(&self, now: Instant, age_max: Duration) {
        for expired in self.0.table.expire(now, age_max) {
            drop(expired);
            self.count(DeferredOutcome::Expired);
        }
    }

    /// Adds one to a counter shared by all workers; called a few times per connection.
    pub fn count(&self, outcome: DeferredOutcome) {
        if let Some(counter) = self.0.outcomes.get(outcome as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The value of a counter.
    #[must_use]
    pub fn outcomes(&self, outcome: DeferredOutcome) -> u64 {
        let counter = self.0.outcomes.get(outcome as usize);
        counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// Counters of the kernel and the process, by label; all zero if no SYNs are deferred.
    #[must_use]
    pub fn events(&self) -> Vec<(&'static str, u64)> {
        let counts = self
            .syn_defer()
            .and_then(|syn_defer| syn_defer.counts().ok());
        let counts = counts.unwrap_or_default();
        let mut events = vec![
            ("deferred", counts.deferred),
            ("repeated", counts.repeated),
            ("unattended", counts.unattended),
            ("not_understood", counts.not_understood),
        ];
        events
            .extend(DeferredOutcome::ALL.map(|outcome| (outcome.label(), self.outcomes(outcome))));
        // Decided by the process or by the kernel.
        for (label, count) in &mut events {
            if *label == DeferredOutcome::Crowded.label() {
                *count += counts.crowded;
            }
        }
        events
    }
}

#[cfg(test)]
mod tests;
