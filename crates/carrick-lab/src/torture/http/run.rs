//! The runs: one for each seed, with a carrick of its own between namespaces.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::peers::Job;
use crate::peers::engine_use;
use crate::peers::template::render;
use crate::testbed::netem::NetemPaths;
use crate::testbed::service::Service;
use crate::testbed::{Layout, Testbed, TestbedPlan, cores, files};
use crate::torture::http::disturbance::disturb;
use crate::torture::http::network::Wire;
use crate::torture::http::play::play;
use crate::torture::http::scenario::Scenario;
use crate::torture::http::tally::Tally;
use crate::torture::http::{PATIENCE, Way};
use crate::torture::run::perform;
use crate::torture::watch::Holdings;
use crate::wan::spec::Subnet;

/// carrick's configuration.
const TEMPLATE: &str = include_str!("carrick.toml");
/// For carrick to come up.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// Longer than clients are patient, so that they are the first to tell.
const IDLE_SECONDS: u64 = 150;
/// Most that a whole run may take.
const RUN_LIMIT: Duration = Duration::from_secs(400);
/// A client behind all others must be served within so long, on a good network.
const FRESH_LIMIT: Duration = Duration::from_secs(20);
/// For carrick to let go of what belongs to connections that have ended.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
const SETTLE_POLL: Duration = Duration::from_millis(100);
/// Longer than a packet is under way.
const UNDER_WAY: Duration = Duration::from_millis(150);
/// Of so many resets of clients over a bad leg, one may have been lost, and two at least.
const RESETS_FOR_ONE_LOST: u64 = 8;
const RESETS_LOST_MIN: u64 = 2;
/// Where clients are: each conversation has a network of 24 bits of its own, or all have the first.
const CLIENTS: Subnet = Subnet {
    address: IpAddr::V4(Ipv4Addr::new(10, 78, 0, 0)),
    bits: 16,
};

/// The counter of reloads that have succeeded.
const RELOADED: &str = "carrick_reloads_total{result=\"ok\"}";
/// The counter of requests that the kernel has forwarded.
const CLASSIFIED: &str = "carrick_kernel_requests_total{by=\"kernel\"}";

/// Gauges of carrick's that must be nought again.
const CLIENTS_OPEN: &str = "carrick_client_connections_open";
const MUST_BE_GONE: [&str; 5] = [
    CLIENTS_OPEN,
    "carrick_upstream_connections_open",
    "carrick_server_active",
    "carrick_packet_splices{state=\"open\"}",
    "carrick_socket_splices",
];

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The first seed; further runs have those that follow.
    pub seed: u64,
    /// How many runs.
    pub runs: u64,
    /// Instead of those that the seeds choose.
    pub way: Option<Way>,
    /// Whether carrick is stopped for moments, and reloaded.
    pub disturbs: bool,
    /// Whether the network is bad by the kernel's netem instead of the laboratory's emulator.
    pub netem: bool,
    /// carrick's program.
    pub carrick: PathBuf,
    /// Where carrick's log of a run with complaints is kept.
    pub logs: Option<PathBuf>,
}

/// What came of all runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// In the order of the seeds.
    pub runs: Vec<Run>,
}

/// What came of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// Its way.
    pub way: Way,
    /// Its network, in words.
    pub network: String,
    /// Its counts.
    pub tally: Tally,
    /// Bytes that the engine `packet` has forwarded: of bodies, or with heads.
    pub forwarded_bytes: u64,
    /// Requests that the kernel has forwarded.
    pub classified: u64,
    /// Whether it should have forwarded some, and has not.
    pub is_unforwarded: bool,
    /// How long it took.
    pub seconds: f64,
}

impl Run {
    /// Whether nothing has happened that must not.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.tally.complaint_count == 0
    }
}

/// Runs everything; `tell` hears of each run as soon as it is over.
///
/// # Errors
/// When the test bed cannot be built. What happens in a run is in its counts.
pub async fn run(plan: &Plan, mut tell: impl FnMut(&Run)) -> Result<Results> {
    let carrick = std::fs::canonicalize(&plan.carrick).with_context(|| {
        format!(
            "no carrick at {}: build it (make build), or name it with --carrick",
            plan.carrick.display()
        )
    })?;
    if let Some(folder) = &plan.logs {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let direct = bed(Layout::Direct)?;
    let routed = bed(Layout::Routed)?;
    let mut runs = Vec::new();
    for seed in plan.seed..plan.seed.saturating_add(plan.runs) {
        let scenario = Scenario::draw(seed, plan.way);
        let is_direct = scenario.network.wire == Wire::Direct;
        let bench = Bench {
            testbed: if is_direct { &direct } else { &routed },
            disturbs: plan.disturbs,
            carrick: &carrick,
            netem: plan.netem,
            logs: plan.logs.as_deref(),
        };
        let run = Box::pin(bench.run(scenario)).await;
        tell(&run);
        runs.push(run);
    }
    Ok(Results { runs })
}

/// A test bed with the clients' networks.
fn bed(layout: Layout) -> Result<Testbed> {
    let testbed = Testbed::build(&TestbedPlan {
        layout,
        offloads: layout == Layout::Direct,
        ..TestbedPlan::default()
    })?;
    let clients = String::from(CLIENTS);
    let client = testbed.addresses().client;
    // Any address of it is the client's own.
    testbed
        .client
        .ip(&[format!("route add local {clients} dev lo")])?;
    let (gateway, device) = match testbed.router() {
        Some(router) => (router, "r0"),
        None => (&testbed.proxy, "p0"),
    };
    gateway.ip(&[format!("route add {clients} via {client} dev {device}")])?;
    Ok(testbed)
}

/// Where a conversation comes from.
fn client_address(scenario: &Scenario, conversation: usize) -> Option<SocketAddr> {
    let network = if scenario.network.has_many_networks {
        u8::try_from(conversation % 256).unwrap_or(0)
    } else {
        0
    };
    let address = Ipv4Addr::new(10, 78, network, 1);
    Some(SocketAddr::new(IpAddr::V4(address), 0))
}

/// A test bed, and what is put into it.
struct Bench<'a> {
    testbed: &'a Testbed,
    disturbs: bool,
    carrick: &'a Path,
    netem: bool,
    logs: Option<&'a Path>,
}

impl Bench<'_> {
    async fn run(&self, scenario: Scenario) -> Run {
        let began = Instant::now();
        let mut run = Run {
            seed: scenario.seed,
            way: scenario.way,
            network: scenario.network.to_string(),
            tally: Tally::default(),
            forwarded_bytes: 0,
            classified: 0,
            is_unforwarded: false,
            seconds: 0.0,
        };
        let log = self
            .testbed
            .directory()
            .join(format!("carrick-{}.log", scenario.seed));
        let done = tokio::time::timeout(RUN_LIMIT, self.attempt(&scenario, &log, &mut run)).await;
        let done =
            done.unwrap_or_else(|_| bail!("it did not end within {} s", RUN_LIMIT.as_secs()));
        if let Err(error) = done {
            complain(&mut run, &format!("the run failed: {error:#}"));
        }
        if let (Some(folder), true) = (self.logs, run.tally.complaint_count > 0) {
            let name = format!("seed-{}-{}.log", run.seed, run.way.name());
            // The log only helps; without it the complaint still stands.
            let _ = std::fs::copy(&log, folder.join(name));
        }
        let _ = std::fs::remove_file(&log);
        run.seconds = began.elapsed().as_secs_f64();
        run
    }

    async fn attempt(&self, scenario: &Scenario, log: &Path, run: &mut Run) -> Result<()> {
        for namespace in [
            &self.testbed.client,
            &self.testbed.proxy,
            &self.testbed.server,
        ] {
            for (path, value) in scenario.network.tcp.parameters() {
                namespace.set_parameter(path, &value)?;
            }
        }
        if scenario.way == Way::Routed {
            return self.torture(scenario, run).await;
        }
        let mut carrick = self.start(scenario, log)?;
        let done = self.with(&mut carrick, scenario, run).await;
        // A carrick that has died explains more than what became of its connections.
        let checked = carrick.check();
        carrick.kill().await;
        checked.and(done)
    }

    async fn with(&self, carrick: &mut Service, scenario: &Scenario, run: &mut Run) -> Result<()> {
        carrick
            .wait_until_listening(Job::Switch.port(), START_TIMEOUT)
            .await?;
        // What is made with the first connections and kept is not what is looked for.
        let first = Scenario::plain(scenario.seed, scenario.way, 4);
        let tally = self.play(first).await?;
        if tally.whole != 4 {
            bail!("carrick does not serve at all: {tally:?}");
        }
        if self.disturbs {
            // The first reload opens the log once more.
            carrick.signal(Signal::HUP);
            let until = Instant::now() + START_TIMEOUT;
            while gauge(&self.testbed.proxy.inside(engine_use::ask)?, RELOADED) == 0 {
                if Instant::now() > until {
                    bail!("carrick does not reload its configuration");
                }
                tokio::time::sleep(SETTLE_POLL).await;
            }
        }
        let before = Holdings::read(&self.testbed.proxy, true)?;
        if self.disturbs {
            let played = tokio::select! {
                played = self.torture(scenario, run) => played,
                never = disturb(carrick, scenario.seed) => match never {},
            };
            carrick.signal(Signal::CONT);
            played?;
        } else {
            self.torture(scenario, run).await?;
        }
        let lost_most = if scenario.network.loses_of_clients() {
            (run.tally.resets / RESETS_FOR_ONE_LOST).max(RESETS_LOST_MIN)
        } else {
            0
        };
        self.settle(carrick, &before, lost_most, run).await?;
        run.is_unforwarded = scenario.invites_packets() && run.forwarded_bytes == 0;
        Ok(())
    }

    /// Plays the scenario on its network; then a fresh client, on a good one.
    async fn torture(&self, scenario: &Scenario, run: &mut Run) -> Result<()> {
        let origins = self.testbed.addresses().server_subnet;
        let netem = match &scenario.network.wire {
            Wire::Emulated(legs) if self.netem => Some(self.testbed.start_netem(NetemPaths {
                to_client: &legs.client.away,
                from_client: &legs.client.towards,
                to_server: &legs.origin.away,
                from_server: &legs.origin.towards,
            })?),
            _ => None,
        };
        let wan = match scenario.network.emulation(CLIENTS, origins) {
            Some(spec) if !self.netem => Some(self.testbed.start_wan(&spec).await?),
            _ => None,
        };
        let played = self.play(scenario.clone()).await;
        if netem.is_some() || wan.is_some() {
            // What is under way there would be lost with it, and a reset is not sent again.
            tokio::time::sleep(UNDER_WAY).await;
        }
        drop(netem);
        if let Some(wan) = wan {
            let counts = wan.stop().await?;
            if counts.joined > 0 {
                bail!("{} packets came joined to the emulator", counts.joined);
            }
        }
        run.tally.add(&played?);

        let fresh = Scenario::plain(!scenario.seed, scenario.way, 1);
        let served = tokio::time::timeout(FRESH_LIMIT, self.play(fresh)).await;
        if !matches!(&served, Ok(Ok(tally)) if tally.whole == 1) {
            complain(
                run,
                &format!("afterwards, a fresh client was not served: {served:?}"),
            );
        }
        Ok(())
    }

    /// Waits until carrick has let everything go, and notes what it has forwarded. It may have up to `lost_most` connections
    /// whose client has reset them without its hearing of that.
    async fn settle(
        &self,
        carrick: &mut Service,
        before: &Holdings,
        lost_most: u64,
        run: &mut Run,
    ) -> Result<()> {
        let until = Instant::now() + SETTLE_TIMEOUT;
        loop {
            carrick.check()?;
            let mut now = Holdings::read(&self.testbed.proxy, true)?;
            let metrics = self.testbed.proxy.inside(engine_use::ask)?;
            if let (Some(now), Some(before)) = (now.carrick, before.carrick) {
                run.forwarded_bytes = now.kernel_bytes - before.kernel_bytes;
            }
            run.classified = gauge(&metrics, CLASSIFIED);
            let lost = gauge(&metrics, CLIENTS_OPEN).min(lost_most);
            now.sockets = now.sockets.saturating_sub(lost);
            let mut left = now.left_since(before);
            left.extend(MUST_BE_GONE.iter().filter_map(|name| {
                let excused = if *name == CLIENTS_OPEN { lost } else { 0 };
                let held = gauge(&metrics, name) - excused;
                (held > 0).then(|| format!("{name} is {held}"))
            }));
            if left.is_empty() {
                run.tally.resets_lost = lost;
                return Ok(());
            }
            if Instant::now() > until {
                complain(run, &format!("afterwards, {}", left.join(", ")));
                self.keep_state(run, &metrics);
                return Ok(());
            }
            tokio::time::sleep(SETTLE_POLL).await;
        }
    }

    /// Keeps what helps to find out why something is left.
    fn keep_state(&self, run: &Run, metrics: &str) {
        let Some(folder) = self.logs else { return };
        let mut text = String::new();
        for namespace in [
            &self.testbed.client,
            &self.testbed.proxy,
            &self.testbed.server,
        ] {
            let sockets = namespace.run("ss", &["-t", "-a", "-n", "-o", "-i"]);
            text.push_str(&format!(
                "{}:\n{}\n",
                namespace.name(),
                sockets.unwrap_or_default()
            ));
        }
        text.push_str(metrics);
        let name = format!("seed-{}-{}.state", run.seed, run.way.name());
        // It only helps; without it the complaint still stands.
        let _ = std::fs::write(folder.join(name), text);
    }

    fn start(&self, scenario: &Scenario, log: &Path) -> Result<Service> {
        let addresses = self.testbed.addresses();
        let (engine, forwarded, via, route) = match scenario.way {
            // As it is without a word.
            Way::Routed | Way::Auto => ("auto", "x-forwarded", "requests", ""),
            Way::Unread => ("packet", "unchanged", "requests", ""),
            Way::Bodies => ("packet", "unchanged", "both", "responses = \"read\""),
            Way::Classified => ("packet", "forwarded", "", "requests = \"kernel\""),
        };
        let text = render(
            TEMPLATE,
            &[
                ("engine", engine),
                ("forwarded", forwarded),
                ("via", via),
                ("route", route),
                ("workers", &scenario.workers.to_string()),
                ("splices", &scenario.splices.to_string()),
                ("idle_seconds", &IDLE_SECONDS.to_string()),
                ("proxy", &addresses.proxy.to_string()),
                ("origin", &addresses.origin_http().to_string()),
            ],
        )?;
        let configuration = self.testbed.directory().join("torture.toml");
        files::write(&configuration, text)?;
        let placement = self.testbed.placement();
        let mut command = self
            .testbed
            .proxy
            .command(self.carrick, &cores::list(&placement.proxy_cores()));
        command.args(["run", "-c"]).arg(&configuration);
        Service::start(
            "carrick",
            command,
            &self.testbed.proxy,
            log.to_owned(),
            true,
        )
    }

    /// Plays a scenario in a thread inside the clients' namespace. Dropping the future ends it.
    async fn play(&self, scenario: Scenario) -> Result<Tally> {
        let addresses = self.testbed.addresses();
        let origin = addresses.origin_http();
        let proxy = match scenario.way {
            Way::Routed => origin,
            _ => addresses.proxy_for(Job::Switch),
        };
        perform(self.testbed, origin, RUN_LIMIT, move |listener| {
            play(scenario, proxy, client_address, listener, PATIENCE)
        })
        .await
    }
}

fn complain(run: &mut Run, what: &str) {
    run.tally
        .complain(format!("seed {} {}: {what}", run.seed, run.way.name()));
}

/// The sum of a gauge over its labels, or of one that has these.
fn gauge(metrics: &str, name: &str) -> u64 {
    engine_use::sum(metrics, name, "").unwrap_or(0.0) as u64
}
