//! Slots for deferred SYNs, in all and for each server: anyone can send SYNs in others' names.
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of SYNs being decided plus server connections waiting for their client; at most half of
/// `connections`. Beyond it, clients are answered at once.
pub const PLACES_MAX: usize = 32_768;

/// The same for one server's address, whatever the port.
pub const PLACES_PER_SERVER_MAX: usize = 256;

/// All slots, shared by all workers.
#[derive(Debug, Default)]
pub struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    per_server: HashMap<IpAddr, usize>,
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
        let server = server.to_canonical();
        let mut taken = self.taken();
        let own = taken.per_server.get(&server).copied().unwrap_or_default();
        if taken.all >= PLACES_MAX.min(clients_max / 2) || own >= PLACES_PER_SERVER_MAX {
            return None;
        }
        taken.all += 1;
        taken.per_server.insert(server, own + 1);
        Some(Place {
            places: Arc::clone(self),
            server,
        })
    }

    /// Number of slots in use.
    pub fn used(&self) -> usize {
        self.taken().all
    }

    /// The lock guards plain values that are valid even after a panic.
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Entry::Occupied(mut entry) = taken.per_server.entry(self.server) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}
