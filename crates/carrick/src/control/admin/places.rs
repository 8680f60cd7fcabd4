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
pub(super) struct Places {
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
pub(super) struct Place {
    places: Arc<Places>,
    key: u64,
    /// The slot's connection.
    pub connection: Arc<Connection>,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a new connection. At the limit, the oldest waiting connection is dismissed, preferably one that
    /// has sent no request. Also returns whether the limit was reached.
    pub fn take(self: &Arc<Self>) -> (Place, bool) {
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
        let place = Place {
            places: Arc::clone(self),
            key,
            connection,
        };
        (place, is_full)
    }
}

impl Place {
    /// Waits for its turn to generate a page. Between two pages the thread does its other work; `/health` needs no turn.
    pub async fn turn(&self) {
        let _turn = self.places.turn.lock().await;
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

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.places.taken().connections.remove(&self.key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    fn is_dismissed(place: &Place) -> bool {
        let dismissed = std::pin::pin!(place.connection.is_dismissed());
        dismissed.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn the_oldest_that_waits_makes_room_and_first_one_that_has_asked_nothing() {
        let places = Arc::new(Places::default());
        let mut taken: Vec<Place> = (0..CONNECTIONS_MAX).map(|_| places.take().0).collect();
        // The first has sent a request and waits for more; the second is being answered.
        for place in &taken[..2] {
            assert!(place.connection.asks("/status"));
        }
        taken[0].connection.waits();
        let (place, is_full) = places.take();
        assert!(is_full && !place.connection.is_for_health);
        taken.push(place);
        assert!(is_dismissed(&taken[2]) && !is_dismissed(&taken[0]));
        // All others are being answered, so the waiting one is dismissed.
        for place in &taken[3..] {
            assert!(place.connection.asks("/metrics"));
        }
        let (place, _) = places.take();
        assert!(is_dismissed(&taken[0]) && place.connection.asks("/metrics"));
        taken.push(place);
        // The remaining slots are for health checks.
        for _ in 0..HEALTH_MAX {
            let (place, _) = places.take();
            assert!(place.connection.asks("/health") && !place.connection.asks("/status"));
            taken.push(place);
        }
        let first_for_health = taken.len() - HEALTH_MAX;
        let (last, _) = places.take();
        assert!(is_dismissed(&taken[first_for_health]));
        assert!(last.connection.asks("/health"));
        drop((taken, last));
        assert!(places.taken().connections.is_empty());
    }
}
