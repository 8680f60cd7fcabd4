//! `carrick run`: starts everything in order, follows signals, and ends cleanly.
//!
//! Order: configuration; what another carrick may have; whatever may need privileges (admin address, listening sockets,
//! rules); a thread that loads the kernel engines; dropping privileges; log and threads. Everything that can fail is done
//! before a client is accepted, except the engines, which load meanwhile.
mod banner;
mod certificates;
mod descriptors;
mod loading;
mod open;
mod reserved;
pub mod worker;

use crate::accept::listen;
use crate::cache::Cache;
use crate::config;
use crate::config::plan::{Limits, PacePlan, Plan, Sandbox};
use crate::config::problem::{Problem, Severity};
use crate::config::site::Source;
use crate::context::followers::Followers;
use crate::context::live::{Live, Orders};
use crate::control::acme;
use crate::control::{Control, ControlHandle, ControlState, EngineStatus, Running};
use crate::control::{NotReloaded, SignalOrder, Signals};
use crate::engines::{Engines, Features, LoggedReasons, RouteTables};
use crate::net::admission::Admission;
use crate::privileges::{GivenUp, OUT_OF_REACH, sandbox::Sandboxed};
use crate::resolver::WorkerResolver;
use crate::run::worker::WorkerParts;
use crate::service::{ServiceManager, Watch};
use crate::telemetry::access_log::LogThread;
use crate::telemetry::messages;
use crate::telemetry::metrics::{Liveness, WorkerMetrics};
use crate::transparent::{self, Rules};
use crate::upstream::state::UpstreamState;
use carrick_splice::probe::{Feature, probe_but_socket};
use certificates::Certificates;
use descriptors::{descriptor_limit, fit_pipes, raise_descriptor_limit, set_limits};
use loading::Loading;
use open::Opened;
use reserved::Reserved;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// How long shutdown waits for the workers after a second signal.
const CUT_OFF_WAIT: Duration = worker::CUT_OFF_MAX.saturating_add(Duration::from_millis(500));

/// How long shutdown waits for peers to acknowledge the end of connections that the kernel forwarded: enough for one or two
/// retransmissions.
const ENDS_WAIT: Duration = Duration::from_secs(2);

/// How long a reload waits for workers to apply it. A slower worker applies it later.
const FOLLOW_MAX: Duration = Duration::from_secs(10);

/// How often the service manager's status shows the progress of a drain.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Why the process could not start, or failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration has errors.
    #[error("{0}")]
    Configuration(#[from] config::Rejected),
    /// A system call failed; the message says what to do.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// A running carrick, as seen by its main thread.
struct Program {
    source: Source,
    state: Arc<ControlState>,
    control: ControlHandle,
    log: LogThread,
    admission: Arc<Admission>,
    orders: watch::Sender<Orders>,
    workers: Vec<JoinHandle<()>>,
    engines: Engines,
    /// `Some` until the kernel engines are loaded or have failed to load.
    loading: Option<Loading>,
    /// The banner, without the engines.
    banner: banner::Banner,
    logged_reasons: LoggedReasons,
    given_up: GivenUp,
    /// Rules of transparent listeners.
    rules: Option<Rules>,
}

/// Runs until a signal ends it.
///
/// # Errors
/// See [`RunError`]; everything is stopped by then.
pub fn run(source: Source) -> Result<(), RunError> {
    let loaded = source.load().map_err(RunError::Configuration)?;
    log_problems(&loaded.problems);
    let mut plan = loaded.plan;
    fit_pipes(&mut plan, raise_descriptor_limit());
    let plan = Arc::new(plan);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let manager = ServiceManager::of_environment();
    runtime.block_on(async {
        // First, so that no signal takes its default action.
        let mut signals = Signals::catch()?;
        let tell = |error: &RunError| manager.status(&format!("Not started: {error}"));
        let reserved = tokio::select! {
            biased;
            reserved = Reserved::take(&plan, &manager) => reserved.map_err(RunError::from),
            () = signals.told_to_end() => return Ok(()),
        };
        let mut program = reserved
            .and_then(|reserved| Program::start(source, plan, reserved))
            .inspect_err(tell)?;
        let mut watch = manager.watch(program.threads());
        program.serve(&mut signals, &manager, &mut watch).await;
        program.end(&mut signals, &manager, &mut watch).await;
        Ok(())
    })
}

impl Program {
    fn start(source: Source, plan: Arc<Plan>, reserved: Reserved) -> Result<Self, RunError> {
        let Opened {
            descriptors,
            engines,
            loading,
            admin,
            listeners,
            rules,
            given_up,
            disk,
        } = Opened::open(&plan, source.file(), reserved)?;
        // From here on, what also happens at a reload.
        tell_of_sandbox(&plan, &given_up.identity.sandbox);
        if given_up.is_something() || given_up.identity.sandbox.files.in_force {
            tell_reload_trouble(&source, &given_up);
        }
        let mut features = probe_but_socket();
        features.splice(2..2, Engines::not_loaded("still loading"));
        let upstreams = UpstreamState::for_plan(&plan.upstreams, &[]);
        let metrics: Vec<Arc<WorkerMetrics>> = (0..plan.workers).map(|_| Arc::default()).collect();
        let running = Running {
            plan: Arc::clone(&plan),
            upstreams: upstreams.clone(),
        };
        let (log, sender) = LogThread::start(&plan.log, plan.limits.log_queue)?;
        features.extend(engines.others(&plan));
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
            given_up.identity.clone(),
            engines.clone(),
            log.state(),
        ));
        let control = Control::start(Arc::clone(&state), admin)?;
        let banner = banner::Banner::new(&plan, listeners.first(), &given_up);
        let admission = Arc::new(Admission::default());
        set_limits(&admission, &plan, descriptors);
        let live = Arc::new(Live {
            generation: 0,
            route_tables: RouteTables::new(),
            followers: Followers::new(0),
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
            // Each worker reports how it started; a thread that ends without a report has panicked.
            starts.recv().unwrap_or_else(|_| {
                Err(io::Error::other(
                    "a worker thread panicked at start; please report it",
                ))
            })?;
        }
        Ok(Self {
            source,
            state,
            control,
            log,
            admission,
            orders,
            workers,
            engines,
            loading: Some(loading),
            banner,
            logged_reasons: LoggedReasons::default(),
            given_up,
            rules,
        })
    }

    /// Waits for the engines if they are still loading, then makes them available to clients.
    async fn finish_loading(&mut self, manager: &ServiceManager, watch: &mut Watch) {
        if let Some(loading) = &mut self.loading {
            let features = loading.features().await;
            self.take_engines(&features, manager, watch).await;
        }
    }

    /// The engines are loaded or have failed to load: logs which, once all workers know.
    async fn take_engines(
        &mut self,
        features: &Features,
        manager: &ServiceManager,
        watch: &mut Watch,
    ) {
        self.loading = None;
        let before = Arc::clone(&self.orders.borrow().live);
        let plan = &before.plan;
        self.engines.start_notifier();
        self.engines.warn_of_foreign_programs();
        self.engines.tell_obstacle(plan);
        self.engines.warn_of_pins();
        self.logged_reasons.tell(plan, features, "");
        for feature in features {
            self.state.set_engine(engine_status(feature));
        }
        if self.engines.packet.is_loaded() {
            let live = Arc::new(Live {
                generation: before.generation + 1,
                plan: Arc::clone(plan),
                upstreams: before.upstreams.clone(),
                route_tables: self.engines.install_routes(plan),
                followers: Followers::new(plan.workers),
            });
            self.orders.send_modify(|orders| orders.live = live);
            if let Err(why) = self.followed(manager, watch).await {
                tracing::warn!("some workers do not use the engines yet: {why}");
            }
        }
        messages::tell(&self.banner.text(&self.state.engines.load()));
    }

    /// The threads that the watchdog checks.
    fn threads(&self) -> Vec<(String, Arc<Liveness>)> {
        let workers = (0..).zip(&self.state.workers);
        let workers =
            workers.map(|(number, metrics)| (format!("worker {number}"), &metrics.liveness));
        let control = (
            "the control thread".to_owned(),
            &self.state.metrics.liveness,
        );
        let all = workers.chain([control]);
        all.map(|(name, liveness)| (name, Arc::clone(liveness)))
            .collect()
    }

    /// Handles signals until one asks to shut down.
    async fn serve(&mut self, signals: &mut Signals, manager: &ServiceManager, watch: &mut Watch) {
        manager.ready("Serving");
        let mut certificates = Certificates::new();
        loop {
            let order = tokio::select! {
                order = signals.next() => order,
                features = loaded(&mut self.loading) => {
                    self.take_engines(&features, manager, watch).await;
                    continue;
                }
                () = watch.due() => {
                    watch.tell(manager);
                    continue;
                }
                () = certificates.due(&self.orders) => continue,
            };
            // Whatever uses the engines must find them loaded.
            self.finish_loading(manager, watch).await;
            match order {
                SignalOrder::Drain => return,
                SignalOrder::ReopenLogs => self.log.reopen(),
                SignalOrder::Reload => {
                    self.state.reload_begins();
                    manager.reloading();
                    let result = match self.reload() {
                        Ok(before) => {
                            let followed = self.followed(manager, watch).await;
                            let live = self.orders.borrow().live.clone();
                            if let Some(cache) = &self.state.cache {
                                cache.follow(&live.plan, &before.plan);
                            }
                            self.engines.path_history.take_in_all(&live.plan);
                            followed.map_err(NotReloaded::InPart)
                        }
                        Err(why) => Err(NotReloaded::Refused(why)),
                    };
                    match &result {
                        Ok(()) => {
                            tracing::info!("configuration reloaded");
                            manager.ready("Serving");
                        }
                        Err(error) => {
                            tracing::error!("{error}");
                            manager.ready(&match error {
                                NotReloaded::Refused(why) => format!(
                                    "The last reload failed; the previous configuration stays in force: {why}"
                                ),
                                NotReloaded::InPart(_) => format!("Serving, but {error}"),
                            });
                        }
                    }
                    // Last: a caller who sees the result must find the service manager already notified.
                    self.state.reloaded(result);
                }
            }
        }
    }

    fn reload(&mut self) -> Result<Arc<Live>, String> {
        let loaded = self.source.load().map_err(|rejected| {
            let why = rejected.to_string();
            // For unreadable files, the problem has only the kernel's message.
            let is_out_of_reach = self.given_up.identity.sandbox.files.in_force
                && why.contains(&rustix::io::Errno::ACCESS.to_string());
            match is_out_of_reach {
                true => format!("{why}; {OUT_OF_REACH}"),
                false => why,
            }
        })?;
        log_problems(&loaded.problems);
        let before = self.orders.borrow().live.clone();
        let mut plan = loaded.plan;
        if plan.workers != before.plan.workers {
            tracing::warn!(
                "a changed [workers] count takes effect only after a restart; {} workers continue",
                before.plan.workers
            );
            plan.workers = before.plan.workers;
        }
        fit_pipes(&mut plan, descriptor_limit());
        let at_start = |limits: &Limits| (limits.pipes, limits.splices, limits.dns_cache);
        if at_start(&plan.limits) != at_start(&before.plan.limits) {
            tracing::warn!("changed pipes, splices and dns_cache take effect only after a restart");
            plan.limits.pipes = before.plan.limits.pipes;
            plan.limits.splices = before.plan.limits.splices;
            plan.limits.dns_cache = before.plan.limits.dns_cache;
        }
        let process = |plan: &Plan| {
            (
                plan.account.clone(),
                plan.pins.clone(),
                plan.packet,
                plan.sandbox,
            )
        };
        if process(&plan) != process(&before.plan) {
            tracing::warn!(
                "a changed [process] takes effect only after a restart; carrick continues to run as {}",
                self.given_up.identity
            );
            plan.account.clone_from(&before.plan.account);
            plan.pins.clone_from(&before.plan.pins);
            plan.packet = before.plan.packet;
            plan.sandbox = before.plan.sandbox;
        }
        if plan.keep_store(&before.plan) {
            tracing::warn!(
                "adding or removing [cache], and changed memory, objects, object_max and disk in it, take effect only after a restart"
            );
        }
        transparent::check_reload(&before.plan, &plan)?;
        acme::make(&plan)
            .and_then(|()| acme::check(&plan))
            .map_err(|error| self.given_up.explain(&error))?;
        listen::check_reload(&before.plan, &plan, &self.given_up)?;
        // Workers share the engines, so one that can be loaded is available to them at once.
        let features = self.engines.load(&plan);
        let advice = if self.given_up.has_engine() {
            "; carrick dropped the privileges for it at start, and needs a restart to have them"
        } else {
            ""
        };
        self.logged_reasons.tell(&plan, &features, advice);
        self.engines.warn_of_tcp_profiles(&plan);
        let plan = Arc::new(plan);
        let upstreams = UpstreamState::for_plan(&plan.upstreams, &before.upstreams);
        let running = Running {
            plan: Arc::clone(&plan),
            upstreams: upstreams.clone(),
        };
        // Last, what cannot fail, so that a failure changes nothing.
        let log = LogThread::prepare(&plan.log, plan.limits.log_queue)
            .map_err(|error| self.given_up.explain(&error))?;
        let (classes, interval) = self.engines.pacing.settings();
        self.engines
            .pace(&plan.pace)
            .map_err(|error| format!("[pace]: {error}"))?;
        if let Err(error) = self.control.apply(running) {
            // Admission had room just before.
            let _ = self.engines.pace(&PacePlan { interval, classes });
            return Err(self.given_up.explain(&error));
        }
        for feature in &features {
            self.state.set_engine(engine_status(feature));
        }
        self.log.change(log);
        set_limits(&self.admission, &plan, descriptor_limit());
        let generation = before.generation + 1;
        let live = Arc::new(Live {
            generation,
            route_tables: self.engines.install_routes(&plan),
            followers: Followers::new(plan.workers),
            plan,
            upstreams,
        });
        self.orders.send_modify(|orders| orders.live = live);
        Ok(before)
    }

    /// Waits until the workers use the plan in force.
    async fn followed(&self, manager: &ServiceManager, watch: &mut Watch) -> Result<(), String> {
        let live = Arc::clone(&self.orders.borrow().live);
        let mut all = pin!(tokio::time::timeout(FOLLOW_MAX, live.followers.all()));
        loop {
            tokio::select! {
                _ = &mut all => return live.followers.outcome(),
                () = watch.due() => watch.tell(manager),
            }
        }
    }

    /// Has the process read the next request of each client whose requests the kernel forwards. A worker may learn of a drain later.
    fn classify_nothing(&self) {
        if let Some(tables) = self.engines.packet.request_tables() {
            let upstreams = self.orders.borrow().live.plan.upstreams.len();
            for index in (0..).take(upstreams) {
                tables.choose_again(index);
            }
        }
    }

    /// The status line of a drain.
    fn progress(&self) -> String {
        let open = self.state.sum(|worker| {
            let accepted = worker.connections_accepted.get();
            accepted.saturating_sub(worker.connections_closed.get())
        });
        format!("Draining: {open} client connections left")
    }

    /// Drains the workers; a second signal ends them at once.
    async fn end(mut self, signals: &mut Signals, manager: &ServiceManager, watch: &mut Watch) {
        let drain = self.orders.borrow().live.plan.timeouts.drain;
        self.classify_nothing();
        self.rules.iter().for_each(Rules::drain);
        self.state.set_draining();
        self.orders.send_modify(|orders| orders.draining = true);
        // Logged once the drain has begun, since a reader of this line may start the next carrick or query admin.
        tracing::info!("draining: open connections may finish; a second signal ends them at once");
        manager.stopping(drain, &self.progress());
        let workers = std::mem::take(&mut self.workers);
        let (done, finished) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            for worker in workers {
                if worker.join().is_err() {
                    tracing::error!("a worker thread panicked; please report it");
                }
            }
            let _ = done.send(());
        });
        tokio::pin!(finished);
        let mut ticks = tokio::time::interval(PROGRESS_EVERY);
        let mut ends_wait = ENDS_WAIT;
        loop {
            tokio::select! {
                _ = &mut finished => break,
                () = watch.due() => watch.tell(manager),
                _ = ticks.tick() => {
                    self.classify_nothing();
                    manager.status(&self.progress());
                }
                order = signals.next() => match order {
                    SignalOrder::Drain => {
                        tracing::warn!("second signal: closing all connections now");
                        self.orders.send_modify(|orders| orders.cut_off = true);
                        let _ = tokio::time::timeout(CUT_OFF_WAIT, &mut finished).await;
                        ends_wait = Duration::ZERO;
                        break;
                    }
                    SignalOrder::ReopenLogs => self.log.reopen(),
                    SignalOrder::Reload => tracing::warn!("ignoring SIGHUP: carrick is draining and does not reload its configuration"),
                },
            }
        }
        manager.status("Ending");
        // Open connections need the rules until they end.
        drop(self.rules.take());
        let cache = self.state.cache.as_ref();
        if let Some(disk) = cache.and_then(|cache| cache.store.disk()) {
            disk.end();
        }
        self.control.shutdown();
        self.engines.leave(ends_wait).await;
        self.log.stop();
        tracing::info!("ended");
    }
}

/// Resolves to the usable features when loading has finished; never, if nothing is loading. Cancel-safe.
async fn loaded(loading: &mut Option<Loading>) -> Features {
    match loading {
        Some(loading) => loading.features().await,
        None => pending().await,
    }
}

/// Warns at start if a reload would fail for lack of dropped privileges, such as access to a file of root's.
fn tell_reload_trouble(source: &Source, given_up: &GivenUp) {
    if let Err(rejected) = source.load() {
        tracing::warn!(
            "carrick now runs as {}, and can no longer read its configuration, so a reload will fail: {rejected}",
            given_up.identity
        );
    }
}

/// Logs which parts of the sandbox are unavailable.
fn tell_of_sandbox(plan: &Plan, sandboxed: &Sandboxed) {
    let is_whole = sandboxed.files.in_force && sandboxed.calls.in_force;
    if plan.sandbox == Sandbox::Auto && !is_whole {
        tracing::warn!("sandbox: {}", sandboxed.summary());
    }
}

/// Logs problems at the severity that `carrick check` gives them.
fn log_problems(problems: &[Problem]) {
    for problem in problems {
        match problem.severity {
            Severity::Note => tracing::info!("{problem}"),
            Severity::Warning => tracing::warn!("{problem}"),
            Severity::Error => tracing::error!("{problem}"),
        }
    }
}

/// Starts a worker's thread, which reports through `started` whether it could begin.
fn start_worker(
    parts: WorkerParts,
    started: mpsc::Sender<io::Result<()>>,
) -> io::Result<JoinHandle<()>> {
    let number = parts.number;
    std::thread::Builder::new()
        .name(format!("worker-{number}"))
        .spawn(move || {
            // The receiver is gone only if another worker has failed.
            let tell = |outcome| drop(started.send(outcome));
            if let Err(error) = worker::run(parts, || tell(Ok(()))) {
                let text = format!("worker {number} cannot run: {error}");
                tell(Err(io::Error::new(error.kind(), text)));
            }
        })
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
