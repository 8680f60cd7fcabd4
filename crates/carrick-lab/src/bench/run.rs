//! One sample of one work on one peer: a fresh proxy, the load, and what is read before and after it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::bench::cached::{self, OriginCount};
use crate::bench::fetch::Fetched;
use crate::bench::holder::{Holder, Request};
use crate::bench::measured::Measured;
use crate::bench::memory;
use crate::bench::plan::{Asks, Does, Talk, Target, Work, talk_target, target, tunnel_origin};
use crate::bench::{ghz, h2load, resume, talk, wrk};
use crate::peers::{Job, Peer, Programs, engine_use};
use crate::testbed::cores::Placement;
use crate::testbed::service::Service;
use crate::testbed::usage::foreign_cpu_seconds;
use crate::testbed::{Meter, ProxyCpu, Testbed};

/// A proxy that does not listen by then will not.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// With a new connection per request, at least this share of the requests must have come on one of their own.
const NEW_CONNECTIONS_SHARE_MIN: f64 = 0.95;

/// Metrics that a sample can have; latencies only where there are requests, and those of the proxy's core only where it has one to itself.
pub const METRICS: [&str; 17] = [
    "requests_per_second",
    "throughput_bytes_per_second",
    "latency_p50_ms",
    "latency_p99_ms",
    "accepted_connections",
    "origin_requests",
    "crowd_first_ms",
    "crowd_last_ms",
    "engine_share",
    "foreign_cores",
    "cpu_us_per_request",
    "process_us_per_request",
    "cpu_ms_per_gigabyte",
    "process_ms_per_gigabyte",
    "process_bytes_each",
    "kernel_slab_bytes_each",
    "kernel_socket_bytes_each",
];

/// What is measured, and with what.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Where.
    pub testbed: &'a Testbed,
    /// The origin that serves files.
    pub origin: &'a Service,
    /// The programs.
    pub programs: &'a Programs,
    /// wrk.
    pub wrk: &'a Path,
    /// Who is measured.
    pub peer: &'a Peer,
    /// The listener that the load goes to.
    pub job: Job,
    /// The load.
    pub work: &'a Work,
    /// Of a load before the one that is measured.
    pub warm_up_seconds: f64,
    /// Of the load.
    pub seconds: f64,
}

impl Run<'_> {
    /// Measures it: the metrics of the sample.
    ///
    /// # Errors
    /// When the proxy or the load fails, or the sample must not be used: why.
    pub async fn measure(&self) -> Result<BTreeMap<String, f64>> {
        let (testbed, work) = (self.testbed, self.work);
        if let Does::Memory(kind) = work.does {
            let measured =
                memory::measure(testbed, self.programs, self.peer, kind, work.connections);
            return Ok(Box::pin(measured).await?.metrics());
        }
        let origin = tunnel_origin(work, &testbed.addresses());
        let mut service = self.peer.start(self.job, &origin, testbed, self.programs)?;
        let first = first_request(testbed, service.as_mut(), self.job, work, self.peer).await;
        let outcome = match first {
            Ok(()) => Box::pin(self.load(service.as_ref().unwrap_or(self.origin))).await,
            Err(error) => Err(error),
        };
        let Some(mut service) = service else {
            return outcome;
        };
        // A proxy that has died explains more than what the load makes of it.
        let outcome = service.check().and(outcome);
        service.stop().await;
        outcome
    }

    /// `counted` is the service whose connections are counted.
    async fn load(&self, counted: &Service) -> Result<BTreeMap<String, f64>> {
        let (testbed, work) = (self.testbed, self.work);
        let plain = target(self.job, work.body_bytes, self.peer, &testbed.addresses());
        let asks = match work.does {
            Does::Cache(asks) => Some(asks),
            Does::Get | Does::Talk(_) | Does::Call(_) | Does::Memory(_) => None,
        };
        let numbered = || match asks {
            Some(asks) => asks.target(&plain, testbed.next_number()),
            None => plain.clone(),
        };
        if let Some(asks) = asks.filter(|asks| asks.is_hit()) {
            cached::prime(testbed, asks, work, &numbered()).await?;
        }
        let idle = match work.idle_connections {
            0 => None,
            count => Some(self.hold(&plain, count).await?),
        };
        // A crowd is to find a proxy that does nothing.
        if self.warm_up_seconds > 0.0 && asks != Some(Asks::Crowd) {
            self.once(&numbered(), self.warm_up_seconds).await?;
        }
        let target = numbered();
        let origin_before = asks.map(|_| OriginCount::read(testbed)).transpose()?;
        let readings = Readings::take(testbed, counted)?;
        let (measured, crowd) = self.once(&target, self.seconds).await?;
        let (cpu, accepted, foreign_cores) = readings.since()?;
        if let Some(idle) = idle {
            idle.close().await?;
        }
        let mut sample = metrics_of(work, &measured, cpu.as_ref());
        let mut add = |name: &str, value: f64| sample.extend([(name.to_owned(), value)]);
        add("foreign_cores", foreign_cores);
        add("accepted_connections", accepted as f64);
        if let Some(crowd) = crowd {
            add("crowd_first_ms", crowd.first_us as f64 / 1e3);
            add("crowd_last_ms", crowd.last_us as f64 / 1e3);
        }
        let asked = origin_before
            .map(|before| before.since(testbed))
            .transpose()?;
        if let Some(asked) = asked {
            add("origin_requests", asked as f64);
        }
        if let Some(engine) = self
            .peer
            .engine()
            .filter(|name| engine_use::must_be_shown(name))
        {
            let share = engine_use::share(&testbed.proxy, engine, measured.bytes)?;
            add("engine_share", share);
            // How much of it is another engine's work is in the table; all of it must not be.
            if share <= 0.0 {
                bail!("the engine {engine} moved none of the bytes (see carrick doctor)");
            }
        }
        let fault = measured
            .fault(work)
            .or_else(|| connection_fault(work, measured.requests, accepted))
            .or_else(|| cached::fault(asks?, measured.requests, asked?));
        if let Some(fault) = fault {
            bail!("{fault}");
        }
        if asks == Some(Asks::New) && !self.peer.is_uncached() {
            cached::check_stored(testbed, work, &target, measured.requests).await?;
        }
        Ok(sample)
    }

    /// Opens connections that stay open while the load runs on others.
    async fn hold(&self, target: &Target, connections: usize) -> Result<Holder> {
        let request = Request::http(target, self.work.body_bytes);
        let on = self.testbed.placement().other_cores();
        Holder::open(&self.testbed.client, &on, &request, connections).await
    }

    /// The load, once.
    async fn once(&self, target: &Target, seconds: f64) -> Result<(Measured, Option<Fetched>)> {
        let (testbed, work) = (self.testbed, self.work);
        let measured = match work.does {
            Does::Cache(Asks::Crowd) => {
                let fetched = cached::crowd(testbed, work, target).await?;
                return Ok((fetched.measured.clone(), Some(fetched)));
            }
            Does::Get if work.streams > 0 => h2load::run(testbed, work, target, seconds).await?,
            Does::Get if work.resumes => resume::run(testbed, work, target, seconds).await?,
            Does::Get | Does::Cache(_) => {
                wrk::run(testbed, self.wrk, work, target, seconds).await?
            }
            Does::Call(call) => ghz::run(testbed, work, call, &target.connect, seconds).await?,
            Does::Talk(talk) => {
                let time = Duration::try_from_secs_f64(seconds)?;
                talk_for(testbed, self.job, work, self.peer, talk, time).await?
            }
            Does::Memory(_) => bail!("memory is measured without a load"),
        };
        Ok((measured, None))
    }
}

/// What is read before a load; the core's meter last, so that its window holds little else than the load.
struct Readings<'a> {
    testbed: &'a Testbed,
    counted: &'a Service,
    started: Instant,
    foreign_seconds: f64,
    accepted: u64,
    meter: Option<Meter<'a>>,
}

impl<'a> Readings<'a> {
    fn take(testbed: &'a Testbed, counted: &'a Service) -> Result<Self> {
        Ok(Self {
            testbed,
            counted,
            started: Instant::now(),
            foreign_seconds: foreign_cpu_seconds(testbed)?,
            accepted: counted.connections()?.accepted,
            meter: match testbed.placement() {
                Placement::Separate(_) => Some(Meter::start(testbed)?),
                Placement::Shared => None,
            },
        })
    }

    /// What the proxy's core did, connections that were accepted, and cores that other programs kept busy.
    fn since(self) -> Result<(Option<ProxyCpu>, u64, f64)> {
        let cpu = self.meter.map(Meter::finish).transpose()?;
        let accepted = self.counted.connections()?.accepted;
        let foreign_seconds = foreign_cpu_seconds(self.testbed)? - self.foreign_seconds;
        let seconds = self.started.elapsed().as_secs_f64();
        Ok((
            cpu,
            accepted.saturating_sub(self.accepted),
            foreign_seconds.max(0.0) / seconds,
        ))
    }
}

/// The metrics of a load: of requests, or of a stream's bytes; a gigabyte has 10^9. What the core does without a proxy is in its CPU: rows are
/// compared, and all have it.
fn metrics_of(work: &Work, measured: &Measured, cpu: Option<&ProxyCpu>) -> BTreeMap<String, f64> {
    let mut sample = BTreeMap::new();
    let mut add = |name: &str, value: f64| sample.extend([(name.to_owned(), value)]);
    if work.is_stream() {
        let per_second = measured.gigabits_per_second() * 1e9 / 8.0;
        add("throughput_bytes_per_second", per_second);
        if let Some(cpu) = cpu {
            let each = |seconds: f64| seconds * 1e3 / (measured.bytes as f64 / 1e9);
            add("cpu_ms_per_gigabyte", each(cpu.core_busy_seconds));
            add("process_ms_per_gigabyte", each(cpu.process_seconds));
        }
        return sample;
    }
    add("requests_per_second", measured.requests_per_second());
    for (name, us) in [
        ("latency_p50_ms", measured.latency_us.p50),
        ("latency_p99_ms", measured.latency_us.p99),
    ] {
        if us > 0.0 {
            add(name, us / 1e3);
        }
    }
    if let Some(cpu) = cpu {
        let each = |seconds: f64| seconds * 1e6 / measured.requests as f64;
        add("cpu_us_per_request", each(cpu.core_busy_seconds));
        add("process_us_per_request", each(cpu.process_seconds));
    }
    sample
}

/// Waits until the proxy serves, by a request of the kind that will be measured.
async fn first_request(
    testbed: &Testbed,
    service: Option<&mut Service>,
    job: Job,
    work: &Work,
    peer: &Peer,
) -> Result<()> {
    let asked = async {
        if let Does::Talk(talk) = work.does {
            return talk_for(testbed, job, work, peer, talk, Duration::ZERO)
                .await
                .map(drop);
        }
        let target = target(job, work.body_bytes, peer, &testbed.addresses());
        let request = Request::http(&target, work.body_bytes);
        let on = testbed.placement().other_cores();
        let holder = Holder::open(&testbed.client, &on, &request, 1).await?;
        holder.close().await
    };
    let answered = match service {
        // Our own client speaks neither TLS nor HTTP/2. A load that gets no answer has a fault.
        Some(service) if matches!(job, Job::Https | Job::Grpc) => {
            service
                .wait_until_listening(job.port(), START_TIMEOUT)
                .await
        }
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
    job: Job,
    work: &Work,
    peer: &Peer,
    talk: Talk,
    time: Duration,
) -> Result<Measured> {
    let (connect, through) = talk_target(job, work, peer, &testbed.addresses());
    let wish = talk::Wish {
        talk,
        connect: &connect,
        through: through.as_deref(),
        connections: work.connections,
        message_bytes: work.body_bytes,
        time,
    };
    talk::run(testbed, &wish).await
}

/// A peer that kept its client's connection would have an easier job than asked.
fn connection_fault(work: &Work, requests: u64, accepted: u64) -> Option<String> {
    let enough = accepted as f64 >= requests as f64 * NEW_CONNECTIONS_SHARE_MIN;
    (work.close && !enough)
        .then(|| format!("{requests} requests came on only {accepted} new connections"))
}

#[cfg(test)]
mod tests;
