//! Who is connected to admin, and who has to go when there is no room: asking must be possible whatever others do.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Most connections at one time.
pub(super) const CONNECTIONS_MAX: usize = 64;

/// So many more, which get nothing but `/health`.
pub(super) const HEALTH_MAX: usize = 8;

/// The connections, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Places {
    taken: Mutex<Taken>,
    /// For pages, of which one is made at a time.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    connections: BTreeMap<u64, Arc<Connection>>,
}

/// What is known of one.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// Whether a request is being answered.
    is_asking: AtomicBool,
    /// Whether it has asked anything yet.
    has_asked: AtomicBool,
    /// Whether it is one of those that get nothing but `/health`.
    is_for_health: bool,
    dismissed: Notify,
}

/// A connection's place, given up when dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    key: u64,
    /// Whose place it is.
    pub connection: Arc<Connection>,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection that has come. Where there is none, the oldest of those that wait makes room, first one that has not
    /// asked anything; whether that was so.
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
    /// Waits for its turn to have a page made. Between two pages the thread does whatever else there is to do; `/health` has no turn.
    pub async fn turn(&self) {
        let _turn = self.places.turn.lock().await;
        tokio::task::yield_now().await;
    }
}

impl Taken {
    /// Sends one away, if one waits, or if even the places for `/health` are taken.
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
    /// It has asked something; false: it gets no answer, but to `/health`.
    pub fn asks(&self, path: &str) -> bool {
        self.is_asking.store(true, Relaxed);
        self.has_asked.store(true, Relaxed);
        !self.is_for_health || path == "/health"
    }

    /// The answer is made.
    pub fn waits(&self) {
        self.is_asking.store(false, Relaxed);
    }

    /// Returns when it has to go.
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
        // The first has asked and waits for more; the second is being answered.
        for place in &taken[..2] {
            assert!(place.connection.asks("/status"));
        }
        taken[0].connection.waits();
        let (place, is_full) = places.take();
        assert!(is_full && !place.connection.is_for_health);
        taken.push(place);
        assert!(is_dismissed(&taken[2]) && !is_dismissed(&taken[0]));
        // When all others are being answered, the one that waits goes.
        for place in &taken[3..] {
            assert!(place.connection.asks("/metrics"));
        }
        let (place, _) = places.take();
        assert!(is_dismissed(&taken[0]) && place.connection.asks("/metrics"));
        taken.push(place);
        // Then there is room for those who ask whether it is well.
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
