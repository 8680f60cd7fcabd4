//! The packet engine: two connections become one for their peers, whose packets the kernel forwards with other addresses and
//! numbers (IP-level TCP splice, tc BPF). Loading it, and who may use it; [`splice`] is one splice.

pub(crate) mod command;
#[allow(
    unused_imports,
    reason = "changes of interfaces and routes are not followed yet"
)]
#[cfg_attr(not(test), allow(dead_code, reason = "likewise"))]
pub(crate) mod hooks;
pub mod rules;
pub(crate) mod splice;
pub(crate) mod state;

skeleton!("packet.skel.rs");

use crate::socket::{Tenant, Unavailable, waking::Waking};
use hooks::{Hooks, Interfaces, Settings};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, OpenObject};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

/// After its end, a splice stays for so long: for what the peers send again (twice the maximum segment lifetime, as Linux has it).
const LINGER: Duration = Duration::from_secs(60);

/// So many splices that have ended are looked at whenever another one begins.
const REAPED_AT_ONCE: usize = 8;

/// The packet engine of a process, shared by all its splicers. It is empty until it is loaded, and splices that ask for
/// the engine before go through the process.
#[derive(Clone, Default)]
pub struct PacketService(Arc<OnceLock<Arc<PacketEngine>>>);

impl fmt::Debug for PacketService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (splices, splices_max) = self.splices();
        write!(
            formatter,
            "PacketService({splices} of {splices_max} splices)"
        )
    }
}

impl PacketService {
    /// Loads the engine, and puts its programs on the network interfaces of these names, or on all that carry Ethernet frames if
    /// there are none. At most `splices_max` splices are in the kernel at a
    /// time, those included that have ended within the last minute; further ones go through the process. Blocks for some
    /// milliseconds. Does nothing if it is loaded already.
    ///
    /// # Errors
    /// Why not.
    pub fn load(&self, splices_max: u32, interfaces: &[String]) -> Result<(), Unavailable> {
        if self.0.get().is_some() {
            return Ok(());
        }
        let engine = PacketEngine::load(splices_max.max(1), interfaces)?;
        // Somebody else may have been faster; one is as good as the other.
        let _ = self.0.set(Arc::new(engine));
        Ok(())
    }

    /// Whether splices can use it.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.0.get().is_some()
    }

    /// Splices that have a place now, and how many can have one.
    #[must_use]
    pub fn splices(&self) -> (u32, u32) {
        self.engine().map_or((0, 0), |engine| {
            (
                engine.splices_max - engine.places().free.len() as u32,
                engine.splices_max,
            )
        })
    }

    /// The names of the interfaces that its programs are on.
    #[must_use]
    pub fn interfaces(&self) -> Vec<String> {
        let hooks = self
            .engine()
            .into_iter()
            .flat_map(|engine| engine.hooks.attached());
        hooks
            .map(|attachment| attachment.interface().name.clone())
            .collect()
    }

    /// Starts the thread that tells splices of their end; otherwise the first splice does. For those who want their threads and
    /// descriptors from the beginning.
    pub fn start_waking(&self) {
        if let Some(engine) = self.engine() {
            engine.waking();
        }
    }

    pub(crate) fn engine(&self) -> Option<&Arc<PacketEngine>> {
        self.0.get()
    }
}

/// The loaded programs and maps.
pub(crate) struct PacketEngine {
    flows: MapHandle,
    splices: MapHandle,
    command: OwnedFd,
    splices_max: u32,
    places: Mutex<Places>,
    tenants: Arc<[Tenant]>,
    events: MapHandle,
    /// Started with the first splice: by then, the process has the privileges that it keeps.
    waking: OnceLock<io::Result<Waking>>,
    /// The programs' places on the interfaces. Dropped, they are gone.
    hooks: Hooks,
}

/// Who has which place.
struct Places {
    free: VecDeque<u32>,
    /// Those whose splice is over, since when.
    over: VecDeque<(Instant, u32)>,
}

impl PacketEngine {
    fn load(splices_max: u32, interfaces: &[String]) -> Result<PacketEngine, Unavailable> {
        let printed = libbpf_rs::set_print(None);
        let mut object = MaybeUninit::<OpenObject>::uninit();
        let loaded = PacketEngine::load_maps(&mut object, splices_max)
            .map_err(|error| crate::socket::explain(&error));
        libbpf_rs::set_print(printed);
        let loaded = loaded?;
        let settings = Settings {
            interfaces: if interfaces.is_empty() {
                Interfaces::All
            } else {
                Interfaces::Named(interfaces.to_vec())
            },
            ..Settings::default()
        };
        let hooks = Hooks::attach(
            loaded.progs.carrick_arriving.as_fd(),
            loaded.progs.carrick_leaving.as_fd(),
            settings,
        )
        .map_err(|error| Unavailable::new(error.to_string()))?;
        if hooks.attached().next().is_none() {
            let refused: Vec<String> = hooks.refused().iter().map(ToString::to_string).collect();
            let why = if refused.is_empty() {
                "there is no network interface but loopback".into()
            } else {
                refused.join("; ")
            };
            return Err(Unavailable::new(why));
        }
        PacketEngine::take(&loaded, splices_max, hooks)
            .map_err(|error| crate::socket::explain(&error))
    }

    fn load_maps(
        object: &mut MaybeUninit<OpenObject>,
        splices_max: u32,
    ) -> libbpf_rs::Result<skeleton::PacketSkel<'_>> {
        let mut open = skeleton::PacketSkelBuilder::default().open(object)?;
        open.maps.flows.set_max_entries(2 * splices_max)?;
        open.maps.splices.set_max_entries(splices_max)?;
        open.maps
            .packet_events
            .set_max_entries(crate::socket::ring_bytes(2 * splices_max))?;
        open.load()
    }

    /// Takes what is needed of the loaded programs and maps.
    fn take(
        loaded: &skeleton::PacketSkel<'_>,
        splices_max: u32,
        hooks: Hooks,
    ) -> libbpf_rs::Result<PacketEngine> {
        let owned = |program: &libbpf_rs::ProgramMut<'_>| {
            program
                .as_fd()
                .try_clone_to_owned()
                .map_err(libbpf_rs::Error::from)
        };
        Ok(PacketEngine {
            flows: MapHandle::try_from(&loaded.maps.flows)?,
            splices: MapHandle::try_from(&loaded.maps.splices)?,
            command: owned(&loaded.progs.carrick_command)?,
            splices_max,
            places: Mutex::new(Places {
                free: (0..splices_max).collect(),
                over: VecDeque::new(),
            }),
            events: MapHandle::try_from(&loaded.maps.packet_events)?,
            waking: OnceLock::new(),
            tenants: (0..splices_max).map(|_| Tenant::default()).collect(),
            hooks,
        })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who tells splices of their end, if there is somebody.
    fn waking(&self) -> Option<&Waking> {
        self.waking
            .get_or_init(|| {
                let events = MapHandle::try_from(&self.events).map_err(io::Error::other)?;
                Waking::start(events, Arc::clone(&self.tenants))
            })
            .as_ref()
            .ok()
            .filter(|waking| waking.is_working())
    }

    fn take_place(&self) -> Option<u32> {
        self.reap();
        self.places().free.pop_front()
    }

    /// Frees places whose splices have ended long enough ago, and whose connections nobody has any more.
    fn reap(&self) {
        for _ in 0..REAPED_AT_ONCE {
            let mut places = self.places();
            let Some((since, place)) = places.over.front().copied() else {
                return;
            };
            if since.elapsed() < LINGER && !places.free.is_empty() {
                return;
            }
            places.over.pop_front();
            drop(places);
            if splice::is_deserted(self, place) {
                splice::clear(self, place);
                self.places().free.push_back(place);
            } else {
                self.places().over.push_back((Instant::now(), place));
            }
        }
    }

    /// The splice at `place` is over. Its place is free once its connections are.
    fn leave_place(&self, place: u32) {
        self.places().over.push_back((Instant::now(), place));
    }
}

#[cfg(test)]
mod tests;
