//! Limits clients, over all workers and per client address, and connections to servers.
use carrick_logic::access::network_of_client;
use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The most often that a lasting or recurring shortage is logged.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Counts shared by all workers. Updated when a connection begins and ends, never while bytes move.
#[derive(Debug, Default)]
pub struct Admission {
    open: AtomicUsize,
    limit: AtomicUsize,
    per_client_limit: AtomicUsize,
    /// Wakes one waiter per free slot, the longest-waiting first.
    is_free: Notify,
    per_client: Mutex<HashMap<Counted, usize>>,
    shortage_told: Mutex<Option<Instant>>,
    stalled_bytes: AtomicU64,
    stalled_told: Mutex<Option<Instant>>,
    /// Connections to servers, idle ones included.
    upstreams: AtomicUsize,
    upstreams_limit: AtomicUsize,
    upstreams_waited_for: AtomicUsize,
    /// Like `is_free`.
    upstream_is_free: Notify,
}

/// A client, and whether it has completed a handshake: others could have sent a SYN in its name, so these are counted apart.
type Counted = (IpAddr, bool);

/// Why a client is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The limit over all clients is reached: leave the connection in the kernel's queue.
    Connections,
    /// This client has reached its limit.
    PerClient,
}

/// An admitted client; dropping this frees its slot.
#[derive(Debug)]
pub struct Admitted {
    admission: Arc<Admission>,
    /// Whom it is counted for.
    client: Cell<Option<Counted>>,
    /// Whether it is a request beside others on the connection of one that was admitted, and has no slot.
    is_beside: bool,
}

/// A slot for a connection to a server, which needs a descriptor; dropping this frees it.
#[derive(Debug)]
pub struct UpstreamPlace(Arc<Admission>);

/// A waiter for an [`UpstreamPlace`].
struct UpstreamWait<'a>(&'a Admission);

impl Admission {
    /// Sets the limits; 0 for `per_client`: no limit. Open connections stay. `upstreams` limits connections to servers.
    pub fn set_limits(&self, connections: usize, per_client: usize, upstreams: usize) {
        self.limit.store(connections, Ordering::Relaxed);
        self.upstreams_limit.store(upstreams, Ordering::Relaxed);
        self.per_client_limit.store(per_client, Ordering::Relaxed);
        // A limit may have risen.
        self.is_free.notify_waiters();
        self.upstream_is_free.notify_waiters();
    }

    /// Admits nobody any more, on any worker.
    pub fn close(&self) {
        self.limit.store(0, Ordering::SeqCst);
    }

    /// Number of connected clients.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Limit on connected clients.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Whether another client can be admitted.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.open() < self.limit()
    }

    /// Whether to log a shortage now: once for all workers, then not for a while.
    #[must_use]
    pub fn tells_shortage(&self, now: Instant) -> bool {
        tells(&self.shortage_told, now)
    }

    /// Like [`tells_shortage`](Self::tells_shortage), for memory held by stalled splices.
    #[must_use]
    pub fn tells_stalled(&self, now: Instant) -> bool {
        tells(&self.stalled_told, now)
    }

    /// Updates a worker's stalled bytes from `before` to `now`; `limit` is for all workers. Returns how many bytes this
    /// worker must free: its share of the excess.
    #[must_use]
    pub fn note_stalled(&self, before: u64, now: u64, limit: u64) -> u64 {
        self.stalled_bytes.fetch_add(now, Ordering::Relaxed);
        let all = self.stalled_bytes.fetch_sub(before, Ordering::Relaxed) - before;
        excess(all, now, limit)
    }

    /// Takes a slot for a connection to a server, if one is free.
    #[must_use]
    pub fn take_upstream(self: &Arc<Self>) -> Option<UpstreamPlace> {
        self.take_upstream_of(self.upstreams_limit.load(Ordering::Relaxed))
    }

    /// Takes such a slot as the descriptor of a client that is accepted, but not admitted yet, if one is left for each
    /// admitted client.
    #[must_use]
    pub fn take_for_waiting(self: &Arc<Self>) -> Option<UpstreamPlace> {
        let limit = self.upstreams_limit.load(Ordering::Relaxed);
        self.take_upstream_of(limit.saturating_sub(self.limit()))
    }

    fn take_upstream_of(self: &Arc<Self>, limit: usize) -> Option<UpstreamPlace> {
        let one_more = |all: usize| (all < limit).then_some(all + 1);
        self.upstreams
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more)
            .ok()
            .map(|_| UpstreamPlace(Arc::clone(self)))
    }

    /// Waits for such a slot. Meanwhile all workers see that there is a waiter, and close idle connections; `make_room`
    /// closes one now, if there is one.
    pub async fn upstream(self: &Arc<Self>, make_room: impl Fn()) -> UpstreamPlace {
        self.upstreams_waited_for.fetch_add(1, Ordering::Relaxed);
        let _waiting = UpstreamWait(self);
        loop {
            // No slot that becomes free from here on is missed.
            let mut is_free = pin!(self.upstream_is_free.notified());
            is_free.as_mut().enable();
            make_room();
            if let Some(place) = self.take_upstream() {
                return place;
            }
            is_free.await;
        }
    }

    /// Number of waiters for such a slot.
    #[must_use]
    pub fn upstreams_waited_for(&self) -> usize {
        self.upstreams_waited_for.load(Ordering::Relaxed)
    }

    /// Admits a client; `client` is its address, if known.
    ///
    /// # Errors
    /// [`Full`] says which limit is reached.
    pub fn admit(self: &Arc<Self>, client: Option<IpAddr>) -> Result<Admitted, Full> {
        let limit = self.limit();
        let one_more = |open: usize| (open < limit).then_some(open + 1);
        // `SeqCst`, like the waiters' list: whoever finds no slot is in the list before one becomes free.
        (self.open)
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more)
            .map_err(|_| Full::Connections)?;
        let admitted = Admitted {
            admission: Arc::clone(self),
            client: Cell::new(None),
            is_beside: false,
        };
        admitted.count_for(client)?;
        Ok(admitted)
    }

    /// Like [`admit`](Self::admit), but waits while the limit over all clients is reached.
    ///
    /// # Errors
    /// [`Full::PerClient`].
    pub async fn admit_later(self: &Arc<Self>, client: Option<IpAddr>) -> Result<Admitted, Full> {
        loop {
            // No slot that becomes free from here on is missed.
            let mut is_free = pin!(self.is_free.notified());
            is_free.as_mut().enable();
            match self.admit(client) {
                Err(Full::Connections) => is_free.await,
                result => return result,
            }
        }
    }

    /// Whether this client has as many connections as it may have.
    #[must_use]
    pub fn is_full_for(&self, client: IpAddr) -> bool {
        let most = self.per_client_limit.load(Ordering::Relaxed);
        let counted = (network_of_client(client), true);
        most > 0
            && self
                .counts()
                .get(&counted)
                .is_some_and(|count| *count >= most)
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Counted, usize>> {
        self.per_client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admitted {
    /// A request beside others on the same connection, to be counted for another client.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self {
            admission: Arc::clone(&self.admission),
            client: Cell::new(None),
            is_beside: true,
        }
    }

    /// Whether it is [one beside others](Self::beside).
    #[must_use]
    pub fn is_beside(&self) -> bool {
        self.is_beside
    }

    /// Counts the connection for this client instead of the previous one; `None`: for none.
    ///
    /// # Errors
    /// [`Full::PerClient`]: this client has reached its limit; the connection is counted for none.
    pub fn count_for(&self, client: Option<IpAddr>) -> Result<(), Full> {
        self.count(client.map(|client| (network_of_client(client), true)))
    }

    /// Counts it for a client of which only a SYN has come, apart from its connections, and up to the same limit.
    ///
    /// # Errors
    /// See [`count_for`](Self::count_for).
    pub fn count_syn_for(&self, client: IpAddr) -> Result<(), Full> {
        self.count(Some((network_of_client(client), false)))
    }

    fn count(&self, client: Option<Counted>) -> Result<(), Full> {
        if self.client.get() == client {
            return Ok(());
        }
        self.count_no_longer();
        let most = self.admission.per_client_limit.load(Ordering::Relaxed);
        let Some(client) = client.filter(|_| most > 0) else {
            return Ok(());
        };
        let mut counts = self.admission.counts();
        let count = counts.entry(client).or_insert(0);
        if *count >= most {
            return Err(Full::PerClient);
        }
        *count += 1;
        self.client.set(Some(client));
        Ok(())
    }

    fn count_no_longer(&self) {
        let Some(client) = self.client.take() else {
            return;
        };
        if let Entry::Occupied(mut entry) = self.admission.counts().entry(client) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

fn tells(told: &Mutex<Option<Instant>>, now: Instant) -> bool {
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    let tells = told.is_none_or(|before| now.duration_since(before) >= TELL_EVERY);
    if tells {
        *told = Some(now);
    }
    tells
}

/// How many bytes the holder of `own` out of `all` must free to bring `all` to `limit`.
fn excess(all: u64, own: u64, limit: u64) -> u64 {
    let over = all.saturating_sub(limit);
    if over == 0 {
        return 0;
    }
    let share = u128::from(over) * u128::from(own) / u128::from(all.max(1));
    u64::try_from(share).map_or(own, |share| share.max(1).min(own))
}

impl Drop for UpstreamPlace {
    fn drop(&mut self) {
        self.0.upstreams.fetch_sub(1, Ordering::AcqRel);
        self.0.upstream_is_free.notify_one();
    }
}

impl Drop for UpstreamWait<'_> {
    fn drop(&mut self) {
        self.0.upstreams_waited_for.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if !self.is_beside {
            self.admission.open.fetch_sub(1, Ordering::SeqCst);
        }
        self.count_no_longer();
        if !self.is_beside {
            self.admission.is_free.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn places_are_counted_and_given_back() {
        let admission = Arc::new(Admission::default());
        admission.set_limits(3, 2, 2);
        let here: IpAddr = [127, 0, 0, 1].into();
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        let first = admission.admit(Some(here)).unwrap();
        let _second = admission.admit(Some(mapped)).unwrap();
        assert_eq!(admission.admit(Some(here)).unwrap_err(), Full::PerClient);
        assert_eq!(admission.open(), 2);
        let _other = admission.admit(Some([127, 0, 0, 2].into())).unwrap();
        assert_eq!(
            admission.admit(Some([127, 0, 0, 3].into())).unwrap_err(),
            Full::Connections
        );
        drop(first);
        let _again = admission.admit(Some(here)).unwrap();
        assert!(!admission.has_room());
    }

    #[test]
    fn connections_to_servers_have_descriptors_of_their_own() {
        let admission = Arc::new(Admission::default());
        admission.set_limits(3, 0, 2);
        let first = admission.take_upstream().unwrap();
        let other = admission.take_upstream().unwrap();
        assert!(admission.take_upstream().is_none());
        drop(first);
        let _second = admission.take_upstream().unwrap();
        drop(other);
        assert!(admission.take_upstream().is_some());
    }

    /// The waiter's slot, if it was woken and the slot is free.
    fn place_of(
        waiting: &mut Pin<Box<impl Future<Output = UpstreamPlace>>>,
    ) -> Option<UpstreamPlace> {
        let mut context = Context::from_waker(Waker::noop());
        match waiting.as_mut().poll(&mut context) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_waiter_for_a_descriptor_is_woken_when_one_is_returned() {
        let admission = Arc::new(Admission::default());
        admission.set_limits(9, 0, 2);
        let (one, other) = (admission.take_upstream(), admission.take_upstream());
        let wait = || Box::pin(admission.upstream(|| {}));
        let (mut first, mut gone, mut last) = (wait(), wait(), wait());
        for waiting in [&mut first, &mut gone, &mut last] {
            assert!(place_of(waiting).is_none());
        }
        assert_eq!(admission.upstreams_waited_for(), 3);
        drop(one);
        // In order of arrival.
        assert!(place_of(&mut last).is_none());
        let first = place_of(&mut first).unwrap();
        drop(other);
        assert!(place_of(&mut last).is_none());
        // A woken waiter leaves: the next one is woken.
        drop(gone);
        let last = place_of(&mut last).unwrap();
        assert_eq!(admission.upstreams_waited_for(), 0);
        drop((first, last));
    }

    #[test]
    fn a_waiter_for_a_descriptor_gets_an_idle_one_or_one_that_a_reload_allows() {
        let admission = Arc::new(Admission::default());
        admission.set_limits(9, 0, 1);
        let idle = Cell::new(admission.take_upstream());
        let place = place_of(&mut Box::pin(admission.upstream(|| drop(idle.take()))));
        let mut waiting = Box::pin(admission.upstream(|| {}));
        assert!(place_of(&mut waiting).is_none());
        admission.set_limits(9, 0, 2);
        assert!(place_of(&mut waiting).is_some());
        drop(place);
    }

    /// The slot of a client that waited for it, if it was woken and the slot is free.
    fn slot_of(
        waiting: &mut Pin<Box<impl Future<Output = Result<Admitted, Full>>>>,
    ) -> Option<Admitted> {
        let mut context = Context::from_waker(Waker::noop());
        match waiting.as_mut().poll(&mut context) {
            Poll::Ready(slot) => Some(slot.expect("no limit per client")),
            Poll::Pending => None,
        }
    }

    #[test]
    fn clients_that_wait_for_a_slot_get_one_each_in_order() {
        let admission = Arc::new(Admission::default());
        admission.set_limits(1, 0, 3);
        let open = admission.admit(None).unwrap();
        let wait = || Box::pin(admission.admit_later(None));
        let (mut first, mut gone, mut last) = (wait(), wait(), wait());
        for waiting in [&mut first, &mut gone, &mut last] {
            assert!(slot_of(waiting).is_none());
        }
        drop(open);
        assert!(slot_of(&mut last).is_none());
        let open = slot_of(&mut first).unwrap();
        drop(open);
        drop(gone);
        let last = slot_of(&mut last).unwrap();
        // A reload allows one more.
        let mut next = wait();
        assert!(slot_of(&mut next).is_none());
        admission.set_limits(2, 0, 3);
        let next = slot_of(&mut next).unwrap();
        assert_eq!(admission.open(), 2);
        drop((last, next));
    }

    /// Whoever has one IPv6 address has its network.
    #[test]
    fn the_addresses_of_one_network_count_as_one_client() {
        let admission = Arc::new(Admission::default());
        admission.set_limits(9, 1, 9);
        let admit = |address: &str| admission.admit(Some(address.parse().unwrap()));
        let first = admit("2001:db8::1").unwrap();
        assert!(admit("2001:db8::ffff:2").is_err());
        assert!(admission.is_full_for("2001:db8::3".parse().unwrap()));
        let _others = ["2001:db8:0:1::1", "192.0.2.1", "192.0.2.2"].map(|one| admit(one).unwrap());
        assert!(admit("::ffff:192.0.2.1").is_err());
        drop(first);
        admit("2001:db8::2").unwrap();
    }

    #[test]
    fn clients_that_wait_leave_a_descriptor_for_the_server_of_each_admitted_one() {
        let admission = Arc::new(Admission::default());
        admission.set_limits(3, 0, 5);
        let waiting = [(); 3].map(|()| admission.take_for_waiting());
        assert_eq!(waiting.iter().flatten().count(), 2);
        let servers = [(); 4].map(|()| admission.take_upstream());
        assert_eq!(servers.iter().flatten().count(), 3);
        drop(waiting);
        assert!(admission.take_for_waiting().is_none());
        admission.set_limits(9, 0, 5);
        assert!(admission.take_for_waiting().is_none());
    }

    #[test]
    fn each_worker_gives_its_share_of_what_is_too_much() {
        for (all, own, limit, given) in [
            (0, 0, 100, 0),
            (100, 100, 100, 0),
            (101, 101, 100, 1),
            (200, 50, 100, 25),
            (200, 0, 100, 0),
            (u64::MAX, u64::MAX, 0, u64::MAX),
        ] {
            assert_eq!(excess(all, own, limit), given, "{own} of {all}, {limit}");
        }
        let admission = Admission::default();
        assert_eq!(admission.note_stalled(0, 80, 100), 0);
        assert_eq!(admission.note_stalled(0, 120, 100), 60);
        assert_eq!(admission.note_stalled(120, 20, 100), 0);
    }

    #[test]
    fn a_place_goes_over_to_another_client() {
        let admission = Arc::new(Admission::default());
        admission.set_limits(9, 1, 9);
        let [one, other]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let of_proxy = admission.admit(None).unwrap();
        let also = admission.admit(None).unwrap();
        of_proxy.count_for(Some(one)).unwrap();
        of_proxy.count_for(Some(one)).unwrap();
        assert_eq!(also.count_for(Some(one)), Err(Full::PerClient));
        assert_eq!(admission.admit(Some(one)).unwrap_err(), Full::PerClient);
        assert_eq!(admission.open(), 2);
        also.count_for(Some(other)).unwrap();
        of_proxy.count_for(None).unwrap();
        also.count_for(Some(one)).unwrap();
        drop(also);
        assert!(admission.counts().is_empty());
    }

    #[test]
    fn a_shortage_is_logged_once_in_a_while() {
        let admission = Admission::default();
        let now = Instant::now();
        assert!(admission.tells_shortage(now));
        assert!(!admission.tells_shortage(now + Duration::from_secs(59)));
        assert!(admission.tells_shortage(now + Duration::from_secs(60)));
    }
}
