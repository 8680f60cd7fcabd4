//! The socket engine: the kernel redirects what one socket receives to its peer (BPF `sk_skb` on a SOCKMAP),
//! without waking the process. Loads the engine and hands out slots; [`joint`] is one splice.

mod filter;
pub(crate) mod joint;
pub(crate) mod live;
mod repaired;
mod shared;
mod shelter;

skeleton!("sockmap.skel.rs");

use crate::engine::notifier;
use crate::engine::notifier::Notifier;
use crate::engine::slot_owner::SlotOwner;
use crate::{Pacing, Unavailable};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, OpenObject};
use live::Live;
use shared::Directions;
use shelter::Shelter;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{fmt, io};

/// The default number of splices the maps have room for. Each costs about half a kilobyte of kernel memory
/// while the engine is loaded.
pub const SPLICES_MAX: u32 = 8192;

/// The socket engine of a process, shared by all its splicers. It is empty until it is loaded; splices that
/// ask for the engine before that are relayed by the process.
#[derive(Clone, Default)]
pub struct SocketService(Arc<OnceLock<Arc<SocketEngine>>>);

impl fmt::Debug for SocketService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (splices, splices_max) = self.splices();
        write!(
            formatter,
            "SocketService({splices} of {splices_max} splices)"
        )
    }
}

impl SocketService {
    /// Loads the engine, if it is not loaded yet and `try_out` succeeds.
    pub(crate) fn load_tried(
        &self,
        splices_max: u32,
        pacing: Option<&Pacing>,
        try_out: impl FnOnce(&SocketService) -> io::Result<()>,
    ) -> Result<(), Unavailable> {
        if self.0.get().is_some() {
            return Ok(());
        }
        let mut engine = Arc::new(SocketEngine::load(splices_max.max(1), pacing)?);
        try_out(&SocketService(Arc::new(OnceLock::from(Arc::clone(
            &engine,
        )))))
        .map_err(|error| Unavailable::new(format!("its self-test failed: {error}")))?;
        // The notifier thread ends here, and starts again with the first splice, when the process has dropped
        // its privileges.
        if let Some(engine) = Arc::get_mut(&mut engine) {
            engine.notifier.take();
        }
        // Another thread may have been faster; either engine will do.
        let _ = self.0.set(engine);
        Ok(())
    }

    /// Starts the notifier thread, which otherwise the first splice does: for callers that create threads and
    /// descriptors early.
    pub fn start_notifier(&self) {
        if let Some(engine) = self.engine() {
            engine.notifier();
        }
    }

    /// Whether splices can use it.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.0.get().is_some()
    }

    /// Why [`live`](SocketService::live) is not available: the engine works, but this kernel rejects the
    /// program that reads the sockets' state. `None` if it is available, or the engine is not loaded.
    #[must_use]
    pub fn untold(&self) -> Option<&str> {
        self.engine()?.live.as_ref().err().map(String::as_str)
    }

    /// Splices in the kernel now, and the maximum.
    #[must_use]
    pub fn splices(&self) -> (u32, u32) {
        self.engine().map_or((0, 0), |engine| {
            (
                engine.splices_max - engine.free().len() as u32,
                engine.splices_max,
            )
        })
    }

    pub(crate) fn engine(&self) -> Option<&Arc<SocketEngine>> {
        self.0.get()
    }
}

/// The loaded programs and maps.
pub(crate) struct SocketEngine {
    sockets: MapHandle,
    receivers: MapHandle,
    /// The filter that drops FINs, attached to a socket while it leaves the map.
    hold_end: OwnedFd,
    slots: MapHandle,
    directions: Directions,
    /// Reads the sockets in both maps; or why it cannot.
    live: Result<Live, String>,
    splices_max: u32,
    /// `None` while a splice uses it to take a socket out.
    shelter: Mutex<Option<Shelter>>,
    /// Free slots, as a queue: a program that still runs for a slot's old splice has long finished when the
    /// slot is reused.
    free: Mutex<VecDeque<u32>>,
    /// The owner of each slot.
    slot_owners: Arc<[SlotOwner]>,
    events: MapHandle,
    /// Started with the first splice.
    notifier: OnceLock<io::Result<Notifier>>,
}

impl SocketEngine {
    fn load(splices_max: u32, pacing: Option<&Pacing>) -> Result<SocketEngine, Unavailable> {
        repaired::check_running().map_err(Unavailable::new)?;
        crate::refusal::listen();
        SocketEngine::load_maps(splices_max, pacing).map_err(|error| Unavailable::explain(&error))
    }

    fn load_maps(splices_max: u32, pacing: Option<&Pacing>) -> libbpf_rs::Result<SocketEngine> {
        let sockets_max = 2 * splices_max;
        let mut object = MaybeUninit::<OpenObject>::uninit();
        let mut open = skeleton::SockmapSkelBuilder::default().open(&mut object)?;
        open.maps.sockets.set_max_entries(sockets_max + 1)?;
        open.maps.receivers.set_max_entries(sockets_max)?;
        open.maps.places.set_max_entries(sockets_max)?;
        open.maps.directions.set_max_entries(sockets_max)?;
        open.maps
            .events
            .set_max_entries(notifier::ring_bytes(sockets_max))?;
        if let Some(map) = pacing.and_then(Pacing::map) {
            open.maps.pace.reuse_fd(map)?;
        }
        let loaded = open.load()?;
        loaded
            .progs
            .splice_verdict
            .attach_sockmap(loaded.maps.sockets.as_fd().as_raw_fd())?;
        let sockets = MapHandle::try_from(&loaded.maps.sockets)?;
        let receivers = MapHandle::try_from(&loaded.maps.receivers)?;
        let directions = MapHandle::try_from(&loaded.maps.directions)?;
        let live = Live::load(&[&sockets, &receivers], &directions);
        Ok(SocketEngine {
            shelter: Mutex::new(Some(
                Shelter::open(&sockets, sockets_max).map_err(libbpf_rs::Error::from)?,
            )),
            live: live.map_err(|error| Unavailable::explain(&error).to_string()),
            sockets,
            receivers,
            hold_end: loaded
                .progs
                .hold_end
                .as_fd()
                .try_clone_to_owned()
                .map_err(libbpf_rs::Error::from)?,
            slots: MapHandle::try_from(&loaded.maps.places)?,
            directions: Directions::map(loaded.maps.directions.as_fd(), sockets_max)
                .map_err(libbpf_rs::Error::from)?,
            splices_max,
            free: Mutex::new((0..splices_max).collect()),
            events: MapHandle::try_from(&loaded.maps.events)?,
            notifier: OnceLock::new(),
            slot_owners: (0..splices_max).map(|_| SlotOwner::default()).collect(),
        })
    }

    fn free(&self) -> MutexGuard<'_, VecDeque<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The notifier, if there is one.
    fn notifier(&self) -> Option<&Notifier> {
        self.notifier
            .get_or_init(|| {
                let events = MapHandle::try_from(&self.events).map_err(io::Error::other)?;
                Notifier::start(events, Arc::clone(&self.slot_owners))
            })
            .as_ref()
            .ok()
            .filter(|notifier| notifier.is_working())
    }

    fn shelter(&self) -> MutexGuard<'_, Option<Shelter>> {
        self.shelter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_slot(&self, label: u64) -> Option<u32> {
        let slot = self.free().pop_front()?;
        if let Some(slot_owner) = self.slot_owners.get(slot as usize) {
            slot_owner.arrive(label);
        }
        Some(slot)
    }

    fn give_slot(&self, slot: u32) {
        if let Some(slot_owner) = self.slot_owners.get(slot as usize) {
            slot_owner.go();
        }
        self.free().push_back(slot);
    }
}

#[cfg(test)]
mod tests;
