//! The connections of one worker to the far end of a link: some are opened in advance, and all are reused.
use super::keep_alive;
use crate::connect::dial::{Terms, dial};
use crate::connect::tcp_profile::ServerProfiles;
use crate::context::worker::{Connector, Sessions, Worker};
use crate::telemetry::metrics::WorkerMetrics;
use crate::upstream::Unreachable;
use crate::upstream::link::Link;
use crate::upstream::link_connection::{Connection, Lost};
use carrick_logic::link::{Frame, VERSION};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// After a failure to connect, attempts fail at once for this long.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

impl Link {
    /// Returns a connection to the pool; it must be idle.
    pub fn put(&self, sessions: &Sessions, connection: Connection) {
        self.has_answered();
        let mut idle = self.idle.borrow_mut();
        if !self.is_retired.get() && !sessions.is_draining() && idle.len() < self.plan.connections {
            idle.push_back(connection);
        }
    }

    /// The far end works: its next failure is news.
    pub fn has_answered(&self) {
        self.failed.set(None);
    }

    /// Opens a connection and sends HELLO without waiting for the answer.
    ///
    /// # Errors
    /// See [`Unreachable`].
    pub async fn connect(&self, connector: &Connector) -> Result<Connection, Unreachable> {
        let now = Instant::now();
        let rests = |failed| now.saturating_duration_since(failed) < PAUSE_AFTER_FAILURE;
        if self.failed.get().is_some_and(rests) {
            return Err(Unreachable::NoServer);
        }
        let terms = Terms {
            profiles: (self.plan.tcp_profile.as_ref())
                .map(|profile| ServerProfiles::always(&connector.tcp_tuning, profile)),
            ..Terms::default()
        };
        let limit = connector.live().plan().timeouts.connect;
        let dialled = Box::pin(dial(connector, &self.plan.peer, None, terms, limit)).await;
        let opened = dialled.and_then(|upstream| {
            Connection::opened(upstream, &connector.metrics).ok_or(Unreachable::NoServer)
        });
        let connection = match opened {
            Ok(connection) => connection,
            Err(unreachable) => {
                self.failed(&connector.metrics, &unreachable);
                return Err(unreachable);
            }
        };
        let profile = self.plan.tcp_profile.as_ref().map(|plan| &plan.profile);
        if profile.is_none_or(|profile| profile.keepalive.is_none()) {
            keep_alive(&connection.stream);
        }
        let hello = Frame::Hello { version: VERSION };
        if let Err(error) = connection.send(&hello).await {
            let unreachable = Unreachable::Connect {
                address: connection.peer,
                error,
            };
            self.failed(&connector.metrics, &unreachable);
            return Err(unreachable);
        }
        Ok(connection)
    }

    /// Records that the peer is unreachable or violates the protocol.
    pub(super) fn failed(&self, metrics: &WorkerMetrics, why: &dyn std::fmt::Display) {
        metrics.link.failed.add(1);
        if self.failed.replace(Some(Instant::now())).is_none() {
            tracing::warn!("link \"{}\" to {}: {why}", self.plan.name, self.plan.peer);
        } else {
            tracing::debug!("link \"{}\" to {}: {why}", self.plan.name, self.plan.peer);
        }
    }

    /// Whether the far end was unreachable, and the connections that are opened in advance find out when it is not any more: no
    /// client need wait for that.
    pub(super) fn is_tried_ahead(self: &Rc<Self>, worker: &Rc<Worker>) -> bool {
        let has_failed = self.failed.get().is_some();
        if has_failed {
            self.fill(worker);
        }
        has_failed && self.opening.get() > 0
    }

    /// Opens connections in advance.
    pub fn fill(self: &Rc<Self>, worker: &Rc<Worker>) {
        let there = self.idle_count() + self.opening.get();
        if worker.sessions.is_draining() || self.is_retired.get() {
            return;
        }
        for _ in there..self.plan.preconnect {
            self.opening.set(self.opening.get() + 1);
            let (link, worker) = (Rc::clone(self), Rc::clone(worker));
            tokio::task::spawn_local(async move {
                link.open_ahead(&worker).await;
                link.opening.set(link.opening.get() - 1);
            });
        }
    }

    async fn open_ahead(&self, worker: &Worker) {
        let Ok(connection) = self.connect(&worker.connector).await else {
            return;
        };
        // Here no client waits for the answer; otherwise it arrives with that to OPEN.
        let limit = worker.live().plan().timeouts.connect;
        let greeted = tokio::time::timeout(limit, connection.expect_hello()).await;
        match greeted {
            Ok(Ok(version)) if version <= VERSION => self.put(&worker.sessions, connection),
            Ok(Ok(_)) => self.failed(
                worker.metrics(),
                &"it speaks another version of the link protocol",
            ),
            Ok(Err(lost)) => {
                if matches!(lost, Lost::Malformed(_)) {
                    worker.metrics().link.malformed.add(1);
                }
                self.failed(worker.metrics(), &lost);
            }
            Err(_) => self.failed(worker.metrics(), &"it did not answer HELLO in time"),
        }
    }
}

/// Opens connections in advance on all links of the plan in force.
pub fn fill_all(worker: &Rc<Worker>) {
    for link in &worker.live().links {
        link.fill(worker);
    }
}

/// Periodic work, about once a second: removes ended connections, opens new ones.
pub fn keep_up(worker: &Rc<Worker>) {
    let live = worker.live();
    let mut idle = 0;
    for link in &live.links {
        link.drop_dead();
        link.fill(worker);
        idle += link.idle_count() as u64;
    }
    // Sampled, as for other idle connections.
    let metrics = &worker.metrics().link;
    let known = metrics.idle();
    metrics.idle_added.add(idle.saturating_sub(known));
    metrics.idle_removed.add(known.saturating_sub(idle));
}
