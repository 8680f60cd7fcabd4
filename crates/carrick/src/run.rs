//! `carrick run`: starts everything in order, follows signals, and ends cleanly.
//!
//! Order: configuration; what may need privileges (socket engine, admin address, listening sockets); giving up privileges;
//! log and threads. What can fail fails before a client is let in.
use crate::cache::Cache;
use crate::cache::disk::{Disk, open_files_max};
use crate::config;
use crate::config::plan::{Limits, Mode, PacePlan, Plan};
use crate::control::{Control, ControlHandle, ControlState, EngineStatus, Running, WorkerResolver};
use crate::control::{SignalOrder, Signals};
use crate::engines::{Engines, Told};
use crate::privileges::{self, GivenUp};
use crate::telemetry::access_log::LogThread;
use crate::telemetry::metrics::WorkerMetrics;
use crate::transparent::{self, Rules};
use crate::upstreams::UpstreamState;
use crate::worker::admission::Admission;
use crate::worker::live::Live;
use crate::worker::{self, Bound, Orders, WorkerParts};
use carrick_splice::probe::{Feature, probe_but_socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// Descriptors that are not for clients and upstreams: listeners, epoll, log, admin, pipes that are kept. Where there are few, it is half of them.
const DESCRIPTORS_RESERVED: u64 = 128;

/// How long the end waits for workers after a second signal.
const CUT_OFF_WAIT: Duration = worker::CUT_OFF_MAX.saturating_add(Duration::from_millis(500));

/// Why a run could not start or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration has errors.
    #[error("{0}")]
    Configuration(#[from] config::Rejected),
    /// The system refused something; the message says what and what to do.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// A running carrick, as its main thread sees it.
struct Program {
    source: Option<PathBuf>,
    state: Arc<ControlState>,
    control: ControlHandle,
    log: LogThread,
    admission: Arc<Admission>,
    orders: watch::Sender<Orders>,
    workers: Vec<JoinHandle<()>>,
    engines: Engines,
    told: Told,
    given_up: GivenUp,
    /// Of transparent listeners.
    rules: Option<Rules>,
}

/// What is opened with the privileges that carrick is started with.
struct Opened {
    descriptors: u64,
    engines: Engines,
    features: [Feature; 2],
    admin: Option<TcpListener>,
    listeners: Vec<Bound>,
    rules: Option<Rules>,
    given_up: GivenUp,
    disk: Option<Disk>,
}

impl Opened {
    /// Opens it, and gives up the privileges. No thread may run yet.
    fn open(plan: &Plan) -> io::Result<Self> {
        transparent::check_privileges(plan)?;
        let descriptors = raise_descriptor_limit();
        let mut engines = Engines::new()
            .map_err(|error| named(error, "cannot get memory for the classes of [pace]"))?;
        engines.pace(&plan.pace).map_err(io::Error::other)?;
        engines.adopt(plan);
        let features = engines.load(plan);
        engines.load_legs(plan);
        let admin = Control::bind(plan)?;
        let listeners = worker::bind_all(plan)?;
        let rules = Rules::install(plan)?;
        if let Some(rules) = &rules {
            engines.learned.set_line(rules.line());
        }
        engines.handshakes.attach(plan)?;
        let given_up = privileges::give_up(plan)?;
        // As who it will be used.
        let disk = open_disk(plan)?;
        Ok(Self {
            descriptors,
            engines,
            features,
            admin,
            listeners,
            rules,
            given_up,
            disk,
        })
    }
}

fn named(error: io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn open_disk(plan: &Plan) -> io::Result<Option<Disk>> {
    let disk = plan.cache.as_ref().and_then(|cache| cache.disk.as_ref());
    disk.map(|plan| {
        Disk::open(plan).map_err(|why| io::Error::other(format!("`disk` of [cache]: {why}")))
    })
    .transpose()
}

/// Runs until a signal ends it.
///
/// # Errors
/// See [`RunError`]; nothing is left running.
pub fn run(source: Option<PathBuf>) -> Result<(), RunError> {
    let loaded = config::load(source.as_deref()).map_err(RunError::Configuration)?;
    warn_of(&loaded.problems);
    let plan = Arc::new(loaded.plan);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Before anything else, so that no signal finds the program without an answer.
        let mut signals = Signals::catch()?;
        let mut program = Program::start(source, plan)?;
        program.serve(&mut signals).await;
        program.end(&mut signals).await;
        Ok(())
    })
}

impl Program {
    fn start(source: Option<PathBuf>, plan: Arc<Plan>) -> Result<Self, RunError> {
        let Opened {
            descriptors,
            engines,
            features: kernel_features,
            admin,
            listeners,
            rules,
            given_up,
            disk,
        } = Opened::open(&plan)?;
        // From here on everything is as it will be at a reload.
        engines.start_waking();
        engines.warn_of_foreign_programs();
        engines.tell_obstacle(&plan);
        engines.warn_of_pins();
        let mut told = Told::default();
        told.tell(&plan, &kernel_features, "");
        if given_up.is_something() {
            tell_reload_trouble(source.as_deref(), &given_up);
        }
        let mut features = probe_but_socket();
        features.splice(2..2, kernel_features);
        let upstreams = UpstreamState::for_plan(&plan.upstreams, &[]);
        let metrics: Vec<Arc<WorkerMetrics>> = (0..plan.workers).map(|_| Arc::default()).collect();
        let running = Running {
            plan: Arc::clone(&plan),
            upstreams: upstreams.clone(),
        };
        let (log, sender) = LogThread::start(&plan.log, plan.limits.log_queue)?;
        let statuses = features.iter().map(engine_status).collect();
        let disk = disk.map(Arc::new);
        if let Some(disk) = &disk {
            disk.start()?;
        }
        let cache = (plan.cache.as_ref()).map(|plan| Arc::new(Cache::new(plan, disk)));
        let state = Arc::new(ControlState::new(
            running,
            cache.clone(),
            metrics.clone(),
            statuses,
            given_up.standing.clone(),
            engines.clone(),
            log.state(),
        ));
        let control = Control::start(Arc::clone(&state), admin)?;
        let banner = banner(&plan, &features, listeners.first(), &given_up);
        let admission = Arc::new(Admission::default());
        set_limits(&admission, &plan, descriptors);
        let live = Arc::new(Live {
            generation: 0,
            judged_by: engines.install_routes(&plan),
            plan: Arc::clone(&plan),
            upstreams,
        });
        let (orders, receiver) = watch::channel(Orders {
            live,
            draining: false,
            cut_off: false,
        });
        let mut workers = Vec::new();
        let (started, starts) = mpsc::channel();
        for (number, (listeners, metrics)) in listeners.into_iter().zip(metrics).enumerate() {
            let parts = WorkerParts {
                number,
                listeners,
                orders: receiver.clone(),
                log: sender.worker(Arc::clone(&metrics)),
                resolver: WorkerResolver::new(
                    control.resolver(),
                    plan.limits.dns_cache,
                    Arc::clone(&metrics),
                ),
                metrics,
                admission: Arc::clone(&admission),
                engines: engines.clone(),
                cache: cache.clone(),
            };
            workers.push(start_worker(parts, started.clone())?);
        }
        drop(started);
        for _ in &workers {
            // Each says how it began; a thread that ends without a word has panicked.
            starts
                .recv()
                .unwrap_or_else(|_| Err(io::Error::other("a worker did not start")))?;
        }
        // The banner is for people; where nobody reads it, nothing is lost.
        let _ = io::stderr().write_all(banner.as_bytes());
        Ok(Self {
            source,
            state,
            control,
            log,
            admission,
            orders,
            workers,
            engines,
            told,
            given_up,
            rules,
        })
    }

    /// Obeys signals until one asks for the end.
    async fn serve(&mut self, signals: &mut Signals) {
        loop {
            match signals.next().await {
                SignalOrder::Drain => return,
                SignalOrder::ReopenLogs => self.log.reopen(),
                SignalOrder::Reload => {
                    let result = self.reload();
                    match &result {
                        Ok(()) => tracing::info!("configuration reloaded"),
                        Err(why) => tracing::error!("the configuration stays as it was: {why}"),
                    }
                    self.state.reloaded(result);
                }
            }
        }
    }

    fn reload(&mut self) -> Result<(), String> {
        let loaded =
            config::load(self.source.as_deref()).map_err(|problems| problems.to_string())?;
        warn_of(&loaded.problems);
        let before = self.orders.borrow().live.clone();
        let mut plan = loaded.plan;
        if plan.workers != before.plan.workers {
            tracing::warn!(
                "[workers] count changes only with a restart; {} go on",
                before.plan.workers
            );
            plan.workers = before.plan.workers;
        }
        let at_start = |limits: &Limits| (limits.pipes, limits.splices, limits.dns_cache);
        if at_start(&plan.limits) != at_start(&before.plan.limits) {
            tracing::warn!(
                "[limits] pipes, splices and dns_cache reach the workers only with a restart"
            );
        }
        let process = |plan: &Plan| (plan.account.clone(), plan.pins.clone(), plan.packet);
        if process(&plan) != process(&before.plan) {
            tracing::warn!(
                "[process] changes only with a restart; carrick goes on as {}",
                self.given_up.standing
            );
            plan.account.clone_from(&before.plan.account);
            plan.pins.clone_from(&before.plan.pins);
            plan.packet = before.plan.packet;
        }
        if plan.keep_store(&before.plan) {
            tracing::warn!(
                "[cache] memory, objects, object_max and disk, and whether there is a cache, change only with a restart"
            );
        }
        transparent::check_reload(&before.plan, &plan)?;
        // A new address that cannot be bound must not cost the ones that work.
        for listener in &plan.listeners {
            if !before
                .plan
                .listeners
                .iter()
                .any(|known| known.address == listener.address)
            {
                worker::bind(listener).map_err(|error| self.given_up.explain(&error))?;
            }
        }
        // The workers share it: from now on it is there for them, if it can be had.
        let features = self.engines.load(&plan);
        let advice = if self.given_up.has_engine() {
            "; carrick gave up the privileges for it when it started, and gets them back by a restart"
        } else {
            ""
        };
        self.told.tell(&plan, &features, advice);
        self.engines.warn_of_legs(&plan);
        let plan = Arc::new(plan);
        let upstreams = UpstreamState::for_plan(&plan.upstreams, &before.upstreams);
        let running = Running {
            plan: Arc::clone(&plan),
            upstreams: upstreams.clone(),
        };
        // Last comes what cannot fail, so that a failure leaves everything as it was.
        let log = LogThread::prepare(&plan.log, plan.limits.log_queue)
            .map_err(|error| self.given_up.explain(&error))?;
        let (classes, interval) = self.engines.pacing.settings();
        self.engines
            .pace(&plan.pace)
            .map_err(|error| format!("[pace]: {error}"))?;
        if let Err(error) = self.control.apply(running) {
            // There was room for them a moment ago.
            let _ = self.engines.pace(&PacePlan { interval, classes });
            return Err(self.given_up.explain(&error));
        }
        for feature in &features {
            self.state.set_engine(engine_status(feature));
        }
        self.log.change(log);
        set_limits(&self.admission, &plan, descriptor_limit());
        if let Some(cache) = &self.state.cache {
            cache.follow(plan.cache.as_ref());
        }
        let generation = before.generation + 1;
        let live = Arc::new(Live {
            generation,
            judged_by: self.engines.install_routes(&plan),
            plan,
            upstreams,
        });
        self.orders.send_modify(|orders| orders.live = live);
        Ok(())
    }

    /// Drains the workers; a second signal ends at once.
    async fn end(mut self, signals: &mut Signals) {
        tracing::info!("draining: finishing what is under way");
        self.state.set_draining();
        self.orders.send_modify(|orders| orders.draining = true);
        let workers = std::mem::take(&mut self.workers);
        let (done, finished) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            for worker in workers {
                if worker.join().is_err() {
                    tracing::error!("a worker has panicked");
                }
            }
            let _ = done.send(());
        });
        tokio::pin!(finished);
        loop {
            tokio::select! {
                _ = &mut finished => break,
                order = signals.next() => match order {
                    SignalOrder::Drain => {
                        tracing::warn!("second signal: ending at once");
                        self.orders.send_modify(|orders| orders.cut_off = true);
                        let _ = tokio::time::timeout(CUT_OFF_WAIT, &mut finished).await;
                        break;
                    }
                    SignalOrder::ReopenLogs => self.log.reopen(),
                    SignalOrder::Reload => tracing::warn!("draining: the configuration is not read again"),
                },
            }
        }
        // Connections that stand need the rules to their end.
        drop(self.rules.take());
        let cache = self.state.cache.as_ref();
        if let Some(disk) = cache.and_then(|cache| cache.store.disk()) {
            disk.end();
        }
        self.control.shutdown();
        self.engines.leave();
        self.log.stop();
        tracing::info!("ended");
    }
}

/// Says, while somebody looks, that a reload would fail for want of what was given up: a file that only root may read, say.
fn tell_reload_trouble(source: Option<&Path>, given_up: &GivenUp) {
    if let Err(rejected) = config::load(source) {
        tracing::warn!(
            "carrick goes on as {}, and could not read its configuration again: a reload will fail with this: {rejected}",
            given_up.standing
        );
    }
}

fn warn_of(problems: &[config::problem::Problem]) {
    for problem in problems {
        tracing::warn!("{problem}");
    }
}

/// Starts a worker's thread, which says by `started` whether it could begin.
fn start_worker(
    parts: WorkerParts,
    started: mpsc::Sender<io::Result<()>>,
) -> io::Result<JoinHandle<()>> {
    let number = parts.number;
    std::thread::Builder::new()
        .name(format!("worker-{number}"))
        .spawn(move || {
            // Nobody listens any more only if another worker has failed.
            let begun = || {
                let _ = started.send(Ok(()));
            };
            if let Err(error) = worker::run(parts, begun) {
                let text = format!("worker {number} cannot run: {error}");
                let _ = started.send(Err(io::Error::new(error.kind(), text)));
            }
        })
}

/// Raises the soft limit on descriptors to the hard limit; the limit then in force.
fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum {
        // A failure leaves the lower limit, which is what is then read.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        );
    }
    descriptor_limit()
}

fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Sets the limits on clients. An idle client costs one descriptor, a busy one two; when they run out, accepting waits.
fn set_limits(admission: &Admission, plan: &Plan, descriptors: u64) {
    let asked = plan.limits.connections;
    let has_disk = (plan.cache.as_ref()).is_some_and(|cache| cache.disk.is_some());
    let files = if has_disk { open_files_max() } else { 0 };
    let reserved = (DESCRIPTORS_RESERVED + files).min(descriptors / 2);
    let possible = usize::try_from(descriptors - reserved).unwrap_or(usize::MAX);
    if asked > possible {
        tracing::info!(
            "[limits] connections = {asked}, but {descriptors} descriptors a process allow {possible} clients, half of that when each has an upstream connection; raise the limit (`LimitNOFILE=`, `ulimit -n`)"
        );
    }
    admission.set_limits(asked.min(possible), plan.limits.connections_per_client);
}

fn engine_status(feature: &Feature) -> EngineStatus {
    EngineStatus {
        name: feature.name,
        usable: feature.usable.is_ok(),
        reason: match &feature.usable {
            Ok(detail) => detail.clone(),
            Err(because) => because.clone(),
        },
    }
}

/// What is listened on, who it is, which engines are usable, and what to try.
fn banner(plan: &Plan, features: &[Feature], bound: Option<&Bound>, given_up: &GivenUp) -> String {
    let mut text = format!("carrick {} is ready\n", env!("CARGO_PKG_VERSION"));
    for line in config::summary::lines(plan) {
        text += &format!("  {line}\n");
    }
    for (asked, socket) in bound
        .into_iter()
        .flatten()
        .filter(|(asked, _)| asked.port() == 0)
    {
        if let Ok(address) = socket.local_addr() {
            text += &format!("  {asked} is {address}\n");
        }
    }
    text += &format!("  runs as {}\n", given_up.standing);
    text += "engines\n";
    for feature in features {
        text += &match &feature.usable {
            Ok(detail) => format!("  {:<18} usable: {detail}\n", feature.name),
            Err(because) => format!("  {:<18} not usable: {because}\n", feature.name),
        };
    }
    text += "try\n";
    for command in commands_to_try(plan) {
        text += &format!("  {command}\n");
    }
    text
}

fn commands_to_try(plan: &Plan) -> Vec<String> {
    let mut commands = Vec::new();
    if let Some(forward) = plan
        .listeners
        .iter()
        // Nobody is to connect to a transparent one.
        .filter(|listener| listener.interception.is_none())
        .find(|listener| matches!(listener.mode, Mode::Forward(_)))
    {
        let proxy = reachable(forward.address);
        commands.push(format!("curl -x http://{proxy} http://example.org/"));
        commands.push(format!("curl -x http://{proxy} https://example.org/"));
    } else if let Some(switch) = plan
        .listeners
        .iter()
        .filter(|listener| listener.interception.is_none())
        .find(|listener| matches!(listener.mode, Mode::Switch(_)))
    {
        commands.push(format!("curl -i http://{}/", reachable(switch.address)));
    }
    if let Some(admin) = plan.admin {
        commands.push(format!("curl http://{}/status", reachable(admin)));
    }
    commands.push("carrick doctor".to_owned());
    commands.truncate(3);
    commands
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    address
}
