//! The run: each relay with each case, a fresh process each time, in namespaces of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::content::mix;
use crate::peers::{Family, Job, Peer, Programs};
use crate::testbed::namespace::Namespace;
use crate::testbed::netem::NetemPaths;
use crate::testbed::service::Service;
use crate::testbed::{Layout, Testbed, TestbedPlan};
use crate::torture::cases::{Case, Scale, play, warm_up};
use crate::torture::stage::Stage;
use crate::torture::tally::Tally;
use crate::torture::watch::{Holdings, PeakWatch};
use crate::wan::spec::{Path as WanPath, Rule, WanSpec};

/// For a relay to come up.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// Longer than a relay may stay silent when it has something to pass on.
const PATIENCE: Duration = Duration::from_secs(60);
/// For a relay to let go of what belongs to connections that have ended.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks whether it has.
const SETTLE_POLL: Duration = Duration::from_millis(100);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// Loss of packets on each leg, in percent: smoke, and in full.
const LOSSES_SMOKE: &[u32] = &[3];
const LOSSES_FULL: &[u32] = &[1, 3, 5];
/// Beside the loss: packets that overtake others, and that come twice.
const REORDER: f64 = 0.02;
const DUPLICATE: f64 = 0.01;
/// One way through the router.
const DELAY_MS: f64 = 1.0;

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The relays, in the order of the report.
    pub relays: Vec<Peer>,
    /// The cases.
    pub cases: Vec<Case>,
    /// How much of each.
    pub scale: Scale,
    /// For everything that is left to chance.
    pub seed: u64,
    /// How many connections [`Case::Many`] holds at one time.
    pub connections: u64,
    /// Whether packets are lost by the kernel's netem instead of the laboratory's emulator.
    pub netem: bool,
    /// carrick's program.
    pub carrick: PathBuf,
    /// Configurations instead of the built-in ones.
    pub configurations: Option<PathBuf>,
}

/// All results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The seed of the run.
    pub seed: u64,
    /// How much was played.
    pub scale: Scale,
    /// What the programs say of their versions, and the kernel.
    pub versions: BTreeMap<String, String>,
    /// A row for each relay and case.
    pub rows: Vec<Row>,
}

/// One case with one relay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The relay's name.
    pub relay: String,
    /// Whether it is carrick.
    pub is_carrick: bool,
    /// The case.
    pub case: Case,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was played.
    Played(Box<Played>),
    /// It was not, for this reason.
    Skipped(String),
    /// The relay, or the suite, failed as a whole.
    Failed(String),
}

/// Counts and readings of a case that was played.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Played {
    /// What happened to the bytes.
    pub tally: Tally,
    /// Before, when a few connections had been made and ended; none without a relay.
    pub start: Option<Holdings>,
    /// The most of its memory while the case was played; other fields are nothing.
    pub peak: Holdings,
    /// When all connections have ended, or `SETTLE_TIMEOUT` later.
    pub end: Option<Holdings>,
    /// How long it took.
    pub seconds: f64,
}

impl Played {
    /// Of carrick: which share of the bytes its engine `socket` moved. None of other relays.
    #[must_use]
    pub fn kernel_share(&self) -> Option<f64> {
        let (start, end) = (self.start?.carrick?, self.end?.carrick?);
        let by_kernel = end.kernel_bytes - start.kernel_bytes;
        let others = end.other_engines_bytes - start.other_engines_bytes;
        (by_kernel + others > 0).then(|| by_kernel as f64 / (by_kernel + others) as f64)
    }

    /// What must not have happened, in words.
    #[must_use]
    pub fn harms(&self) -> Vec<String> {
        let mut harms = self.tally.harms();
        if let (Some(start), Some(end)) = (&self.start, &self.end) {
            harms.extend(end.left_since(start));
        }
        harms
    }
}

impl Row {
    /// Whether this is a fault of carrick's, or of the suite with it. What its peers do is shown, not judged.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        self.is_carrick
            && match &self.outcome {
                Outcome::Played(played) => !played.harms().is_empty(),
                Outcome::Failed(_) => true,
                Outcome::Skipped(_) => false,
            }
    }
}

/// Runs everything; `tell` hears of each row as soon as it is there.
///
/// # Errors
/// When the test bed cannot be built, or there is no carrick though it is wanted. What happens to a relay is in its row.
pub async fn run(plan: &Plan, mut tell: impl FnMut(&Row)) -> Result<Results> {
    let mut others: Vec<Family> = plan.relays.iter().map(|relay| relay.family).collect();
    others.retain(|family| !matches!(family, Family::Routed | Family::Carrick));
    let (programs, missing) =
        Programs::find(&others, Some(&plan.carrick), plan.configurations.as_deref())?;
    let mut rows = Vec::new();
    let (bad_network, good_network): (Vec<Case>, Vec<Case>) =
        plan.cases.iter().partition(|case| **case == Case::Loss);
    for (cases, layout) in [
        (good_network, Layout::Direct),
        (bad_network, Layout::Routed),
    ] {
        if cases.is_empty() {
            continue;
        }
        let testbed = Testbed::build(&TestbedPlan {
            layout,
            // Packets are to be lost one by one.
            offloads: layout == Layout::Direct,
            ..TestbedPlan::default()
        })?;
        let bench = Bench {
            plan,
            programs: &programs,
            testbed: &testbed,
        };
        for relay in &plan.relays {
            for case in &cases {
                let why_not = missing
                    .get(&relay.family)
                    .cloned()
                    .or_else(|| why_not(relay, *case, &programs));
                let outcome = match why_not {
                    Some(reason) => Outcome::Skipped(reason),
                    None => match bench.case(relay, *case).await {
                        Ok(played) => Outcome::Played(Box::new(played)),
                        Err(error) => Outcome::Failed(format!("{error:#}")),
                    },
                };
                let row = Row {
                    relay: relay.name.to_owned(),
                    is_carrick: relay.family == Family::Carrick,
                    case: *case,
                    outcome,
                };
                tell(&row);
                rows.push(row);
            }
        }
    }
    let mut versions = programs.versions();
    // The benchmark's tool.
    versions.remove("wrk");
    versions.insert(
        String::from("Linux"),
        rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
    );
    // Case by case, as they were asked for.
    rows.sort_by_key(|row| plan.cases.iter().position(|case| *case == row.case));
    Ok(Results {
        seed: plan.seed,
        scale: plan.scale,
        versions,
        rows,
    })
}

fn why_not(relay: &Peer, case: Case, programs: &Programs) -> Option<String> {
    if relay.family == Family::Socat && case == Case::Many {
        return Some(String::from("it starts a process for each connection"));
    }
    if job_of(relay) == Job::Gateway && case == Case::Loss {
        return Some(String::from("the network that loses packets leads past it"));
    }
    programs.why_not(relay, job_of(relay))
}

/// Clients connect to it, or it intercepts what they send to the server.
fn job_of(relay: &Peer) -> Job {
    if relay.jobs.contains(&Job::Tunnel) {
        Job::Tunnel
    } else {
        Job::Gateway
    }
}

/// A test bed, and what is put into it.
struct Bench<'a> {
    plan: &'a Plan,
    programs: &'a Programs,
    testbed: &'a Testbed,
}

impl Bench<'_> {
    /// Plays a case with a fresh relay: once, or once for each rate of loss.
    async fn case(&self, relay: &Peer, case: Case) -> Result<Played> {
        if case != Case::Loss {
            return self.play(relay, case, 0).await;
        }
        let mut all = Played::default();
        for percent in self.plan.scale.of(LOSSES_SMOKE, LOSSES_FULL) {
            let path = lossy_path(*percent);
            let (played, lost) = if self.plan.netem {
                let netem = self.testbed.start_netem(NetemPaths {
                    to_client: &path,
                    from_client: &path,
                    to_server: &path,
                    from_server: &path,
                })?;
                let played = self.play(relay, case, u64::from(*percent)).await;
                (played, netem.lost()?)
            } else {
                let wan = self
                    .testbed
                    .start_wan(&bad_network(self.plan.seed, path))
                    .await?;
                let played = self.play(relay, case, u64::from(*percent)).await;
                let counts = wan.stop().await?;
                (
                    played,
                    counts.rules.iter().map(|rule| rule.lost_first).sum(),
                )
            };
            if lost == 0 {
                bail!("the emulated network lost no packet at {percent} %");
            }
            let played = played.with_context(|| format!("at {percent} % loss"))?;
            all.tally.add(played.tally);
            all.peak.rss_bytes = all.peak.rss_bytes.max(played.peak.rss_bytes);
            all.peak.socket_bytes = all.peak.socket_bytes.max(played.peak.socket_bytes);
            // The first rate at which something was left stands for all.
            if (all.start.zip(all.end)).is_none_or(|(start, end)| end.is_back_to(&start)) {
                (all.start, all.end) = (played.start, played.end);
            }
            all.seconds += played.seconds;
        }
        Ok(all)
    }

    async fn play(&self, relay: &Peer, case: Case, variant: u64) -> Result<Played> {
        let addresses = self.testbed.addresses();
        let server = addresses.origin_echo();
        let job = job_of(relay);
        let mut service = relay.start(job, &server.to_string(), self.testbed, self.programs)?;
        if let Some(service) = &mut service {
            relay.wait_until_ready(job, service, START_TIMEOUT).await?;
        }
        let act = Act {
            relay: match service {
                Some(_) if job == Job::Tunnel => addresses.proxy_for(job),
                _ => server,
            },
            server,
            testbed: self.testbed,
            processes: service.is_some().then(|| self.testbed.proxy.clone()),
            scale: self.plan.scale,
            // Each case has chances of its own, the same for each relay.
            seed: mix(mix(self.plan.seed) ^ (variant << 8) ^ case as u64),
            connections: self.plan.connections,
        };
        let played = self.watched(relay, case, service.as_mut(), &act).await;
        // A relay that has died explains more than what became of its connections.
        let checked = service.as_mut().map_or(Ok(()), Service::check);
        if let Some(service) = service {
            // How it ends is not looked at here.
            service.kill().await;
        }
        checked.and(played)
    }

    async fn watched(
        &self,
        relay: &Peer,
        case: Case,
        mut service: Option<&mut Service>,
        act: &Act<'_>,
    ) -> Result<Played> {
        let is_carrick = relay.family == Family::Carrick;
        let holdings = || Holdings::read(&self.testbed.proxy, is_carrick);
        let mut start = None;
        if let Some(service) = &mut service {
            // What is made with the first connections and kept is not what is looked for.
            act.perform(None).await?;
            service.check()?;
            start = Some(settled(holdings).await?);
        }
        let began = Instant::now();
        let peaks = PeakWatch::start(self.testbed.proxy.clone())?;
        let tally = act.perform(Some(case)).await?;
        let peak = peaks.stop();
        let seconds = began.elapsed().as_secs_f64();
        let mut end = None;
        if let (Some(service), Some(start)) = (&mut service, &start) {
            let until = Instant::now() + SETTLE_TIMEOUT;
            loop {
                service.check()?;
                let now = holdings()?;
                let is_back = now.is_back_to(start);
                end = Some(now);
                if is_back || Instant::now() > until {
                    break;
                }
                tokio::time::sleep(SETTLE_POLL).await;
            }
        }
        Ok(Played {
            tally,
            start,
            peak: if service.is_some() {
                peak
            } else {
                Holdings::default()
            },
            end,
            seconds,
        })
    }
}

/// Reads until two readings in a row have the same descriptors and entries: a relay may still be making what it makes once,
/// and have connections that are closing.
async fn settled(holdings: impl Fn() -> Result<Holdings>) -> Result<Holdings> {
    let counted = |holdings: &Holdings| Holdings {
        rss_bytes: 0,
        socket_bytes: 0,
        ..*holdings
    };
    let until = Instant::now() + SETTLE_TIMEOUT;
    let mut before = holdings()?;
    loop {
        tokio::time::sleep(SETTLE_POLL * 2).await;
        let now = holdings()?;
        if counted(&now) == counted(&before) || Instant::now() > until {
            return Ok(now);
        }
        before = now;
    }
}

/// One case, ready to be played.
#[derive(Clone)]
struct Act<'a> {
    testbed: &'a Testbed,
    relay: SocketAddr,
    server: SocketAddr,
    processes: Option<Namespace>,
    scale: Scale,
    seed: u64,
    connections: u64,
}

impl Act<'_> {
    /// Plays the case, or warms the relay up. Dropping the future ends it.
    async fn perform(&self, case: Option<Case>) -> Result<Tally> {
        let Self {
            testbed,
            relay,
            server,
            processes,
            scale,
            seed,
            connections,
        } = self.clone();
        let limit = scale.of(Duration::from_secs(400), Duration::from_secs(900));
        perform(testbed, server, limit, move |listener| async move {
            let stage = Rc::new(Stage::new(relay, listener, processes, seed, PATIENCE)?);
            match case {
                Some(case) => play(case, &stage, scale, connections).await,
                None => warm_up(&stage).await,
            }
            let stage = Rc::into_inner(stage).context("the stage is still in use")?;
            Ok(stage.finish())
        })
        .await
    }
}

/// Plays in a thread inside the clients' namespace, within `limit`, with a listener at `server` in the servers' namespace.
/// Dropping the future ends it.
pub(crate) async fn perform<T, P>(
    testbed: &Testbed,
    server: SocketAddr,
    limit: Duration,
    play: impl FnOnce(std::net::TcpListener) -> P + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    P: Future<Output = Result<T>>,
{
    let (client, servers) = (testbed.client.clone(), testbed.server.clone());
    let (alive, stopped) = oneshot::channel::<()>();
    let in_namespace = move || {
        let listener = servers.inside(|| listen(server))?;
        let runtime = crate::program::runtime()?;
        LocalSet::new().block_on(&runtime, async {
            tokio::select! {
                played = play(listener) => played,
                () = tokio::time::sleep(limit) => bail!("it did not end within {} s", limit.as_secs()),
                _ = stopped => bail!("it was stopped"),
            }
        })
    };
    let played = tokio::task::spawn_blocking(move || client.inside(in_namespace)).await;
    drop(alive);
    played.context("the play failed")?
}

fn listen(address: SocketAddr) -> Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)
        .context("cannot create a socket")?;
    socket
        .set_reuse_address(true)
        .context("cannot set SO_REUSEADDR")?;
    socket
        .bind(&address.into())
        .with_context(|| format!("cannot bind {address}"))?;
    socket.listen(BACKLOG).context("cannot listen")?;
    Ok(socket.into())
}

/// Every packet of every leg goes through it.
fn bad_network(seed: u64, path: WanPath) -> WanSpec {
    let rule = Rule {
        path,
        ..Rule::default()
    };
    WanSpec {
        seed,
        rules: vec![rule],
    }
}

fn lossy_path(percent: u32) -> WanPath {
    WanPath {
        delay_ms: DELAY_MS,
        loss: f64::from(percent) / 100.0,
        reorder: REORDER,
        duplicate: DUPLICATE,
        ..WanPath::default()
    }
}
