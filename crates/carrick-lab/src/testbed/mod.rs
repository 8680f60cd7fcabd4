//! The test bed: client, proxy and server, and in one layout a router, as network namespaces on veth pairs, with a directory
//! in memory for their files; its meters, and the programs that run inside.

pub mod addresses;
pub mod busy;
pub mod calibration;
pub mod congestion;
pub mod cores;
pub mod counters;
pub(crate) mod files;
pub mod helpers;
pub mod kinds;
pub mod machine;
pub mod meter;
pub mod name;
pub mod namespace;
pub mod netem;
mod offload;
pub mod plan;
pub mod rules;
pub mod service;
pub mod slowdown;
pub mod sockets;
pub mod spin;
mod sys;
pub mod usage;
mod wiring;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

pub use addresses::Addresses;
pub use counters::TcpCounters;
pub use helpers::WanService;
pub use meter::{Meter, ProxyCpu};
pub use plan::{Layout, TcpOptions, TestbedPlan};

use crate::testbed::busy::BusyMeter;
use crate::testbed::calibration::{Calibration, calibrate, check_slowdown};
use crate::testbed::cores::{Placement, rps_mask};
use crate::testbed::name::RunName;
use crate::testbed::namespace::{Namespace, remove_files, sweep_stale};
use crate::testbed::slowdown::Slowdown;

/// A machine of the test bed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Where the load comes from.
    Client,
    /// Where the proxy runs.
    Proxy,
    /// Where the origins run.
    Server,
    /// Where packets pass that an emulated network may delay.
    Router,
}

/// Namespaces and a directory, removed on drop together with every process inside.
#[derive(Debug)]
pub struct Testbed {
    /// Where the load comes from.
    pub client: Namespace,
    /// Where the proxy runs, or where the packets of the direct layout are routed through.
    pub proxy: Namespace,
    /// Where the origins run.
    pub server: Namespace,
    router: Option<Namespace>,
    plan: TestbedPlan,
    name: RunName,
    directory: PathBuf,
    placement: Placement,
    background_share: f64,
    number: AtomicU32,
    program: Option<PathBuf>,
    /// Why the plan's own congestion controls are not in use, if it names some.
    without_congestion: Option<String>,
}

impl Testbed {
    /// As [`Self::build`], with the plan of the side-by-side benchmark: direct, with cubic on every route.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn create() -> Result<Self> {
        Self::build(&TestbedPlan::default())
    }

    /// Removes what killed runs left behind, then builds a new test bed. Any number of them can exist at a time.
    ///
    /// # Errors
    /// When the plan asks for what cannot be; when not root; when a tool or the kernel refuses. Whatever was made until
    /// then is removed again.
    pub fn build(plan: &TestbedPlan) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("the test bed needs root (network namespaces): run it with sudo");
        }
        for tool in ["ip", "ss", "taskset", "sh"] {
            crate::command::require(tool)?;
        }
        plan.check()?;
        sweep_stale()?;

        let without_congestion = match plan.needs_own_congestion() {
            true => congestion::load()
                .err()
                .map(|error| format!("{error:#}: {} in its place", congestion::FALLBACK)),
            false => None,
        };
        let name = RunName::of_this_process()?;
        let testbed = Self {
            client: Namespace::named(&name, "client"),
            proxy: Namespace::named(&name, "proxy"),
            server: Namespace::named(&name, "server"),
            router: (plan.layout != Layout::Direct).then(|| Namespace::named(&name, "router")),
            plan: plan.clone(),
            directory: name.directory(),
            name,
            placement: Placement::Shared,
            background_share: 0.0,
            number: AtomicU32::new(0),
            program: None,
            without_congestion,
        };
        files::create_directory(&testbed.directory)?;
        wiring::build(&testbed)?;
        Ok(testbed)
    }

    /// What was asked for.
    #[must_use]
    pub fn plan(&self) -> &TestbedPlan {
        &self.plan
    }

    /// What is not as the plan has it, because the kernel does not take the laboratory's congestion controls: why, and what
    /// is in their place.
    #[must_use]
    pub fn without_congestion(&self) -> Option<&str> {
        self.without_congestion.as_deref()
    }

    pub(crate) fn has_own_congestion(&self) -> bool {
        self.without_congestion.is_none()
    }

    /// Who has which address.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses::of(self.plan.layout)
    }

    /// Where the emulated network is; `None` in the direct layout.
    #[must_use]
    pub fn router(&self) -> Option<&Namespace> {
        self.router.as_ref()
    }

    /// The namespace of a machine, if the layout has it.
    #[must_use]
    pub fn side(&self, side: Side) -> Option<&Namespace> {
        match side {
            Side::Client => Some(&self.client),
            Side::Proxy => Some(&self.proxy),
            Side::Server => Some(&self.server),
            Side::Router => self.router(),
        }
    }

    /// All namespaces.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        [&self.client, &self.proxy, &self.server]
            .into_iter()
            .chain(self.router())
    }

    /// A directory in memory for configurations, logs and the origin's files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where a directory on disk may be made, for what is not to be in memory; it is removed with the run.
    #[must_use]
    pub fn disk_directory(&self) -> PathBuf {
        self.name.disk_directory()
    }

    /// A name of letters and digits, for programs that share something with their likes on the whole machine.
    #[must_use]
    pub fn service_name(&self) -> String {
        self.name.to_string()
    }

    /// Uses another program than this one as origin, load and WAN emulator: `carrick`, or `carrick-lab`. For callers that
    /// are not the laboratory, such as tests.
    pub fn set_program(&mut self, program: PathBuf) {
        self.program = Some(program);
    }

    /// A number that is not given twice, for names of files.
    pub(crate) fn next_number(&self) -> u32 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// Where work is placed at the moment.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Places packet work, this process and everything that already runs in the server's and the router's namespace.
    /// Proxy and load take their place when they are started.
    ///
    /// A packet is worked on where its receiver's `rps_cpus` says, up to the socket, and what it triggers is sent from
    /// there; a program sends on its own core. A veth device has one queue and no interrupt, so nothing else is to be placed.
    ///
    /// # Errors
    /// When a mask cannot be written.
    pub fn place(&mut self, placement: Placement) -> Result<()> {
        let (proxy_mask, other_mask) = match placement {
            Placement::Shared => (String::from("0"), String::from("0")),
            Placement::Separate(pair) => (rps_mask(pair.proxy), rps_mask(pair.other)),
        };
        for namespace in self.namespaces() {
            let mask = if namespace.name() == self.proxy.name() {
                &proxy_mask
            } else {
                &other_mask
            };
            // The tool's process, not a thread of ours: /sys shows the devices of the namespace in which it was mounted.
            let script = format!(
                "for queue in /sys/class/net/*/queues/rx-*/rps_cpus; do echo {mask} > $queue || exit 1; done"
            );
            namespace.run("sh", &["-c", &script])?;
        }
        cores::pin_process(std::process::id(), &placement.other_cores())?;
        for namespace in [Some(&self.server), self.router()].into_iter().flatten() {
            for pid in namespace.processes()? {
                cores::pin_process(pid, &placement.other_cores())?;
            }
        }
        if self.placement != placement {
            self.background_share = 0.0;
        }
        self.placement = placement;
        Ok(())
    }

    /// Checks the meter of the proxy's core with an idle window and with spinners, each for so long; what the core does in
    /// the idle window is the background that [`Meter`] takes off from now on. To be called before a proxy is started.
    ///
    /// # Errors
    /// When the proxy does not have a core of its own ([`Self::place`]), or the meter cannot be read.
    pub async fn calibrate(&mut self, each: Duration) -> Result<Calibration> {
        let Placement::Separate(pair) = self.placement else {
            bail!("the meter can only be checked while the proxy has a core of its own");
        };
        let meter = BusyMeter::new(pair.proxy)?;
        let mut calibration = calibrate(&meter, pair, each).await?;
        if let Some(slowdown) = self.slow_down()? {
            calibration.slowdown = Some(check_slowdown(&meter, &slowdown, each).await?);
        }
        self.background_share = calibration.background_share();
        Ok(calibration)
    }

    /// Takes off the background of an earlier [`Self::calibrate`] again, after work was placed elsewhere meanwhile.
    pub fn take_off(&mut self, calibration: &Calibration) {
        self.background_share = calibration.background_share();
    }

    /// Makes the proxy as slow as the plan has it, until what is returned is dropped. `None`: the plan leaves it the whole core.
    ///
    /// # Errors
    /// When the proxy does not have a core of its own ([`Self::place`]); as [`Slowdown::start`].
    pub fn slow_down(&self) -> Result<Option<Slowdown>> {
        if self.plan.proxy_core_share >= 1.0 {
            return Ok(None);
        }
        let Placement::Separate(pair) = self.placement else {
            bail!(
                "proxy_core_share: the proxy can only be slow while it has a core of its own (two cores)"
            );
        };
        Slowdown::start(pair.proxy, self.plan.proxy_core_share).map(Some)
    }

    /// The busy share of the proxy's core in the idle window of [`Self::calibrate`]; nought before.
    #[must_use]
    pub fn background_share(&self) -> f64 {
        self.background_share
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for namespace in self.namespaces() {
            namespace.remove();
        }
        // Nothing more can be done about a failure here; the next run's sweep tries again.
        let _ = remove_files(|run| *run == self.name);
        let _ = cores::pin_process(std::process::id(), &cores::online());
    }
}
