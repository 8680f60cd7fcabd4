//! The engines for which the kernel must be asked, and how their splices are paced: loading them with the privileges of the start, and saying why one is not there.

use crate::config::in_kernel;
use crate::config::plan::{PacePlan, PacketUse, Plan};
use crate::path_history::Learned;
use crate::syn_defer::Handshakes;
use crate::telemetry::forwarded::Forwarded;
use carrick_splice::probe::Feature;
use carrick_splice::requests::{RequestsError, TABLES_MAX};
use carrick_splice::tcp_tuning::LegService;
use carrick_splice::{ClassSettings, Left, PaceError, Pacing, PacketService, SocketService};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How many engines of the kernel's there are.
const COUNT: usize = 2;

/// What can be used of them, and why not.
pub type Features = [Feature; COUNT];

/// Their names.
const NAMES: [&str; COUNT] = ["engine socket", "engine packet"];

/// The kernel tells of each request that it forwards.
const TOLD_EVERY: u32 = 1;

/// The kernel's engines and how their splices are paced, shared by all workers.
#[derive(Debug, Clone)]
pub struct Engines {
    /// Bytes from socket to socket.
    pub socket: SocketService,
    /// Packets from interface to interface.
    pub packet: PacketService,
    /// Leg profiles.
    pub legs: LegService,
    /// Classes of what is relayed, by all engines.
    pub pacing: Pacing,
    /// Held while the classes are changed, so that a reload and admin do not undo each other's changes.
    changing: Arc<Mutex<()>>,
    /// Clients whose requests the kernel may forward.
    pub forwarded: Arc<Forwarded>,
    /// What was learned of whether connections are better joined by it.
    pub learned: Arc<Learned>,
    /// Clients who wait in the kernel for their server.
    pub handshakes: Handshakes,
}

/// Why a class stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotChanged {
    /// There is none of this name.
    NoSuchClass,
    /// What is wrong, and what would be right.
    Because(String),
}

/// By which table of routes the kernel judges requests, and the table's generation: for listeners where it does.
pub type JudgedBy = HashMap<SocketAddr, (u32, u32)>;

impl Engines {
    /// None is loaded, and nothing paced. To be called with the privileges of the start: with them the kernel's engines are paced, too.
    ///
    /// # Errors
    /// When there is no memory for the classes.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            socket: SocketService::default(),
            packet: PacketService::default(),
            legs: LegService::without_programs(),
            pacing: Pacing::new()?,
            changing: Arc::default(),
            forwarded: Arc::default(),
            learned: Arc::default(),
            handshakes: Handshakes::default(),
        })
    }

    /// Loads what leg profiles need, if there are any, and warns of what they do not get here. With the privileges of the start.
    pub fn load_legs(&mut self, plan: &Plan) {
        if !plan.legs.is_empty() {
            self.legs = LegService::load();
            self.warn_of_legs(plan);
        }
    }

    /// Warns of what leg profiles do not get here.
    pub fn warn_of_legs(&self, plan: &Plan) {
        for leg in &plan.legs {
            match self.legs.rehearse(&leg.profile) {
                Ok(refused) => {
                    for refused in refused {
                        tracing::warn!("[leg.{}]: {refused}", leg.name);
                    }
                }
                Err(error) => tracing::debug!("[leg.{}] could not be tried: {error}", leg.name),
            }
        }
    }

    /// Makes the classes those of the plan, whatever admin has changed.
    ///
    /// # Errors
    /// Why that is not possible now; nothing has changed then.
    pub fn pace(&self, plan: &PacePlan) -> Result<(), PaceError> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.pacing.configure(&plan.classes, plan.interval)
    }

    /// Changes the settings of one class as `change` does it, until the next reload.
    ///
    /// # Errors
    /// Why they cannot be so; nothing has changed then.
    pub fn change_class(
        &self,
        name: &str,
        change: impl FnOnce(&mut ClassSettings) -> Result<(), String>,
    ) -> Result<(), NotChanged> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut classes, interval) = self.pacing.settings();
        let class = classes.iter_mut().find(|class| class.name == name);
        change(class.ok_or(NotChanged::NoSuchClass)?).map_err(NotChanged::Because)?;
        self.pacing
            .configure(&classes, interval)
            .map_err(|error| match &error.class {
                Some(class) if class == name => NotChanged::Because(error.why),
                _ => NotChanged::Because(error.to_string()),
            })
    }

    /// Loads what the plan has a use for, unless it is loaded, and says what can be used.
    #[must_use]
    pub fn load(&self, plan: &Plan) -> Features {
        let useless = || Err("the configuration has no use for it".to_owned());
        let is_off = plan.packet == PacketUse::Off && plan.wants_packet_engine();
        let socket = if !plan.may_use_socket_engine() && !self.socket.is_loaded() {
            useless()
        } else {
            self.socket
                .load(plan.limits.splices, Some(&self.pacing))
                .map(|()| match self.socket.untold() {
                    None => "its self-test passed".to_owned(),
                    Some(why) => format!(
                        "its self-test passed; bytes of tunnels that the kernel has are known at their end only: {why}"
                    ),
                })
                .map_err(|because| because.to_string())
        };
        let packet = if self.packet.is_loaded() || plan.loads_packet_engine() {
            self.packet
                .load(
                    plan.limits.splices,
                    &[],
                    plan.pins.as_deref(),
                    Some(&self.pacing),
                )
                .map(|()| self.where_packets_are_seen())
                .map_err(|because| because.to_string())
        } else if is_off {
            Err("[process] packet is \"off\"".to_owned())
        } else {
            useless()
        };
        let [of_socket, of_packet] = NAMES;
        [(of_socket, socket), (of_packet, packet)].map(|(name, usable)| Feature { name, usable })
    }

    /// As long as, or if, they are not loaded.
    #[must_use]
    pub fn not_loaded(because: &str) -> Features {
        NAMES.map(|name| Feature {
            name,
            usable: Err(because.to_owned()),
        })
    }

    /// What else of the kernel's can be used, as it was found at the start: leg profiles, and handshakes that wait for the server's.
    #[must_use]
    pub fn others(&self, plan: &Plan) -> [Feature; 2] {
        let useless = || Err("the configuration has no use for it".to_owned());
        let legs = match self.legs.option().and(self.legs.handshake()) {
            _ if plan.legs.is_empty() => useless(),
            Ok(()) => Ok("leg profiles get all that the kernel has".to_owned()),
            Err(because) => Err(because.to_string()),
        };
        let hold = match self.handshakes.usable() {
            None => useless(),
            Some(Ok(())) => Ok("clients are answered once their server has accepted".to_owned()),
            Some(Err(because)) => Err(because.to_string()),
        };
        [("engine legs", legs), ("engine hold", hold)]
            .map(|(name, usable)| Feature { name, usable })
    }

    /// Gives the kernel the routes of listeners of which it may judge requests. Where it does not take them, the process judges, and
    /// the log says so.
    #[must_use]
    pub fn install_routes(&self, plan: &Plan) -> JudgedBy {
        let Some(tables) = self.packet.request_tables() else {
            return JudgedBy::new();
        };
        let mut judged_by = JudgedBy::new();
        for (listener, place) in plan.listeners.iter().zip(0..) {
            let installed = match in_kernel::table(listener, &plan.limits.head(), TOLD_EVERY) {
                Some(table) => tables.install(place, &table).map(Some),
                None => tables.remove(place).map(|()| None),
            };
            match installed {
                Ok(Some(generation)) => {
                    judged_by.insert(listener.address, (place, generation));
                }
                Ok(None) => {}
                // One that has no routes for it, and none before.
                Err(RequestsError::Place(_)) if !in_kernel::is_wanted(listener) => {}
                Err(error) => {
                    tracing::warn!(
                        "requests to {} are judged by the process: {error}",
                        listener.address
                    );
                    // Nor by the table of the plan before.
                    let _ = tables.remove(place);
                }
            }
        }
        // Clients of listeners that are gone are up to the process, too.
        let listeners = u32::try_from(plan.listeners.len()).unwrap_or(u32::MAX);
        for place in listeners..TABLES_MAX {
            if let Err(error) = tables.remove(place) {
                tracing::warn!("an earlier listener's requests: {error}");
            }
        }
        judged_by
    }

    /// Looks after tunnels that have outlived an earlier carrick. To be called with the privileges of the start, before
    /// [`load`](Engines::load).
    pub fn adopt(&self, plan: &Plan) {
        let Some(folder) = &plan.pins else { return };
        match self.packet.adopt(folder) {
            // Whoever has never used the engine need not hear of it.
            Err(because) if plan.loads_packet_engine() => {
                tracing::warn!("tunnels of an earlier carrick are not looked for: {because}");
            }
            Err(_) => {}
            Ok(()) => {
                let adopted = self.packet.adopted_totals().adopted;
                if adopted > 0 {
                    tracing::info!(
                        "{adopted} tunnels of an earlier carrick go on in the kernel and are looked after"
                    );
                }
                for why in self.packet.not_adopted() {
                    tracing::warn!("not looked after: {why}");
                }
            }
        }
    }

    /// Says if tunnels of the engine "packet" end with the process.
    pub fn warn_of_pins(&self) {
        if let Some(Err(because)) = self.packet.pins() {
            tracing::warn!(
                "tunnels of the engine \"packet\" end with carrick, because {because}; [process] pins = \"\" if that is wanted"
            );
        }
    }

    /// At the end: takes the programs away, but for tunnels that go on without carrick, and for connections whose ends do not arrive within
    /// `wait`.
    pub async fn leave(&self, wait: Duration) {
        let Left { tunnels, ends } = self.packet.leave(wait).await;
        if tunnels > 0 {
            tracing::info!(
                "{tunnels} tunnels go on in the kernel; the next carrick looks after them, or `carrick clean` ends them"
            );
        }
        if ends > 0 {
            tracing::info!(
                "{ends} connections have ended, and their peers have not acknowledged it; the programs of the engine \"packet\" stay for \
                 them until the next carrick removes them, or `carrick clean`"
            );
        }
    }

    fn where_packets_are_seen(&self) -> String {
        let mut text = format!(
            "its programs are on {}",
            self.packet.interfaces().join(", ")
        );
        for left_out in self.packet.interfaces_left_out() {
            text += &format!("; not on {left_out}");
        }
        if let Some(Ok(folder)) = self.packet.pins() {
            text += &format!("; its tunnels outlive carrick ({})", folder.display());
        }
        text
    }

    /// Says what else works on the packets.
    pub fn warn_of_foreign_programs(&self) {
        for foreign in self.packet.foreign_programs() {
            tracing::warn!("the engine \"packet\" is not alone on {foreign}");
        }
    }

    /// Says why tunnels whose engine is chosen by carrick are not forwarded packet by packet, where the engine is loaded.
    pub fn tell_obstacle(&self, plan: &Plan) {
        if let Some(obstacle) = self.packet.obstacle()
            && plan.has_engine_auto()
        {
            tracing::info!(
                "tunnels and bodies with the engine \"auto\" are not forwarded packet by packet, because of {}: {}; `carrick doctor` says more",
                obstacle.name,
                obstacle.found
            );
        }
    }

    /// Starts their threads, with the privileges that the process has now.
    pub fn start_notifier(&self) {
        self.socket.start_notifier();
        self.packet.start_notifier();
    }
}

/// Who asks for an engine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nobody,
    /// Somebody who leaves the choice to carrick.
    ByTheWay,
    ByName,
}

/// What was told of engines that are not there, so that it is told once.
#[derive(Default)]
pub struct Told([Option<String>; COUNT]);

impl Told {
    /// Says of each engine that is asked for and not there why that is, unless it was said already.
    pub fn tell(&mut self, plan: &Plan, features: &Features, advice: &str) {
        let asked = |by_name: bool, by_the_way: bool| match (by_name, by_the_way) {
            (true, _) => Asked::ByName,
            (false, true) => Asked::ByTheWay,
            (false, false) => Asked::Nobody,
        };
        let asked = [
            // What is chosen by the way is not missed.
            asked(plan.wants_socket_engine(), false),
            asked(plan.wants_packet_engine(), plan.loads_packet_engine()),
        ];
        for ((feature, asked), told) in features.iter().zip(asked).zip(&mut self.0) {
            let trouble = match &feature.usable {
                Err(because) if asked != Asked::Nobody => Some(because.clone()),
                _ => None,
            };
            if let Some(because) = trouble.as_ref().filter(|_| trouble != *told) {
                let name = feature.name.trim_start_matches("engine ");
                if asked == Asked::ByName {
                    tracing::warn!(
                        "the engine \"{name}\" is not usable, because {because}; what asks for it goes through the process{advice}"
                    );
                } else {
                    tracing::info!(
                        "the engine \"{name}\" is not usable, because {because}; \"auto\" goes without it{advice}"
                    );
                }
            }
            *told = trouble;
        }
    }
}
