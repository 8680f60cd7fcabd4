//! The packet engine: joins two connections into one for their peers; the kernel forwards their packets with
//! rewritten addresses and numbers (IP-level TCP splice, tc BPF). Loads the engine and hands out slots;
//! [`splice`] is one splice.

mod adoption;
pub(crate) mod command;
mod environment;
mod generation;
mod granting;
pub(crate) mod hooks;
pub mod http;
pub mod measuring;
pub(crate) mod path_statistics;
pub(crate) mod paths;
pub(crate) mod records;
pub(crate) mod splice;
pub(crate) mod state;
mod table;

skeleton!("tc.skel.rs");

use crate::Unavailable;
use crate::engine::notifier;
use crate::engine::notifier::{Notifier, PeriodicTask};
use crate::engine::slot_owner::SlotOwner;
use crate::pacing::Pacing;
use adoption::Adoption;
pub use adoption::{Adopted, AdoptedTotals, Cleaned, Pinned};
use environment::Environment;
use generation::Base;
use granting::Granting;
use hooks::doctor::Obstacle;
use hooks::{Changes, HookError, Hooks, Interfaces, Settings};
use http::{Events, RequestCounts, RequestTables};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, OpenObject};
pub use paths::LossyPath;
use paths::Paths;
use records::{Record, Records};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};
pub use table::Taken;
use table::{SlotProgram, SpliceTable};

/// How often an ending process checks whether the last packets of its connections have arrived.
const LEAVE_TICK: Duration = Duration::from_millis(10);

/// What outlives the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// Tunnels that go on.
    pub tunnels: usize,
    /// Ended splices with data that a peer has not acknowledged: only the programs can translate its
    /// retransmissions.
    pub ends: usize,
}

/// The size of the ring of forwarded requests, in bytes: 15,887 requests. At 100,000 requests/s the process has 80 ms from the notification at
/// half of it.
const REQUEST_EVENTS_BYTES: u32 = 1 << 22;

/// Route tables created at the start: enough for half as many listeners, if all replace theirs at the same
/// time.
const SPARE_TABLES: usize = 16;

/// How often slots of ended splices are checked.
const CHORE_EVERY: Duration = Duration::from_secs(5);

/// The packet engine of a process, shared by all its splicers. It is empty until it is loaded; splices that
/// ask for the engine before that are relayed by the process.
#[derive(Clone, Default)]
pub struct PacketService {
    loaded: Arc<OnceLock<Arc<PacketEngine>>>,
    /// What dead processes have left.
    adoption: Arc<Mutex<Adoption>>,
    connections: Connections,
}

/// Which connections get a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Connections {
    /// Those of this process's sockets.
    #[default]
    Own,
    /// Others, too, for measurements.
    Nobodys,
    /// Those that a test writes into the maps.
    #[cfg(test)]
    Written,
}

impl fmt::Debug for PacketService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = self.taken();
        write!(
            formatter,
            "PacketService({} of {} splices)",
            taken.open, taken.max
        )
    }
}

impl PacketService {
    /// Loads the engine, and attaches its programs to the network interfaces of these names, or, if there are
    /// none, to all that carry Ethernet frames. At most `splices_max` splices are in the kernel at a time,
    /// counting those that ended within the last minute; the process relays further ones. Blocks for some
    /// milliseconds. Does nothing if it is loaded already.
    ///
    /// With `pins`, a folder on a BPF file system, the splices outlive the process: see
    /// [`adopt`](PacketService::adopt), which must be called before. If that is not possible, it is loaded
    /// without, and [`pins`](PacketService::pins) says why.
    ///
    /// Splices are paced by the classes of `pacing`; without it, they are not paced.
    ///
    /// # Errors
    /// Why not.
    pub fn load(
        &self,
        splices_max: u32,
        interfaces: &[String],
        pins: Option<&Path>,
        pacing: Option<&Pacing>,
    ) -> Result<(), Unavailable> {
        if self.loaded.get().is_some() {
            return Ok(());
        }
        let engine = PacketEngine::load(
            splices_max.max(1),
            interfaces,
            pins,
            pacing,
            self.connections,
        )?;
        // Another thread may have been faster; either engine will do.
        let _ = self.loaded.set(Arc::new(engine));
        Ok(())
    }

    /// The folder in which its programs and maps outlive the process; or why they do not. `None` if that was
    /// not requested, or it is not loaded.
    #[must_use]
    pub fn pins(&self) -> Option<Result<&Path, &str>> {
        let pinned = self.engine()?.pinned.as_ref()?;
        Some(pinned.as_deref().map_err(String::as_str))
    }

    /// At the end of the process: waits, at most this long, until the peers of ended splices have
    /// acknowledged everything; then detaches the programs, unless something is to outlive the process.
    pub async fn leave(&self, wait: Duration) -> Left {
        let mut left = Left::default();
        if let Some(engine) = self.engine() {
            left = engine.leave(wait).await;
        }
        left.tunnels += self.leave_adopted();
        left
    }

    /// Seals the set of interfaces on which packets are forwarded: from here on, no descriptor of this
    /// process can change it. For processes about to drop the privileges that following new interfaces takes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn seal(&self) -> io::Result<()> {
        self.engine()
            .map_or(Ok(()), |engine| engine.environment.seal())
    }

    /// Whether splices can use it.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.loaded.get().is_some()
    }

    /// The number of splices, and the maximum.
    #[must_use]
    pub fn taken(&self) -> Taken {
        self.engine()
            .map_or(Taken::default(), |engine| engine.table.taken())
    }

    /// The interfaces that its programs are on, and how they are attached.
    #[must_use]
    pub fn interfaces(&self) -> Vec<String> {
        self.engine()
            .map_or_else(Vec::new, |engine| engine.environment.interfaces())
    }

    /// The splices whose packets the kernel has or had: their labels, and bytes acknowledged while forwarded,
    /// from `a` to `b` and from `b` to `a`.
    #[must_use]
    pub fn live(&self) -> Vec<(u64, [u64; 2])> {
        let Some(engine) = self.engine() else {
            return Vec::new();
        };
        let slot_owners = (0..).zip(engine.slot_owners.iter());
        let live = slot_owners.filter_map(|(slot, slot_owner)| {
            let (stay, label) = (slot_owner.stay(), slot_owner.label());
            if !SlotOwner::is_there(stay) {
                return None;
            }
            let bytes = state::read(&engine.table.read(slot)?).bytes;
            (slot_owner.stay() == stay).then_some((label, bytes))
        });
        live.collect()
    }

    /// Interfaces without its programs, and why.
    #[must_use]
    pub fn interfaces_left_out(&self) -> Vec<String> {
        self.engine()
            .map_or_else(Vec::new, |engine| engine.environment.left_out())
    }

    /// Other programs at the same hooks, their interface, and what their presence means.
    #[must_use]
    pub fn foreign_programs(&self) -> Vec<String> {
        self.engine()
            .map_or_else(Vec::new, |engine| engine.environment.foreign())
    }

    /// Pairs of networks that the engine does not splice for some minutes, since their connections do better
    /// unjoined.
    #[must_use]
    pub fn lossy_paths(&self) -> Vec<LossyPath> {
        self.engine()
            .map_or_else(Vec::new, |engine| engine.paths().lossy(Instant::now()))
    }

    /// What on this machine keeps [`Choice::Auto`](crate::Choice) from using the engine, though it is loaded:
    /// something that must see the packets, which its splices would bypass.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.engine()?.environment.obstacle()
    }

    /// Starts the notifier thread, which otherwise the first splice does: for callers that create threads and
    /// descriptors early.
    pub fn start_notifier(&self) {
        if let Some(engine) = self.engine() {
            engine.notifier();
        }
    }

    /// The route tables by which the kernel classifies requests; `None` if the engine is not loaded.
    #[must_use]
    pub fn request_tables(&self) -> Option<&RequestTables> {
        self.engine().map(|engine| &engine.request_tables)
    }

    /// The kernel's counters of classified requests; `None` if the engine is not loaded, or they cannot be
    /// read.
    #[must_use]
    pub fn request_counts(&self) -> Option<RequestCounts> {
        RequestCounts::read(&self.engine()?.request_counters).ok()
    }

    /// The kernel's reports of forwarded requests; `None` if the engine is not loaded. Each report goes to
    /// one reader only.
    ///
    /// # Errors
    /// The kernel's.
    pub fn request_events(&self) -> io::Result<Option<Events>> {
        self.engine()
            .map(|engine| Events::new(&engine.request_events).map_err(io::Error::other))
            .transpose()
    }

    pub(crate) fn engine(&self) -> Option<&Arc<PacketEngine>> {
        self.loaded.get()
    }
}

/// The loaded programs and maps.
pub(crate) struct PacketEngine {
    table: Arc<SpliceTable>,
    slot_owners: Arc<[SlotOwner]>,
    records: Arc<Records>,
    /// The latest forwarded request of each record.
    kept_requests: MapHandle,
    /// Route tables for classifying requests.
    pub(crate) request_tables: RequestTables,
    request_counters: MapHandle,
    request_events: MapHandle,
    events: MapHandle,
    /// Started with the first splice, when the process has dropped its privileges.
    notifier: OnceLock<io::Result<Notifier>>,
    /// Started with the first splice that is paced.
    granting: OnceLock<io::Result<Granting>>,
    grant: OwnedFd,
    held_events: MapHandle,
    environment: Arc<Environment>,
    paths: Mutex<Paths>,
    pulse: MapHandle,
    /// The folder of its generation, or why there is none.
    pinned: Option<Result<PathBuf, String>>,
}

/// Loads the engine's programs, attached to no interface, and unloads them.
pub(crate) fn probe() -> std::io::Result<String> {
    crate::refusal::listen();
    let mut object = MaybeUninit::<OpenObject>::uninit();
    let loaded = PacketEngine::load_maps(&mut object, 1, 3, None, Connections::Own).map(drop);
    match loaded {
        Ok(()) => {
            Ok("the kernel takes its programs (BPF at tc); where they can be, see below".into())
        }
        Err(error) => Err(std::io::Error::other(
            Unavailable::explain(&error).to_string(),
        )),
    }
}

impl PacketEngine {
    /// The latest request forwarded with this record, as the client has sent it; a head without a body. Costs a system call. `None`: there
    /// is none.
    pub(crate) fn kept_request(&self, record: &Record) -> Option<Vec<u8>> {
        let number = record.number().to_ne_bytes();
        let mut bytes = self.kept_requests.lookup(&number, MapFlags::ANY).ok()??;
        bytes.truncate(http::head_bytes(&bytes)?);
        Some(bytes)
    }

    fn load(
        splices_max: u32,
        interfaces: &[String],
        pins: Option<&Path>,
        pacing: Option<&Pacing>,
        connections: Connections,
    ) -> Result<PacketEngine, Unavailable> {
        crate::refusal::listen();
        let mut object = MaybeUninit::<OpenObject>::uninit();
        // Two processes on the same interfaces must not have the same mark.
        let mark = RandomState::new().build_hasher().finish() as u32 | 3;
        let loaded = PacketEngine::load_maps(&mut object, splices_max, mark, pacing, connections)
            .map_err(|error| Unavailable::explain(&error))?;
        // Opened first, so that no change is missed. Without it, changes are not followed.
        let changes = Changes::open().ok();
        let pinned = pins.map(|pins| PacketEngine::attach_pinned(&loaded, interfaces, pins));
        let (hooks, pinned) = match pinned {
            Some(Ok((hooks, folder))) => (hooks, Some(Ok(folder))),
            Some(Err(why)) => (
                PacketEngine::attach(&loaded, interfaces, None)?,
                Some(Err(why.to_string())),
            ),
            None => (PacketEngine::attach(&loaded, interfaces, None)?, None),
        };
        if hooks.attached().next().is_none() {
            let refused: Vec<String> = hooks.refused().iter().map(ToString::to_string).collect();
            let why = if refused.is_empty() {
                "there is no network interface but loopback".into()
            } else {
                refused.join("; ")
            };
            if let Some(Ok(folder)) = &pinned {
                let _ = generation::remove_objects(folder);
            }
            return Err(Unavailable::new(why));
        }
        let interfaces = MapHandle::try_from(&loaded.maps.interfaces)
            .map_err(|error| Unavailable::explain(&error))?;
        let environment = Environment::new(hooks, changes, interfaces);
        PacketEngine::take(&loaded, splices_max, environment, pinned)
            .map_err(|error| Unavailable::explain(&error))
    }

    fn attach(
        loaded: &skeleton::TcSkel<'_>,
        interfaces: &[String],
        folder: Option<PathBuf>,
    ) -> Result<Hooks, Unavailable> {
        let settings = Settings {
            interfaces: if interfaces.is_empty() {
                Interfaces::All
            } else {
                Interfaces::Named(interfaces.to_vec())
            },
            folder,
            ..Settings::default()
        };
        Hooks::attach(
            loaded.progs.carrick_arriving.as_fd(),
            loaded.progs.carrick_leaving.as_fd(),
            settings,
        )
        .map_err(|error| Unavailable::new(error.to_string()))
    }

    /// Attaches the programs so that they outlive the process, pinned below this folder; returns where.
    fn attach_pinned(
        loaded: &skeleton::TcSkel<'_>,
        interfaces: &[String],
        pins: &Path,
    ) -> Result<(Hooks, PathBuf), Unavailable> {
        let explain = |error: HookError| Unavailable::new(error.to_string());
        let base = Base::open(pins).map_err(explain)?;
        // A half-made generation must not be taken for that of a dead process.
        let held = base.lock().map_err(explain)?;
        let folder = held.vacant().map_err(explain)?;
        let made = PacketEngine::attach(loaded, interfaces, Some(folder.clone()));
        let kept = made.and_then(|mut hooks| {
            let objects = [
                loaded.maps.flows.as_fd(),
                loaded.maps.splices.as_fd(),
                loaded.progs.carrick_command.as_fd(),
                loaded.maps.pulse.as_fd(),
            ];
            generation::keep(&folder, objects).map_err(|error| {
                let _ = hooks.detach();
                explain(error)
            })?;
            Ok(hooks)
        });
        if kept.is_err() {
            let _ = generation::remove_objects(&folder);
        }
        Ok((kept?, folder))
    }

    /// Whether the programs and maps outlive the process.
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self.pinned, Some(Ok(_)))
    }

    /// The folder in which they do.
    fn folder(&self) -> Option<&Path> {
        self.pinned.as_ref()?.as_deref().ok()
    }

    async fn leave(&self, wait: Duration) -> Left {
        let deadline = Instant::now() + wait;
        // Retransmissions of their sockets have other numbers than their peers know, and only the programs
        // translate them.
        let mut ends = self.table.unacknowledged();
        while ends > 0 && Instant::now() < deadline {
            tokio::time::sleep(LEAVE_TICK).await;
            ends = self.table.unacknowledged();
        }
        let Some(folder) = self.folder() else {
            return Left::default();
        };
        let tunnels = self.table.spliced();
        if tunnels == 0 && ends == 0 {
            // What needs privileges is left to the next process that has them.
            let _ = self.environment.detach();
            let _ = generation::remove_objects(folder);
        }
        Left { tunnels, ends }
    }

    fn load_maps<'object>(
        object: &'object mut MaybeUninit<OpenObject>,
        splices_max: u32,
        own_mark: u32,
        pacing: Option<&Pacing>,
        connections: Connections,
    ) -> libbpf_rs::Result<skeleton::TcSkel<'object>> {
        let mut open = skeleton::TcSkelBuilder::default().open(object)?;
        // Otherwise the programs have a block of their own without workers: nothing is paced.
        if let Some(block) = pacing.and_then(Pacing::map) {
            open.maps.pace.reuse_fd(block)?;
        }
        // Each direction once, and once more for a slot that was reused.
        open.maps.held.set_max_entries(4 * splices_max)?;
        open.maps.flows.set_max_entries(2 * splices_max)?;
        open.maps.splices.set_max_entries(splices_max)?;
        let records = Records::count(splices_max);
        open.maps.responses.set_max_entries(records)?;
        open.maps.requests.set_max_entries(records)?;
        open.maps
            .request_events
            .set_max_entries(REQUEST_EVENTS_BYTES)?;
        open.maps
            .packet_events
            .set_max_entries(notifier::ring_bytes(2 * splices_max))?;
        if let Some(constants) = &mut open.maps.rodata_data {
            constants.own_mark = own_mark;
            constants.takes_nobodys = u32::from(connections == Connections::Nobodys);
        }
        #[cfg(test)]
        if connections == Connections::Written {
            open.maps.splices.set_map_flags(0)?;
            return open.load();
        }
        let loaded = open.load()?;
        MapHandle::try_from(&loaded.maps.flows)?.freeze()?;
        MapHandle::try_from(&loaded.maps.requests)?.freeze()?;
        Ok(loaded)
    }

    /// Takes the needed programs and maps.
    fn take(
        loaded: &skeleton::TcSkel<'_>,
        splices_max: u32,
        environment: Environment,
        pinned: Option<Result<PathBuf, String>>,
    ) -> libbpf_rs::Result<PacketEngine> {
        let command = loaded.progs.carrick_command.as_fd();
        let pulse = MapHandle::try_from(&loaded.maps.pulse)?;
        if matches!(pinned, Some(Ok(_))) {
            generation::attend(&pulse);
        }
        let records = Records::map(loaded.maps.responses.as_fd(), Records::count(splices_max))
            .map_err(libbpf_rs::Error::from)?;
        Ok(PacketEngine {
            records: Arc::new(records),
            table: Arc::new(SpliceTable::new(
                MapHandle::try_from(&loaded.maps.flows)?,
                MapHandle::try_from(&loaded.maps.splices)?,
                command
                    .try_clone_to_owned()
                    .map_err(libbpf_rs::Error::from)?,
                Some(SlotProgram {
                    program: loaded.progs.carrick_place.as_fd().try_clone_to_owned()?,
                    owned: MapHandle::try_from(&loaded.maps.owned)?,
                }),
                splices_max,
            )),
            request_tables: RequestTables::new(
                MapHandle::try_from(&loaded.maps.request_tables)?,
                loaded.maps.upstream_choices.as_fd(),
                SPARE_TABLES,
            )?,
            kept_requests: MapHandle::try_from(&loaded.maps.requests)?,
            request_counters: MapHandle::try_from(&loaded.maps.request_counters)?,
            request_events: MapHandle::try_from(&loaded.maps.request_events)?,
            events: MapHandle::try_from(&loaded.maps.packet_events)?,
            notifier: OnceLock::new(),
            granting: OnceLock::new(),
            grant: loaded.progs.carrick_grant.as_fd().try_clone_to_owned()?,
            held_events: MapHandle::try_from(&loaded.maps.held_events)?,
            slot_owners: (0..splices_max).map(|_| SlotOwner::default()).collect(),
            environment: Arc::new(environment),
            paths: Mutex::default(),
            pulse,
            pinned,
        })
    }

    /// Statistics of connections between networks.
    pub(crate) fn paths(&self) -> MutexGuard<'_, Paths> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why only orders that name the engine may use it.
    pub(crate) fn obstacle(&self) -> Option<crate::Reason> {
        self.environment.why_not_auto()
    }

    /// A record of responses, if one is free.
    pub(crate) fn take_record(&self) -> Option<Record> {
        self.records.take()
    }

    /// Starts the granting thread if these handles (`pace_handle`) are paced, so that waiting splices get
    /// their turn. Without it, only the senders' own window probes make progress.
    fn attend_held(&self, pace: [u64; 2]) {
        if pace != [0; 2] {
            let _ = self
                .granting
                .get_or_init(|| Granting::start(&self.grant, &self.held_events));
        }
    }

    /// The notifier, if there is one.
    fn notifier(&self) -> Option<&Notifier> {
        self.notifier
            .get_or_init(|| {
                let events = MapHandle::try_from(&self.events).map_err(io::Error::other)?;
                let (table, slot_owners) = (Arc::clone(&self.table), Arc::clone(&self.slot_owners));
                let environment = Arc::clone(&self.environment);
                let task = PeriodicTask {
                    descriptor: environment.descriptor(),
                    run: Box::new(move |now| {
                        let _ = table.reap(Duration::ZERO);
                        match environment.follow(now) {
                            Some(Duration::ZERO) => slot_owners.iter().for_each(SlotOwner::wake),
                            Some(wait) => return wait,
                            None => {}
                        }
                        CHORE_EVERY
                    }),
                };
                Notifier::start_with(events, Arc::clone(&self.slot_owners), Some(task))
            })
            .as_ref()
            .ok()
            .filter(|notifier| notifier.is_working())
    }
}

#[cfg(test)]
mod tests;
