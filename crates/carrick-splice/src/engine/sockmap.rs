//! The socket engine: what one socket receives is handed to its peer by the kernel (BPF `sk_skb` on a SOCKMAP), without
//! waking the process. Loading it, and who may use it; [`joint`] is one splice.

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

/// How many splices the maps have room for, unless the caller says otherwise. One costs about half a kilobyte of kernel
/// memory for as long as the engine is loaded.
pub const SPLICES_MAX: u32 = 8192;

/// The socket engine of a process, shared by all its splicers. It is empty until it is loaded, and splices that ask for
/// the engine before go through the process.
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
    /// Loads the engine, if it is not loaded yet and `try_out` finds nothing wrong with it.
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
        // The thread that wakes ends here, and starts again with the first splice: by then, the process has the privileges
        // that it keeps.
        if let Some(engine) = Arc::get_mut(&mut engine) {
            engine.notifier.take();
        }
        // Somebody else may have been faster; one is as good as the other.
        let _ = self.0.set(engine);
        Ok(())
    }

    /// Starts the thread that wakes splices; otherwise the first splice does. For those who want their
    /// threads and descriptors from the beginning.
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

    /// Why the kernel does not tell of the splices that it has, before their end ([`live`](SocketService::live)): the engine works, but this kernel
    /// refuses the program that reads the sockets' state. `None` if it tells, or the engine is not loaded.
    #[must_use]
    pub fn untold(&self) -> Option<&str> {
        self.engine()?.live.as_ref().err().map(String::as_str)
    }

    /// Splices that are in the kernel now, and how many can be.
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
    /// The filter that holds ends of streams back. Attached to a socket while it leaves the map.
    hold_end: OwnedFd,
    slots: MapHandle,
    directions: Directions,
    /// Tells of the sockets in both maps; or why it cannot.
    live: Result<Live, String>,
    splices_max: u32,
    /// `None`: somebody has it, who takes a socket out.
    shelter: Mutex<Option<Shelter>>,
    /// Slots of splices that are free. The one that was freed first is used first: a program that still runs for the old
    /// splice is long done then.
    free: Mutex<VecDeque<u32>>,
    /// Who has each slot.
    slot_owners: Arc<[SlotOwner]>,
    events: MapHandle,
    /// Started with the first splice.
    notifier: OnceLock<io::Result<Notifier>>,
}

impl SocketEngine {
    fn load(splices_max: u32, pacing: Option<&Pacing>) -> Result<SocketEngine, Unavailable> {
        repaired::judge_running().map_err(Unavailable::new)?;
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

    /// Who wakes splices that sleep, if there is somebody.
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
