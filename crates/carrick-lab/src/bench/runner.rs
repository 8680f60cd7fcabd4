//! Runs the plan: within each repetition every peer takes its turn at every work, so that slow changes of the machine hit all alike.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};

use crate::bench::cached::{self, Asks, OriginCount};
use crate::bench::congestion::{self, start_echo};
use crate::bench::holder::{Holder, Request};
use crate::bench::memory::{self, MemoryKind};
use crate::bench::observer::Observer;
use crate::bench::report;
use crate::bench::results::{Crowd, Figure, Results, Run, Settings};
use crate::bench::talk::{self, Talk};
use crate::bench::works::{Load, Target, WORKS, Work, talk_target, target, tunnel_origin};
use crate::bench::wrk::{self, Measured};
use crate::command::require;
use crate::experiment::engine_use;
use crate::peers::{Job, Peer, Programs, start_origin};
use crate::testbed::Testbed;
use crate::testbed::busy::BusyMeter;
use crate::testbed::cores::{CorePair, Placement};
use crate::testbed::machine::Machine;
use crate::testbed::service::Service;

/// With a new connection per request, at least this share of the requests must have come on one of their own.
const NEW_CONNECTIONS_SHARE_MIN: f64 = 0.95;
/// Memory hardly varies; more runs would only take time.
const MEMORY_REPETITIONS_MAX: u32 = 3;
/// A crowd takes as long as it takes: with some peers a minute and more.
const CROWD_REPETITIONS_MAX: u32 = 3;
/// The proxy's pools fill and its allocator warms up before the measured run.
const WARM_UP_SECONDS: u64 = 1;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The command line, for the report.
    pub command: String,
    /// The works.
    pub works: Vec<Work>,
    /// The peers.
    pub peers: Vec<Peer>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The measurements of memory.
    pub memory: Vec<MemoryKind>,
    /// Idle connections for those.
    pub memory_connections: usize,
    /// Runs of each cell.
    pub repetitions: u32,
    /// Seconds of each run.
    pub seconds: u64,
    /// Whether each run is preceded by a short one that is not counted.
    pub warm_up: bool,
    /// Seconds of each step of the calibration.
    pub calibration: Duration,
    /// The cores.
    pub cores: CorePair,
    /// carrick's program.
    pub carrick: PathBuf,
    /// A folder of configurations that replace the built-in ones.
    pub configurations: Option<PathBuf>,
    /// Where results are written to, as they come in.
    pub out: PathBuf,
}

/// Measures everything in the plan.
///
/// # Errors
/// When the test bed or a tool fails. A proxy that fails is no error: its cell says so.
pub async fn run(plan: &Plan) -> Result<Results> {
    let mut programs =
        Programs::locate(&plan.peers, &plan.carrick, plan.configurations.as_deref())?;
    let wrk = require("wrk")?;
    std::fs::create_dir_all(&plan.out)
        .with_context(|| format!("cannot create {}", plan.out.display()))?;
    let mut testbed = Testbed::create()?;
    if plan.works.iter().any(|work| work.job == Job::CacheDisk) {
        programs.ask_carrick(Job::CacheDisk, testbed.directory())?;
    }
    let sizes: Vec<usize> = WORKS
        .iter()
        .map(|work| work.body_bytes)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut origin = start_origin(&sizes, &testbed, &programs)?;
    let mut echo = start_echo(
        &testbed,
        &testbed.server,
        &testbed.addresses().origin_echo().to_string(),
    )?;
    congestion::verify(&testbed).await?;
    let mut talks = Vec::new();
    for (talk, listen) in [
        (Talk::PingPong, testbed.addresses().origin_ping_pong()),
        (Talk::Stream, testbed.addresses().origin_stream()),
    ] {
        if plan.works.iter().any(|work| work.load == Load::Talk(talk)) {
            talks.push(talk::start_server(&testbed, talk, listen).await?);
        }
    }

    let mut session = Session {
        plan,
        programs,
        wrk,
        results: Results {
            complete: false,
            started_unix_seconds: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
            settings: Settings {
                command: plan.command.clone(),
                repetitions: plan.repetitions,
                seconds: plan.seconds,
                cores: plan.cores,
                congestion_control: String::from(congestion::WANTED),
            },
            machine: Machine::read(),
            versions: std::collections::BTreeMap::new(),
            calibration: None,
            notes: Vec::new(),
            runs: Vec::new(),
            memory: Vec::new(),
        },
        progress: Progress {
            started: Instant::now(),
            done: 0,
            total: 0,
        },
    };
    session.results.versions = session.programs.versions();
    session.measure(&mut testbed, &mut origin).await?;
    origin.check()?;
    echo.check()?;
    for server in &mut talks {
        server.check()?;
    }
    session.results.complete = true;
    session.save()?;
    Ok(session.results)
}

struct Session<'a> {
    plan: &'a Plan,
    programs: Programs,
    wrk: PathBuf,
    results: Results,
    progress: Progress,
}

impl Session<'_> {
    async fn measure(&mut self, testbed: &mut Testbed, origin: &mut Service) -> Result<()> {
        let cells = self.cells();
        let memory_cells = self.memory_cells();
        let figures = self.plan.figures.len();
        let memory_repetitions = self.plan.repetitions.min(MEMORY_REPETITIONS_MAX);
        let runs_of_cells: usize = cells
            .iter()
            .map(|(work, _)| self.repetitions_of(work) as usize * figures)
            .sum();
        self.progress.total = runs_of_cells + memory_cells.len() * memory_repetitions as usize;

        if self.plan.figures.contains(&Figure::Cpu) {
            progress_line("checking the meter of busy time against an idle core and spinners");
            testbed.place(Placement::Separate(self.plan.cores))?;
            self.results.calibration = Some(testbed.calibrate(self.plan.calibration).await?);
        }
        for repetition in 1..=self.plan.repetitions {
            for figure in self.plan.figures.clone() {
                testbed.place(match figure {
                    Figure::Rate => Placement::Shared,
                    Figure::Cpu => Placement::Separate(self.plan.cores),
                })?;
                for (work, peer) in &cells {
                    if repetition > self.repetitions_of(work) {
                        continue;
                    }
                    self.one_run(testbed, origin, repetition, figure, work, peer)
                        .await?;
                }
                self.save()?;
            }
        }
        testbed.place(Placement::Shared)?;
        for repetition in 1..=memory_repetitions {
            for (kind, peer) in &memory_cells {
                let count = kind.count(self.plan.memory_connections);
                let run = memory::measure(testbed, &self.programs, peer, *kind, count).await;
                let value = run
                    .bytes_each()
                    .map(|bytes| format!("{bytes:.0} bytes each"));
                let said = value.or_else(|| run.fault.clone()).unwrap_or_default();
                self.results.memory.push(run);
                self.progress.step(&format!(
                    "{repetition}/{memory_repetitions} memory, {count} x {}, {}: {said}",
                    kind.title(),
                    peer.name
                ));
            }
            self.save()?;
        }
        Ok(())
    }

    fn repetitions_of(&self, work: &Work) -> u32 {
        let is_crowd = work.load == Load::Cache(Asks::Crowd);
        let most = if is_crowd {
            CROWD_REPETITIONS_MAX
        } else {
            u32::MAX
        };
        self.plan.repetitions.min(most)
    }

    /// What is possible of works x peers; what is not is noted once.
    fn cells(&mut self) -> Vec<(Work, Peer)> {
        let mut cells = Vec::new();
        for work in &self.plan.works {
            for peer in self.plan.peers.iter().filter(|peer| work.is_for(peer)) {
                match self.programs.why_not(peer, work.job) {
                    None => cells.push((*work, *peer)),
                    Some(reason) => note(&mut self.results.notes, &reason),
                }
            }
        }
        cells
    }

    fn memory_cells(&mut self) -> Vec<(MemoryKind, Peer)> {
        let mut cells = Vec::new();
        for kind in &self.plan.memory {
            for peer in self.plan.peers.iter().filter(|peer| kind.is_for(peer)) {
                match self.programs.why_not(peer, kind.job()) {
                    None => cells.push((*kind, *peer)),
                    Some(reason) => note(&mut self.results.notes, &reason),
                }
            }
        }
        cells
    }

    async fn one_run(
        &mut self,
        testbed: &Testbed,
        origin: &mut Service,
        repetition: u32,
        figure: Figure,
        work: &Work,
        peer: &Peer,
    ) -> Result<()> {
        let is_same =
            |run: &Run| run.work == work.name && run.peer == peer.name && run.figure == figure;
        if self
            .results
            .runs
            .iter()
            .any(|run| is_same(run) && run.fault.is_some())
        {
            // The cell has failed for good: another run would not mend it.
            self.progress
                .step(&format!("{} {}: failed before", work.name, peer.name));
            return Ok(());
        }
        let mut run = Run {
            repetition,
            work: work.name.to_owned(),
            peer: peer.name.to_owned(),
            figure,
            measured: None,
            busy: None,
            process_seconds: None,
            engine_share: None,
            foreign_cores: None,
            connections: None,
            origin_requests: None,
            crowd: None,
            fault: None,
        };
        if let Err(error) = self.try_run(testbed, origin, work, peer, &mut run).await {
            run.fault = Some(format!("{error:#}"));
        }
        // A fault of the origin would be taken for one of the proxies.
        origin.check()?;
        let said = match (run.value(), figure) {
            (Some(value), Figure::Rate) if work.is_stream() => format!("{value:.2} Gbit/s"),
            (Some(value), Figure::Rate) => format!("{value:.0} {}", work.rate_unit()),
            (Some(value), Figure::Cpu) if work.is_stream() => {
                format!("{value:.1} ms of CPU per GB")
            }
            (Some(value), Figure::Cpu) => format!("{value:.1} us of CPU each"),
            (None, _) => format!("FAILED: {}", run.fault.as_deref().unwrap_or("no value")),
        };
        self.results.runs.push(run);
        self.progress.step(&format!(
            "{repetition}/{} {} {}: {said}",
            self.plan.repetitions, work.name, peer.name
        ));
        Ok(())
    }

    async fn try_run(
        &self,
        testbed: &Testbed,
        origin: &Service,
        work: &Work,
        peer: &Peer,
        run: &mut Run,
    ) -> Result<()> {
        let tunnel_origin = tunnel_origin(work, &testbed.addresses());
        let mut service = peer.start(work.job, &tunnel_origin, testbed, &self.programs)?;
        let first = first_request(testbed, service.as_mut(), work, peer).await;
        let outcome = match first {
            Ok(()) => {
                self.load(testbed, service.as_ref().unwrap_or(origin), work, peer, run)
                    .await
            }
            Err(error) => Err(error),
        };
        let outcome = match &mut service {
            // A proxy that has died explains more than what wrk makes of it.
            Some(service) => service.check().and(outcome),
            None => outcome,
        };
        if let Some(service) = service {
            service.stop().await;
        }
        outcome
    }

    async fn load(
        &self,
        testbed: &Testbed,
        counted: &Service,
        work: &Work,
        peer: &Peer,
        run: &mut Run,
    ) -> Result<()> {
        let plain = target(work.job, work.body_bytes, peer, &testbed.addresses());
        let asks = match work.load {
            Load::Cache(asks) => Some(asks),
            Load::Get | Load::Talk(_) => None,
        };
        let numbered = || {
            asks.map_or_else(
                || plain.clone(),
                |asks| asks.target(&plain, testbed.next_number()),
            )
        };
        if let Some(asks) = asks.filter(|asks| asks.is_hit()) {
            cached::prime(testbed, asks, work, &numbered()).await?;
        }
        // A crowd is to find a proxy that does nothing.
        if self.plan.warm_up && asks != Some(Asks::Crowd) {
            self.once(testbed, work, peer, &numbered(), WARM_UP_SECONDS)
                .await?;
        }
        let target = numbered();
        let origin_before = asks.map(|_| OriginCount::read(testbed)).transpose()?;
        let meter = match run.figure {
            Figure::Rate => None,
            Figure::Cpu => Some(BusyMeter::new(self.plan.cores.proxy)?),
        };
        let observer = Observer::start(testbed, counted, meter)?;
        let (measured, crowd) = self
            .once(testbed, work, peer, &target, self.plan.seconds)
            .await?;
        observer.finish(run)?;
        run.crowd = crowd;
        if let Some(before) = origin_before {
            run.origin_requests = Some(before.since(testbed)?);
        }
        if let Some(engine) = peer.engine().filter(|name| engine_use::must_be_shown(name)) {
            let share = engine_use::share(&testbed.proxy, engine, measured.bytes)?;
            run.engine_share = Some(share);
            // How much of it is another engine's work is in the table; all of it must not be.
            if share <= 0.0 {
                bail!("the engine {engine} moved none of the bytes (see carrick doctor)");
            }
        }
        let requests = measured.requests;
        let accepted = run
            .connections
            .map_or(0, |connections| connections.accepted);
        let fault = measured
            .fault(work)
            .or_else(|| connection_fault(work, requests, accepted))
            .or_else(|| cached::fault(asks?, requests, run.origin_requests?));
        run.measured = Some(measured);
        if let Some(fault) = fault {
            bail!("{fault}");
        }
        if asks == Some(Asks::New) && !peer.is_uncached() {
            cached::check_stored(testbed, work, &target, requests).await?;
        }
        Ok(())
    }

    /// The load, once.
    async fn once(
        &self,
        testbed: &Testbed,
        work: &Work,
        peer: &Peer,
        target: &Target,
        seconds: u64,
    ) -> Result<(Measured, Option<Crowd>)> {
        let measured = match work.load {
            Load::Cache(Asks::Crowd) => {
                let fetched = cached::crowd(testbed, work, target).await?;
                let crowd = Crowd {
                    first_us: fetched.first_us,
                    last_us: fetched.last_us,
                };
                return Ok((fetched.measured, Some(crowd)));
            }
            Load::Get | Load::Cache(_) => {
                wrk::run(testbed, &self.wrk, work, target, seconds).await?
            }
            Load::Talk(talk) => {
                talk_for(testbed, work, peer, talk, Duration::from_secs(seconds)).await?
            }
        };
        Ok((measured, None))
    }

    fn save(&self) -> Result<()> {
        report::save_json(&self.results, &self.plan.out)
    }
}

/// Waits until the proxy serves, by a request of the kind that will be measured.
async fn first_request(
    testbed: &Testbed,
    service: Option<&mut Service>,
    work: &Work,
    peer: &Peer,
) -> Result<()> {
    let asked = async {
        if let Load::Talk(talk) = work.load {
            return talk_for(testbed, work, peer, talk, Duration::ZERO)
                .await
                .map(drop);
        }
        let target = target(work.job, work.body_bytes, peer, &testbed.addresses());
        let request = Request::http(&target, work.body_bytes);
        let on = testbed.placement().other_cores();
        let holder = Holder::open(&testbed.client, &on, &request, 1).await?;
        holder.close().await
    };
    let answered = match service {
        Some(service) => tokio::select! {
            answered = asked => answered,
            ended = service.ended() => Err(ended),
        },
        None => asked.await,
    };
    answered.context("the first request")
}

async fn talk_for(
    testbed: &Testbed,
    work: &Work,
    peer: &Peer,
    talk: Talk,
    time: Duration,
) -> Result<Measured> {
    let wish = talk::Wish {
        talk,
        connect: &talk_target(work, peer, &testbed.addresses()),
        connections: work.connections,
        message_bytes: work.body_bytes,
        time,
    };
    talk::run(testbed, &wish).await
}

/// A peer that kept its client's connection would have an easier job than asked.
#[expect(
    clippy::cast_precision_loss,
    reason = "a run has far fewer than 2^52 requests"
)]
fn connection_fault(work: &Work, requests: u64, accepted: u64) -> Option<String> {
    let enough = accepted as f64 >= requests as f64 * NEW_CONNECTIONS_SHARE_MIN;
    (work.close && !enough)
        .then(|| format!("{requests} requests came on only {accepted} new connections"))
}

fn note(notes: &mut Vec<String>, text: &str) {
    if !notes.iter().any(|known| known == text) {
        notes.push(text.to_owned());
    }
}

struct Progress {
    started: Instant,
    done: usize,
    total: usize,
}

impl Progress {
    fn step(&mut self, what: &str) {
        self.done += 1;
        let left = self.total.saturating_sub(self.done);
        let each = self
            .started
            .elapsed()
            .checked_div(u32::try_from(self.done).unwrap_or(u32::MAX))
            .unwrap_or_default();
        let left_seconds = each.as_secs_f64() * f64::from(u32::try_from(left).unwrap_or(u32::MAX));
        progress_line(&format!(
            "[{}/{}, {:.0} min left] {what}",
            self.done,
            self.total,
            (left_seconds / 60.0).ceil()
        ));
    }
}

fn progress_line(text: &str) {
    // Progress that nobody can read is not worth an error.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The default place of carrick's program, from the root of the repository.
#[must_use]
pub fn default_carrick() -> &'static Path {
    Path::new("target/release/carrick")
}

#[cfg(test)]
mod tests;
