//! Handshakes that wait for the server: clients of transparent listeners whose SYN is held until the server has accepted.
//!
//! | module | what it has |
//! |---|---|
//! | this one | what all workers share: the programs that hold SYNs, how many are decided about at one time, what was done |
//! | `kept` | connections to servers that wait for their client's |
//!
//! What is decided about one SYN is in `accept/syn_defer.rs`. The states and bounds are in docs/internals/splitting.md.
mod kept;

pub use kept::Kept;

use crate::config::plan::{Handshake, Plan};
use carrick_splice::Unavailable;
use carrick_splice::syn_defer::{Reader, Settings, SynDefer};
use kept::Table;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// SYNs that are decided about, and servers' connections that wait for their client's, at one time, at most; and never more than half as many as clients
/// may be connected. Beyond that, clients are answered at once.
pub const PLACES_MAX: usize = 32_768;

/// How long a server's connection waits for its client's: some repetitions of what was lost on a long way. Then it is reset; should the client come
/// still, it gets a new one.
pub const KEPT_MAX: Duration = Duration::from_secs(8);

/// What was done with SYNs that were held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The server has accepted: it was let in.
    Released,
    /// The server has refused, or it may not be asked: so was the client.
    Refused,
    /// The server cannot be reached, and the client was told so.
    Unreachable,
    /// The server has not answered, and nobody has answered the client.
    Unanswered,
    /// Let in without asking the server: no place, or no descriptor, is free.
    Crowded,
    /// The client has come to the server's connection that was kept for it.
    Joined,
    /// It has not, and the server's connection was reset.
    Expired,
}

impl Done {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Released,
        Self::Refused,
        Self::Unreachable,
        Self::Unanswered,
        Self::Crowded,
        Self::Joined,
        Self::Expired,
    ];

    /// The label in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Unanswered => "unanswered",
            Self::Crowded => "crowded",
            Self::Joined => "joined",
            Self::Expired => "expired",
        }
    }
}

/// What all threads know of handshakes that wait.
#[derive(Debug, Clone, Default)]
pub struct Handshakes(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// None, if no listener holds SYNs.
    holder: OnceLock<Result<SynDefer, Unavailable>>,
    places: Arc<AtomicUsize>,
    table: Table,
    done: [AtomicU64; Done::ALL.len()],
}

/// One of [`PLACES_MAX`]; free again when dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handshakes {
    /// Begins to hold SYNs for the listeners of a plan that want it, as soon as workers [read](Handshakes::reader). Needs the privileges of the
    /// start. Where it cannot be done, clients are answered at once, and the log says so.
    ///
    /// # Errors
    /// It cannot be done, and the file asks for it by name.
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
        };
        // Once only, at the start.
        let Err(because) = self.0.holder.get_or_init(|| SynDefer::attach(&settings)) else {
            return Ok(());
        };
        if let Some((address, ..)) = listeners.iter().find(|(.., is_named)| *is_named) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "`handshake = \"server-first\"` on the listener {address}: clients' SYNs cannot be held back here, because {because}; write \"at-once\""
                ),
            ));
        }
        for (address, ..) in &listeners {
            tracing::warn!(
                "{address}: clients are answered at once, before the server has accepted, because {because}"
            );
        }
        Ok(())
    }

    /// Whether SYNs are held.
    #[must_use]
    pub fn are_held(&self) -> bool {
        self.holder().is_some()
    }

    /// Whether SYNs can be held; `None`: no listener has asked for it.
    #[must_use]
    pub fn usable(&self) -> Option<Result<(), &Unavailable>> {
        let holder = self.0.holder.get()?;
        Some(holder.as_ref().map(|_| ()))
    }

    fn holder(&self) -> Option<&SynDefer> {
        self.0.holder.get()?.as_ref().ok()
    }

    /// A worker's reader of what is held; `None`: nothing is. To be called in the worker's runtime.
    ///
    /// # Errors
    /// The kernel's.
    pub fn reader(&self, worker: usize) -> io::Result<Option<Reader>> {
        let holder = self.holder();
        holder.map(|holder| holder.reader(worker)).transpose()
    }

    /// A place for one more, if there is one; `clients_max`: so many clients may be connected.
    #[must_use]
    pub fn place(&self, clients_max: usize) -> Option<Place> {
        let places = &self.0.places;
        let place = Place(Arc::clone(places));
        let before = places.fetch_add(1, Ordering::Relaxed);
        // If there is none, it is given back at once.
        (before < PLACES_MAX.min(clients_max / 2)).then_some(place)
    }

    /// Places that are taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.places.load(Ordering::Relaxed)
    }

    /// Keeps a server's connection until its client comes.
    pub fn keep(&self, client: SocketAddr, server: SocketAddr, kept: Kept) {
        let replaced = self.0.table.put((client, server), kept, Instant::now());
        if replaced {
            self.count(Done::Expired);
        }
    }

    /// The server's connection that was kept for a client.
    #[must_use]
    pub fn take(&self, client: SocketAddr, server: SocketAddr) -> Option<Kept> {
        let kept = self.0.table.take(&(client, server))?;
        self.count(Done::Joined);
        Some(kept)
    }

    /// Resets connections whose clients did not come.
    pub fn expire(&self, now: Instant) {
        for expired in self.0.table.expire(now, KEPT_MAX) {
            drop(expired);
            self.count(Done::Expired);
        }
    }

    /// Counts one more. (At most some times for each connection, by whatever worker.)
    pub fn count(&self, done: Done) {
        if let Some(counter) = self.0.done.get(done as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often that was done.
    #[must_use]
    pub fn done(&self, done: Done) -> u64 {
        let counter = self.0.done.get(done as usize);
        counter.map_or(0, |counter| counter.load(Ordering::Relaxed))
    }

    /// What was done by the kernel and here, by label. All at zero, if nothing is held.
    #[must_use]
    pub fn events(&self) -> Vec<(&'static str, u64)> {
        let counts = self.holder().and_then(|holder| holder.counts().ok());
        let counts = counts.unwrap_or_default();
        let mut events = vec![
            ("held", counts.held),
            ("repeated", counts.repeated),
            ("unattended", counts.unattended),
            ("not_understood", counts.not_understood),
        ];
        events.extend(Done::ALL.map(|done| (done.label(), self.done(done))));
        // Here, or in the kernel already.
        for (label, count) in &mut events {
            if *label == Done::Crowded.label() {
                *count += counts.crowded;
            }
        }
        events
    }
}

#[cfg(test)]
mod tests;
