//! The packet engine: two connections become one for their peers, whose packets the kernel forwards with other addresses and
//! numbers (IP-level TCP splice, tc BPF). Loading it, and who may use it; [`splice`] is one splice.

pub(crate) mod command;
pub(crate) mod hooks;
pub(crate) mod records;
pub mod rules;
pub(crate) mod splice;
pub(crate) mod state;
mod surroundings;
mod table;

skeleton!("packet.skel.rs");

use crate::Unavailable;
use crate::tenant::Tenant;
use crate::waking::{self, Chore, Waking};
use hooks::{Changes, Hooks, Interfaces, Settings};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, OpenObject};
use records::{Record, Records};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, io};
use surroundings::Surroundings;
use table::Table;
pub use table::Taken;

/// How often places of splices that are over are looked at.
const CHORE_EVERY: Duration = Duration::from_secs(5);

/// The packet engine of a process, shared by all its splicers. It is empty until it is loaded, and splices that ask for
/// the engine before go through the process.
#[derive(Clone, Default)]
pub struct PacketService(Arc<OnceLock<Arc<PacketEngine>>>);

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

    /// How many splices there are, and how many there can be.
    #[must_use]
    pub fn taken(&self) -> Taken {
        self.engine()
            .map_or(Taken::default(), |engine| engine.table.taken())
    }

    /// The interfaces that its programs are on, and how.
    #[must_use]
    pub fn interfaces(&self) -> Vec<String> {
        self.engine()
            .map_or_else(Vec::new, |engine| engine.surroundings.interfaces())
    }

    /// The splices whose packets the kernel has, and those that it had: the owner's number, and bytes that were acknowledged while
    /// they were forwarded, from `a` to `b` and from `b` to `a`.
    #[must_use]
    pub fn live(&self) -> Vec<(u64, [u64; 2])> {
        let Some(engine) = self.engine() else {
            return Vec::new();
        };
        let tenants = (0..).zip(engine.tenants.iter());
        let live = tenants.filter_map(|(place, tenant)| {
            let (stay, label) = (tenant.stay(), tenant.label());
            if !Tenant::is_there(stay) {
                return None;
            }
            let bytes = state::read(&engine.table.read(place)?).bytes;
            (tenant.stay() == stay).then_some((label, bytes))
        });
        live.collect()
    }

    /// Interfaces without its programs, and why.
    #[must_use]
    pub fn interfaces_left_out(&self) -> Vec<String> {
        self.engine()
            .map_or_else(Vec::new, |engine| engine.surroundings.left_out())
    }

    /// Programs of others at the same hooks, on which interface, and what their presence means.
    #[must_use]
    pub fn foreign_programs(&self) -> Vec<String> {
        self.engine()
            .map_or_else(Vec::new, |engine| engine.surroundings.foreign())
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
    table: Arc<Table>,
    tenants: Arc<[Tenant]>,
    records: Arc<Records>,
    events: MapHandle,
    /// Started with the first splice: by then, the process has the privileges that it keeps.
    waking: OnceLock<io::Result<Waking>>,
    surroundings: Arc<Surroundings>,
}

impl PacketEngine {
    fn load(splices_max: u32, interfaces: &[String]) -> Result<PacketEngine, Unavailable> {
        let printed = libbpf_rs::set_print(None);
        let mut object = MaybeUninit::<OpenObject>::uninit();
        let loaded = PacketEngine::load_maps(&mut object, splices_max)
            .map_err(|error| Unavailable::explain(&error));
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
        // Opened first, so that nothing is missed. Without it, what changes is not followed.
        let changes = Changes::open().ok();
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
        PacketEngine::take(&loaded, splices_max, Surroundings::new(hooks, changes))
            .map_err(|error| Unavailable::explain(&error))
    }

    fn load_maps(
        object: &mut MaybeUninit<OpenObject>,
        splices_max: u32,
    ) -> libbpf_rs::Result<skeleton::PacketSkel<'_>> {
        let mut open = skeleton::PacketSkelBuilder::default().open(object)?;
        open.maps.flows.set_max_entries(2 * splices_max)?;
        open.maps.splices.set_max_entries(splices_max)?;
        open.maps
            .responses
            .set_max_entries(Records::count(splices_max))?;
        open.maps
            .packet_events
            .set_max_entries(waking::ring_bytes(2 * splices_max))?;
        open.load()
    }

    /// Takes what is needed of the loaded programs and maps.
    fn take(
        loaded: &skeleton::PacketSkel<'_>,
        splices_max: u32,
        surroundings: Surroundings,
    ) -> libbpf_rs::Result<PacketEngine> {
        let command = loaded.progs.carrick_command.as_fd();
        let records = Records::map(loaded.maps.responses.as_fd(), Records::count(splices_max))
            .map_err(libbpf_rs::Error::from)?;
        Ok(PacketEngine {
            records: Arc::new(records),
            table: Arc::new(Table::new(
                MapHandle::try_from(&loaded.maps.flows)?,
                MapHandle::try_from(&loaded.maps.splices)?,
                command
                    .try_clone_to_owned()
                    .map_err(libbpf_rs::Error::from)?,
                splices_max,
            )),
            events: MapHandle::try_from(&loaded.maps.packet_events)?,
            waking: OnceLock::new(),
            tenants: (0..splices_max).map(|_| Tenant::default()).collect(),
            surroundings: Arc::new(surroundings),
        })
    }

    /// A place for what the kernel notes of responses, if there is one.
    pub(crate) fn take_record(&self) -> Option<Record> {
        self.records.take()
    }

    /// Who tells splices of their end, if there is somebody.
    fn waking(&self) -> Option<&Waking> {
        self.waking
            .get_or_init(|| {
                let events = MapHandle::try_from(&self.events).map_err(io::Error::other)?;
                let (table, tenants) = (Arc::clone(&self.table), Arc::clone(&self.tenants));
                let surroundings = Arc::clone(&self.surroundings);
                let chore = Chore {
                    every: CHORE_EVERY,
                    descriptor: surroundings.descriptor(),
                    run: Box::new(move || {
                        table.reap(Duration::ZERO);
                        if surroundings.follow() {
                            tenants.iter().for_each(Tenant::wake);
                        }
                    }),
                };
                Waking::start_with(events, Arc::clone(&self.tenants), Some(chore))
            })
            .as_ref()
            .ok()
            .filter(|waking| waking.is_working())
    }
}

#[cfg(test)]
mod tests;
