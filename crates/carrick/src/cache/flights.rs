//! Collapsed requests: of those for the same resource at the same time, one asks the origin, and the others wait until its response is
//! stored, or is known not to be.
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The resources that all workers are asking for.
#[derive(Debug, Default)]
pub struct Flights {
    // A receiver learns when its sender is dropped. The value: whether there was an answer.
    under_way: Mutex<HashMap<Box<[u8]>, watch::Receiver<bool>>>,
}

/// What a request has to do for a resource.
#[derive(Debug)]
pub enum Flight {
    /// Ask.
    Lead(Lead),
    /// Wait, as another request asks.
    Follow(Follow),
}

/// The duty to ask. Dropping it lets the others go on, one of which takes over.
#[derive(Debug)]
pub struct Lead {
    flights: Arc<Flights>,
    key: Box<[u8]>,
    over: watch::Sender<bool>,
}

/// Waits for the end of another request's flight.
#[derive(Debug)]
pub struct Follow(watch::Receiver<bool>);

impl Flights {
    /// Decides whether a request for `key` asks or waits.
    #[must_use]
    pub fn board(self: &Arc<Self>, key: &[u8]) -> Flight {
        match self.lock().entry(key.into()) {
            Entry::Occupied(flight) => Flight::Follow(Follow(flight.get().clone())),
            Entry::Vacant(place) => {
                let (over, flight) = watch::channel(false);
                place.insert(flight);
                Flight::Lead(Lead {
                    flights: Arc::clone(self),
                    key: key.into(),
                    over,
                })
            }
        }
    }

    /// Whether a request for `key` is asking.
    #[must_use]
    pub fn has(&self, key: &[u8]) -> bool {
        self.lock().contains_key(key)
    }

    /// How many resources are being asked for.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, watch::Receiver<bool>>> {
        // No code under the lock can leave the table half changed.
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead {
    /// There was an answer, or there will be none: the others need not ask one after the other. What they should find must be stored.
    pub fn end(self) {
        // They are woken when it is dropped.
        self.over.send_if_modified(|is_answered| {
            *is_answered = true;
            false
        });
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        // The table first: a new request looks into the store, and asks if there is nothing.
        self.flights.lock().remove(&self.key);
    }
}

impl Follow {
    /// Waits until the flight is over; whether there was an answer.
    pub async fn over(&mut self) -> bool {
        while self.0.changed().await.is_ok() {}
        *self.0.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn one_asks_and_all_who_wait_go_on_at_its_end() {
        let flights = Arc::new(Flights::default());
        let Flight::Lead(lead) = flights.board(b"a") else {
            panic!("no request asks yet")
        };
        let mut followers: Vec<_> = (0..3).map(|_| flights.board(b"a")).collect();
        assert!(matches!(flights.board(b"b"), Flight::Lead(_)));
        assert_eq!(flights.count(), 1, "the lead of b was dropped at once");
        let Flight::Follow(first) = &mut followers[0] else {
            panic!("a request asks already")
        };
        let early = tokio::time::timeout(Duration::from_millis(20), first.over()).await;
        assert!(early.is_err(), "the flight is not over yet");
        lead.end();
        for follower in &mut followers {
            let Flight::Follow(follow) = follower else {
                panic!("a request asked already")
            };
            assert!(follow.over().await);
        }
        let Flight::Lead(leaves) = flights.board(b"a") else {
            panic!("no request asks any more")
        };
        let Flight::Follow(mut follow) = flights.board(b"a") else {
            panic!("a request asks again")
        };
        drop(leaves);
        assert!(!follow.over().await);
    }

    #[test]
    fn the_end_is_told_to_other_threads() {
        let flights = Arc::new(Flights::default());
        let Flight::Lead(lead) = flights.board(b"a") else {
            panic!("no request asks yet")
        };
        let waiting: Vec<_> = (0..4)
            .map(|_| {
                let flights = Arc::clone(&flights);
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .build()
                        .expect("a runtime");
                    runtime.block_on(async {
                        if let Flight::Follow(mut follow) = flights.board(b"a") {
                            follow.over().await;
                        }
                    });
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(20));
        drop(lead);
        for thread in waiting {
            thread.join().expect("it ends");
        }
        assert_eq!(flights.count(), 0);
    }
}
