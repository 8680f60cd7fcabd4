//! Slots for deferred SYNs, in all and for each server: anyone can send SYNs in others' names.
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of SYNs being decided plus server connections waiting for their client; at most half of
/// `connections`. Beyond it, clients are answered at once.
pub const PLACES_MAX: usize = 32_768;

/// The same for one server's address, whatever the port.
pub const PLACES_PER_SERVER_MAX: usize = 256;

/// All slots, shared by all workers.
#[derive(Debug, Default)]
pub struct Places {
    all: AtomicUsize,
    per_server: Mutex<HashMap<IpAddr, usize>>,
}

/// One of the slots; freed when dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    server: IpAddr,
}

impl Places {
    /// Takes a slot for a server, if one is free. `clients_max` is the limit on connected clients.
    pub fn take(self: &Arc<Self>, clients_max: usize, server: IpAddr) -> Option<Place> {
        let most = PLACES_MAX.min(clients_max / 2);
        let one_more = |all: usize| (all < most).then_some(all + 1);
        (self.all)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        let server = server.to_canonical();
        let mut per_server = self.per_server();
        let count = per_server.entry(server).or_insert(0);
        if *count >= PLACES_PER_SERVER_MAX {
            self.all.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        *count += 1;
        Some(Place {
            places: Arc::clone(self),
            server,
        })
    }

    /// Number of slots in use.
    pub fn used(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// The lock guards plain values that are valid even after a panic.
    fn per_server(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        (self.per_server.lock()).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.places.per_server().entry(self.server) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
        self.places.all.fetch_sub(1, Ordering::Relaxed);
    }
}
