//! Limits the connections to admin, and chooses which one is closed when the limit is reached, so that admin stays reachable.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Most connections at one time.
pub(super) const CONNECTIONS_MAX: usize = 64;

/// Additional connections, which may request only `/health`.
pub(super) const HEALTH_MAX: usize = 8;

/// The connections, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct ConnectionSlots {
    taken: Mutex<Taken>,
    /// Held while a page is generated: one at a time.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    connections: BTreeMap<u64, Arc<Connection>>,
}

/// The state of one connection.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// Whether a request is being answered.
    is_asking: AtomicBool,
    /// Whether it has sent a request yet.
    has_asked: AtomicBool,
    /// Whether it may request only `/health`.
    is_for_health: bool,
    dismissed: Notify,
}

/// A connection's slot; dropping it frees the slot.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    key: u64,
    /// The slot's connection.
    pub connection: Arc<Connection>,
}

impl ConnectionSlots {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a new connection. At the limit, the oldest waiting connection is dismissed, preferably one that
    /// has sent no request. Also returns whether the limit was reached.
    pub fn take(self: &Arc<Self>) -> (ConnectionSlot, bool) {
        let mut taken = self.taken();
        let mut is_full = false;
        if taken.connections.len() >= CONNECTIONS_MAX {
            is_full = true;
            taken.dismiss();
        }
        let is_for_health = taken.connections.len() >= CONNECTIONS_MAX;
        let connection = Arc::new(Connection {
            is_for_health,
            ..Connection::default()
        });
        let key = taken.next;
        taken.next += 1;
        taken.connections.insert(key, Arc::clone(&connection));
        drop(taken);
        let slot = ConnectionSlot {
            slots: Arc::clone(self),
            key,
            connection,
        };
        (slot, is_full)
    }
}

impl ConnectionSlot {
    /// Waits for its turn to generate a page. Between two pages the thread does its other work; `/health` needs no turn.
    pub async fn turn(&self) {
        let _turn = self.slots.turn.lock().await;
        tokio::task::yield_now().await;
    }
}

impl Taken {
    /// Dismisses a waiting connection, or, if even the slots for `/health` are taken, one of those.
    fn dismiss(&mut self) {
        let oldest = |wanted: &dyn Fn(&Connection) -> bool| {
            let mut connections = self.connections.iter();
            connections.find_map(|(key, one)| wanted(one).then_some(*key))
        };
        let waits = |one: &Connection| !one.is_asking.load(Relaxed);
        let chosen = oldest(&|one| waits(one) && !one.has_asked.load(Relaxed))
            .or_else(|| oldest(&waits))
            .or_else(|| {
                let is_last = self.connections.len() >= CONNECTIONS_MAX + HEALTH_MAX;
                is_last.then(|| oldest(&|one| one.is_for_health)).flatten()
            });
        if let Some(one) = chosen.and_then(|key| self.connections.remove(&key)) {
            one.dismissed.notify_one();
        }
    }
}

impl Connection {
    /// Notes a request; false: the connection may request only `/health`, and this is another path.
    pub fn asks(&self, path: &str) -> bool {
        self.is_asking.store(true, Relaxed);
        self.has_asked.store(true, Relaxed);
        !self.is_for_health || path == "/health"
    }

    /// Notes that the answer is complete.
    pub fn waits(&self) {
        self.is_asking.store(false, Relaxed);
    }

    /// Returns when the connection is to be closed.
    pub async fn is_dismissed(&self) {
        self.dismissed.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        drop(self.slots.taken().connections.remove(&self.key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    fn is_dismissed(slot: &ConnectionSlot) -> bool {
        let dismissed = std::pin::pin!(slot.connection.is_dismissed());
        dismissed.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn the_oldest_that_waits_makes_room_and_first_one_that_has_asked_nothing() {
        let slots = Arc::new(ConnectionSlots::default());
        let mut taken: Vec<ConnectionSlot> = (0..CONNECTIONS_MAX).map(|_| slots.take().0).collect();
        // The first has sent a request and waits for more; the second is being answered.
        for slot in &taken[..2] {
            assert!(slot.connection.asks("/status"));
        }
        taken[0].connection.waits();
        let (slot, is_full) = slots.take();
        assert!(is_full && !slot.connection.is_for_health);
        taken.push(slot);
        assert!(is_dismissed(&taken[2]) && !is_dismissed(&taken[0]));
        // All others are being answered, so the waiting one is dismissed.
        for slot in &taken[3..] {
            assert!(slot.connection.asks("/metrics"));
        }
        let (slot, _) = slots.take();
        assert!(is_dismissed(&taken[0]) && slot.connection.asks("/metrics"));
        taken.push(slot);
        // The remaining slots are for health checks.
        for _ in 0..HEALTH_MAX {
            let (slot, _) = slots.take();
            assert!(slot.connection.asks("/health") && !slot.connection.asks("/status"));
            taken.push(slot);
        }
        let first_for_health = taken.len() - HEALTH_MAX;
        let (last, _) = slots.take();
        assert!(is_dismissed(&taken[first_for_health]));
        assert!(last.connection.asks("/health"));
        drop((taken, last));
        assert!(slots.taken().connections.is_empty());
    }
}
