//! The kernel engines: loads them while the process still has its start-up privileges, configures pacing, and reports why an engine is unavailable.

use crate::config::in_kernel;
use crate::config::plan::{Ktls, PacePlan, PacketUse, Plan};
use crate::path_history::PathHistory;
use crate::syn_defer::DeferredSyns;
use crate::telemetry::forwarded::Forwarded;
use carrick_splice::ktls::KtlsService;
use carrick_splice::probe::Feature;
use carrick_splice::requests::{RequestsError, TABLES_MAX};
use carrick_splice::tcp_tuning::TcpTuning;
use carrick_splice::{ClassSettings, Left, PaceError, Pacing, PacketService, SocketService};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Number of kernel engines.
const COUNT: usize = 3;

/// Which kernel engines are usable, and why the others are not.
pub type Features = [Feature; COUNT];

const NAMES: [&str; COUNT] = ["engine socket", "engine packet", "engine ktls"];

/// The kernel reports every request that it forwards.
const TOLD_EVERY: u32 = 1;

/// The kernel engines and their pacing, shared by all workers.
#[derive(Debug, Clone)]
pub struct Engines {
    /// Engine `socket`: redirects bytes between sockets.
    pub socket: SocketService,
    /// Engine `packet`: forwards packets between interfaces.
    pub packet: PacketService,
    /// TLS by the kernel.
    pub ktls: KtlsService,
    /// TCP profiles.
    pub tcp_tuning: TcpTuning,
    /// Pacing classes, for all engines.
    pub pacing: Pacing,
    /// Serialises changes to the classes, so that a reload and the admin interface do not overwrite each other.
    changing: Arc<Mutex<()>>,
    /// Clients whose requests the kernel may forward.
    pub forwarded: Arc<Forwarded>,
    /// Path history, for the splitter.
    pub path_history: Arc<PathHistory>,
    /// Clients whose SYN is deferred until their server accepts.
    pub deferred_syns: DeferredSyns,
}

/// Why a class was not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotChanged {
    /// No class has this name.
    NoSuchClass,
    /// The reason, and a valid alternative.
    Because(String),
}

/// For each listener whose requests the kernel classifies: the number of its routing table, and the table's generation.
pub type RouteTables = HashMap<SocketAddr, (u32, u32)>;

impl Engines {
    /// Loads no engine and paces nothing. Call it with start-up privileges: pacing in the kernel needs them.
    ///
    /// # Errors
    /// Memory for the classes cannot be allocated.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            socket: SocketService::default(),
            packet: PacketService::default(),
            ktls: KtlsService::default(),
            tcp_tuning: TcpTuning::without_programs(),
            pacing: Pacing::new()?,
            changing: Arc::default(),
            forwarded: Arc::default(),
            path_history: Arc::default(),
            deferred_syns: DeferredSyns::default(),
        })
    }

    /// Loads the programs that TCP profiles need, if there are profiles, and logs what is unsupported. Needs start-up privileges.
    pub fn load_tcp_tuning(&mut self, plan: &Plan) {
        if !plan.tcp_profiles.is_empty() {
            self.tcp_tuning = TcpTuning::load();
            self.warn_of_tcp_profiles(plan);
        }
    }

    /// Logs which settings of TCP profiles this machine does not support.
    pub fn warn_of_tcp_profiles(&self, plan: &Plan) {
        for plan in &plan.tcp_profiles {
            match self.tcp_tuning.rehearse(&plan.profile) {
                Ok(refused) => {
                    for refused in refused {
                        tracing::warn!("[tcp_profile.{}]: {refused}", plan.name);
                    }
                }
                Err(error) => tracing::debug!(
                    "[tcp_profile.{}] cannot be checked on this machine: {error}",
                    plan.name
                ),
            }
        }
    }

    /// Sets the classes to those of the plan and discards changes made through admin.
    ///
    /// # Errors
    /// The settings cannot be applied; nothing has changed.
    pub fn pace(&self, plan: &PacePlan) -> Result<(), PaceError> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.pacing.configure(&plan.classes, plan.interval)
    }

    /// Lets `change` modify the settings of one class, until the next reload.
    ///
    /// # Errors
    /// The settings are invalid; nothing has changed.
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

    /// Loads the engines that the plan uses, unless they are loaded, and reports which are usable.
    #[must_use]
    pub fn load(&self, plan: &Plan) -> Features {
        let useless = || Err("the configuration does not use it".to_owned());
        let is_off = plan.packet == PacketUse::Off && plan.wants_packet_engine();
        let socket = if !plan.may_use_socket_engine() && !self.socket.is_loaded() {
            useless()
        } else {
            self.socket
                .load(plan.limits.splices, Some(&self.pacing))
                .map(|()| match self.socket.untold() {
                    None => "its self-test passed".to_owned(),
                    Some(why) => format!(
                        "its self-test passed; byte counts of tunnels in the kernel are known only when they end: {why}"
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
        let ktls = if plan.may_use_ktls() {
            (self.ktls.load())
                .map(|()| self.ktls.detail())
                .map_err(|because| because.to_string())
        } else if plan.ktls == Ktls::Off {
            Err("[process] ktls is \"off\"".to_owned())
        } else {
            useless()
        };
        let [of_socket, of_packet, of_ktls] = NAMES;
        [(of_socket, socket), (of_packet, packet), (of_ktls, ktls)]
            .map(|(name, usable)| Feature { name, usable })
    }

    /// The features while no engine is loaded; `because` says why.
    #[must_use]
    pub fn not_loaded(because: &str) -> Features {
        NAMES.map(|name| Feature {
            name,
            usable: Err(because.to_owned()),
        })
    }

    /// Other kernel features, as found at start: TCP profiles and deferred SYNs.
    #[must_use]
    pub fn others(&self, plan: &Plan) -> [Feature; 2] {
        let useless = || Err("the configuration does not use it".to_owned());
        let tcp_profiles = match self.tcp_tuning.option().and(self.tcp_tuning.handshake()) {
            _ if plan.tcp_profiles.is_empty() => useless(),
            Ok(()) => Ok("the kernel supports all settings of TCP profiles".to_owned()),
            Err(because) => Err(because.to_string()),
        };
        let deferred_syns = match self.deferred_syns.usable() {
            None => useless(),
            Some(Ok(())) => Ok("clients are answered after their server has accepted".to_owned()),
            Some(Err(because)) => Err(because.to_string()),
        };
        [
            ("engine tcp_profile", tcp_profiles),
            ("engine syn_defer", deferred_syns),
        ]
        .map(|(name, usable)| Feature { name, usable })
    }

    /// Installs the routing tables of listeners whose requests the kernel may classify. Where the kernel refuses a table, the process
    /// classifies and a warning is logged.
    #[must_use]
    pub fn install_routes(&self, plan: &Plan) -> RouteTables {
        let Some(tables) = self.packet.request_tables() else {
            return RouteTables::new();
        };
        let mut route_tables = RouteTables::new();
        for (listener, place) in plan.listeners.iter().zip(0..) {
            let installed = match in_kernel::table(listener, plan, TOLD_EVERY) {
                Some(table) => tables.install(place, &table).map(Some),
                None => tables.remove(place).map(|()| None),
            };
            match installed {
                Ok(Some(generation)) => {
                    route_tables.insert(listener.address, (place, generation));
                }
                Ok(None) => {}
                // The listener has no table, and had none before.
                Err(RequestsError::Place(_)) if !in_kernel::is_wanted(listener) => {}
                Err(error) => {
                    tracing::warn!(
                        "the kernel did not take the routes of listener {}, so the process routes its requests: {error}",
                        listener.address
                    );
                    // Remove the table of the previous plan, too.
                    let _ = tables.remove(place);
                }
            }
        }
        // Remove tables of listeners that no longer exist.
        let listeners = u32::try_from(plan.listeners.len()).unwrap_or(u32::MAX);
        for place in listeners..TABLES_MAX {
            if let Err(error) = tables.remove(place) {
                tracing::warn!("cannot remove the kernel's routes of a former listener: {error}");
            }
        }
        route_tables
    }

    /// Takes over tunnels that have outlived an earlier carrick process. Call it with start-up privileges, before [`load`](Engines::load).
    pub fn adopt(&self, plan: &Plan) {
        let Some(folder) = &plan.pins else { return };
        match self.packet.adopt(folder, plan.timeouts.tunnel_idle) {
            // Without the engine in the configuration, the failure does not matter.
            Err(because) if plan.loads_packet_engine() => {
                tracing::warn!(
                    "cannot look for tunnels that an earlier carrick left in the kernel: {because}"
                );
            }
            Err(_) => {}
            Ok(()) => {
                let adopted = self.packet.adopted_totals().adopted;
                if adopted > 0 {
                    tracing::info!(
                        "took over {adopted} tunnels that an earlier carrick left in the kernel"
                    );
                }
                for why in self.packet.not_adopted() {
                    tracing::warn!("a tunnel of an earlier carrick was not taken over: {why}");
                }
            }
        }
    }

    /// Warns if tunnels of engine `packet` will end with the process.
    pub fn warn_of_pins(&self) {
        if let Some(Err(because)) = self.packet.pins() {
            tracing::warn!(
                "tunnels of the engine \"packet\" will end with carrick, because {because}, and hang if it is killed; set pins = \"\" in [process] if that is intended"
            );
        }
    }

    /// Removes the programs at exit, except for tunnels that outlive the process and for connections whose final acknowledgements do not
    /// arrive within `wait`.
    pub async fn leave(&self, wait: Duration) {
        let Left { tunnels, ends } = self.packet.leave(wait).await;
        if tunnels > 0 {
            tracing::info!(
                "{tunnels} tunnels continue in the kernel; the next carrick takes them over, and `carrick clean` ends them"
            );
        }
        if ends > 0 {
            tracing::info!(
                "{ends} connections have ended without their peers' acknowledgement; the programs of the engine \"packet\" stay loaded for \
                 them until the next carrick or `carrick clean` removes them"
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

    /// Warns of other programs attached to the same interfaces.
    pub fn warn_of_foreign_programs(&self) {
        for foreign in self.packet.foreign_programs() {
            tracing::warn!(
                "the engine \"packet\" shares an interface with another program: {foreign}"
            );
        }
    }

    /// If the engine is loaded but cannot be used for `auto`, logs the reason.
    pub fn tell_obstacle(&self, plan: &Plan) {
        if let Some(obstacle) = self.packet.obstacle()
            && plan.has_engine_auto()
        {
            tracing::info!(
                "the engine \"auto\" will not use \"packet\" for tunnels and bodies, because of {}: {}; see `carrick doctor`",
                obstacle.name,
                obstacle.found
            );
        }
    }

    /// Starts the engines' notifier threads with the privileges that the process has now.
    pub fn start_notifier(&self) {
        self.socket.start_notifier();
        self.packet.start_notifier();
    }
}

/// How the configuration requests an engine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EngineRequest {
    None,
    /// Through `auto`.
    ByAuto,
    ByName,
}

/// What was logged about unusable engines, so that each reason is logged once.
#[derive(Default)]
pub struct LoggedReasons([Option<String>; COUNT]);

impl LoggedReasons {
    /// Logs why a requested engine is unusable, unless the same reason was logged before.
    pub fn tell(&mut self, plan: &Plan, features: &Features, advice: &str) {
        let asked = |by_name: bool, by_auto: bool| match (by_name, by_auto) {
            (true, _) => EngineRequest::ByName,
            (false, true) => EngineRequest::ByAuto,
            (false, false) => EngineRequest::None,
        };
        let asked = [
            // `auto` does not need this engine.
            asked(plan.wants_socket_engine(), false),
            asked(plan.wants_packet_engine(), plan.loads_packet_engine()),
            asked(false, plan.may_use_ktls()),
        ];
        for ((feature, asked), logged) in features.iter().zip(asked).zip(&mut self.0) {
            let trouble = match &feature.usable {
                Err(because) if asked != EngineRequest::None => Some(because.clone()),
                _ => None,
            };
            if let Some(because) = trouble.as_ref().filter(|_| trouble != *logged) {
                let name = feature.name.trim_start_matches("engine ");
                if asked == EngineRequest::ByName {
                    tracing::warn!(
                        "the engine \"{name}\" is not usable, because {because}; connections that ask for it are relayed by the process{advice}"
                    );
                } else {
                    tracing::info!(
                        "the engine \"{name}\" is not usable, because {because}; \"auto\" does not use it{advice}"
                    );
                }
            }
            *logged = trouble;
        }
    }
}
