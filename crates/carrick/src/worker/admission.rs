//! How many clients are let in: over all workers, and per client address.
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a shortage that goes on, or comes back, is told.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The counts, shared by all workers. Touched when a connection begins and ends, never while bytes move.
#[derive(Debug, Default)]
pub struct Admission {
    open: AtomicUsize,
    limit: AtomicUsize,
    per_client_limit: AtomicUsize,
    per_client: Mutex<HashMap<IpAddr, usize>>,
    shortage_told: Mutex<Option<Instant>>,
}

/// Why a client is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The limit over all clients is reached: leave the connection in the kernel's queue.
    Connections,
    /// This client has as many connections as one may have.
    PerClient,
}

/// A client that was let in; its place is free again when this is dropped.
#[derive(Debug)]
pub struct Admitted {
    admission: Arc<Admission>,
    client: Option<IpAddr>,
}

impl Admission {
    /// Sets the limits; 0 for `per_client`: none. What is open stays open.
    pub fn set_limits(&self, connections: usize, per_client: usize) {
        self.limit.store(connections, Ordering::Relaxed);
        self.per_client_limit.store(per_client, Ordering::Relaxed);
    }

    /// Clients that are connected now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// So many clients may be connected.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Whether there is room for one more.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.open() < self.limit()
    }

    /// Whether the log is to hear of a shortage now: once for all workers, and not again for a while.
    #[must_use]
    pub fn tells_shortage(&self, now: Instant) -> bool {
        let mut told = self
            .shortage_told
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let tells = told.is_none_or(|before| now.duration_since(before) >= TELL_EVERY);
        if tells {
            *told = Some(now);
        }
        tells
    }

    /// Takes a place for `client`.
    ///
    /// # Errors
    /// [`Full`] says which limit is reached.
    pub fn admit(self: &Arc<Self>, client: IpAddr) -> Result<Admitted, Full> {
        let client = client.to_canonical();
        let per_client_max = self.per_client_limit.load(Ordering::Relaxed);
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed) {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::Connections);
        }
        let mut admitted = Admitted {
            admission: Arc::clone(self),
            client: None,
        };
        if per_client_max > 0 {
            let mut counts = self
                .per_client
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(client).or_insert(0);
            if *count >= per_client_max {
                drop(counts);
                return Err(Full::PerClient);
            }
            *count += 1;
            admitted.client = Some(client);
        }
        Ok(admitted)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.open.fetch_sub(1, Ordering::Relaxed);
        let Some(client) = self.client else { return };
        let mut counts = self
            .admission
            .per_client
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = counts.entry(client) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let admission = Arc::new(Admission::default());
        admission.set_limits(3, 2);
        let here: IpAddr = [127, 0, 0, 1].into();
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        let first = admission.admit(here).unwrap();
        let _second = admission.admit(mapped).unwrap();
        assert_eq!(admission.admit(here).unwrap_err(), Full::PerClient);
        assert_eq!(admission.open(), 2);
        let _other = admission.admit([127, 0, 0, 2].into()).unwrap();
        assert_eq!(
            admission.admit([127, 0, 0, 3].into()).unwrap_err(),
            Full::Connections
        );
        drop(first);
        let _again = admission.admit(here).unwrap();
        assert!(!admission.has_room());
    }

    #[test]
    fn a_shortage_is_told_once_in_a_while() {
        let admission = Admission::default();
        let now = Instant::now();
        assert!(admission.tells_shortage(now));
        assert!(!admission.tells_shortage(now + Duration::from_secs(59)));
        assert!(admission.tells_shortage(now + Duration::from_secs(60)));
    }
}
