//! Limits on the computing of hashes: how many at a time, and how many requests may wait, in all and for each client.
use carrick_logic::access::network_of_client;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most password hashes that are computed at one time, for all workers.
const HASHES_AT_ONCE_MAX: usize = 4;

/// Most requests whose hashes wait or are computed, for all workers. A browser may begin with a hundred, of which one costs a hash.
const PLACES_MAX: usize = 1024;

/// The limits of one password file.
pub(super) struct Gate {
    hashes: Arc<Semaphore>,
    clients: Mutex<HashMap<IpAddr, Queue>>,
}

/// The requests of one client: an IPv4 address, or a /64. Their hashes are computed one after the other, so that others' need not
/// wait for all of them.
struct Queue {
    places: usize,
    turn: Arc<Semaphore>,
}

/// A request's place; dropping it frees it.
pub(super) struct Place {
    gate: Arc<Gate>,
    /// Its [network](network_of_client).
    client: IpAddr,
    turn: Arc<Semaphore>,
}

/// A computation's permission; to be held as long as it lasts, even if the client has gone.
pub(super) struct Permit {
    _hash: OwnedSemaphorePermit,
    _turn: OwnedSemaphorePermit,
    _place: Place,
}

impl Gate {
    /// One processor is left to everything else, if there are several.
    pub fn new() -> Arc<Self> {
        let cores = available_parallelism().map_or(1, std::num::NonZero::get);
        Self::with(cores.saturating_sub(1).clamp(1, HASHES_AT_ONCE_MAX))
    }

    fn with(hashes: usize) -> Arc<Self> {
        Arc::new(Self {
            hashes: Arc::new(Semaphore::new(hashes)),
            clients: Mutex::default(),
        })
    }

    /// A place, if there is one: a client gets as many as are left then, so that one has half of them at most, and
    /// none is left without.
    pub fn enter(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let client = network_of_client(client);
        let mut clients = self.clients();
        let taken: usize = clients.values().map(|queue| queue.places).sum();
        let own = clients.get(&client).map_or(0, |queue| queue.places);
        if own >= PLACES_MAX.saturating_sub(taken) {
            return None;
        }
        let queue = clients.entry(client).or_insert_with(|| Queue {
            places: 0,
            turn: Arc::new(Semaphore::new(1)),
        });
        queue.places += 1;
        Some(Place {
            gate: Arc::clone(self),
            client,
            turn: Arc::clone(&queue.turn),
        })
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<IpAddr, Queue>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until the hash may be computed. `None` does not happen: the semaphores are never closed.
    pub async fn permit(self) -> Option<Permit> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let hash = Arc::clone(&self.gate.hashes).acquire_owned().await.ok()?;
        Some(Permit {
            _hash: hash,
            _turn: turn,
            _place: self,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut clients = self.gate.clients();
        if let Some(queue) = clients.get_mut(&self.client) {
            queue.places -= 1;
            if queue.places == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn no_client_takes_the_places_of_others() {
        let gate = Gate::with(1);
        let first: Vec<_> = std::iter::from_fn(|| gate.enter(client(0))).collect();
        assert_eq!(first.len(), PLACES_MAX / 2);
        let second: Vec<_> = std::iter::from_fn(|| gate.enter(client(1))).collect();
        assert_eq!(second.len(), PLACES_MAX / 4);
        assert!(gate.enter(client(0)).is_none());
        let others: Vec<_> = (2..1000)
            .filter_map(|number| gate.enter(client(number)))
            .collect();
        assert_eq!(others.len(), PLACES_MAX / 4);
        drop((first, second, others));
        assert!(gate.clients().is_empty());
        assert!(gate.enter(client(0)).is_some());
        let mut host = 0;
        let of_one_line = std::iter::from_fn(|| {
            host += 1;
            gate.enter(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, host]))
        });
        assert_eq!(of_one_line.collect::<Vec<_>>().len(), PLACES_MAX / 2);
    }

    #[tokio::test]
    async fn a_client_that_comes_later_waits_for_one_of_anothers_hashes() {
        let gate = Gate::with(1);
        let order = Arc::new(Mutex::new(Vec::new()));
        let running = gate.enter(client(0)).unwrap().permit().await;
        let mut tasks = tokio::task::JoinSet::new();
        for number in [0, 0, 0, 1] {
            let (place, order) = (gate.enter(client(number)).unwrap(), Arc::clone(&order));
            tasks.spawn(async move {
                let _permit = place.permit().await;
                order.lock().unwrap().push(number);
            });
            // Until it waits.
            tokio::task::yield_now().await;
        }
        drop(running);
        tasks.join_all().await;
        assert_eq!(*order.lock().unwrap(), [1, 0, 0, 0]);
    }

    #[tokio::test]
    async fn who_stops_waiting_frees_the_place() {
        let gate = Gate::with(1);
        let running = gate.enter(client(0)).unwrap().permit().await;
        let waiting = tokio::spawn(gate.enter(client(1)).unwrap().permit());
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.is_err());
        assert!(!gate.clients().contains_key(&client(1)));
        drop(running);
        assert!(gate.clients().is_empty());
    }
}
