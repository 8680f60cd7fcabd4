//! Process memory per idle connection: thousands are opened, used once, and held. And per object of a cache. Of split connections the kernel's
//! memory, too.

mod kernel;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::bench::congestion::start_echo;
use crate::bench::fetch::{self, Fetched, Wish};
use crate::bench::holder::{Holder, Request};
pub use crate::bench::memory::kernel::{KernelGrowth, KernelMemory};
use crate::bench::plan::{Asks, KIB, MemoryKind, Talk, Target, target};
use crate::bench::talk;
use crate::peers::{Job, Peer, Programs};
use crate::testbed::Testbed;
use crate::testbed::namespace::Namespace;

/// The body of the one response that each keep-alive client has had.
const BODY_BYTES: usize = KIB;
/// Connections opened before the first reading, so that one-time costs are not divided among the clients.
const WARM_UP_CONNECTIONS: usize = 16;
/// Objects that are stored before the first reading.
const WARM_UP_OBJECTS: usize = 10_000;
/// For a proxy to come up.
const START_TIMEOUT: Duration = Duration::from_secs(15);
/// The variant of the splitter's template for them: both legs as for a link of 16 Mbit/s and 600 ms.
const STALLED_VARIANT: &str = "stalled";
/// Until buffers are full that are not read.
const FILLED: Duration = Duration::from_secs(5);
/// Until allocators and closing connections have come to rest.
const SETTLE: Duration = Duration::from_millis(1000);

/// Memory of all processes of a proxy, in bytes (proc(5), `smaps_rollup`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Proportional set size: private pages, and of shared pages the process's part. What is reported.
    pub pss: u64,
    /// Resident set size: counts pages shared by several processes several times.
    pub rss: u64,
    /// Pages of that process alone.
    pub private: u64,
}

/// How long to wait until a reading with all connections held.
fn settle(kind: MemoryKind) -> Duration {
    match kind {
        MemoryKind::SplitStalled => FILLED,
        _ => SETTLE,
    }
}

/// One measurement.
#[derive(Clone, Debug, Default)]
pub struct MemoryRun {
    /// How many were opened, or stored, between the two readings.
    pub connections: usize,
    /// With the first few connections held.
    pub before: Memory,
    /// With all of them held.
    pub after: Memory,
    /// Of the growth, what any cache has to keep: bodies, keys and heads of stored objects.
    pub content_bytes: u64,
    /// Of the kernel, for split connections.
    pub kernel: Option<KernelGrowth>,
}

impl MemoryRun {
    /// Growth of PSS for each connection, or for each object beyond what it consists of.
    #[must_use]
    pub fn bytes_each(&self) -> f64 {
        let growth = self.after.pss as f64 - self.before.pss as f64;
        (growth - self.content_bytes as f64) / self.connections as f64
    }

    /// The metrics of a sample.
    #[must_use]
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut sample = BTreeMap::from([(String::from("process_bytes_each"), self.bytes_each())]);
        if let Some(kernel) = &self.kernel {
            let (slabs, queued) = kernel.bytes_each(self.connections);
            sample.insert(String::from("kernel_slab_bytes_each"), slabs);
            sample.insert(String::from("kernel_socket_bytes_each"), queued);
        }
        sample
    }
}

/// Measures one peer.
///
/// # Errors
/// When the peer fails, or something cannot be read.
pub async fn measure(
    testbed: &Testbed,
    programs: &Programs,
    peer: &Peer,
    kind: MemoryKind,
    connections: usize,
) -> Result<MemoryRun> {
    let mut run = MemoryRun {
        connections: kind.count(connections).max(1),
        ..MemoryRun::default()
    };
    if kind == MemoryKind::StoredObject {
        try_measure_objects(testbed, programs, peer, &mut run).await?;
    } else if kind.job() == Job::Gateway {
        try_measure_split(programs, peer, kind, &mut run).await?;
    } else {
        try_measure(testbed, programs, peer, kind, &mut run).await?;
    }
    Ok(run)
}

async fn try_measure(
    testbed: &Testbed,
    programs: &Programs,
    peer: &Peer,
    kind: MemoryKind,
    run: &mut MemoryRun,
) -> Result<()> {
    let addresses = testbed.addresses();
    let echo = addresses.origin_echo().to_string();
    let stream = addresses.origin_stream().to_string();
    let target = target(kind.job(), BODY_BYTES, peer, &addresses);
    let request = match kind {
        MemoryKind::Tunnel => Request::echo(&target.connect),
        // Clients connect to the server.
        MemoryKind::Split => Request::echo(&echo),
        MemoryKind::SplitStalled => Request::stalled(&stream),
        MemoryKind::SwitchKeepAlive
        | MemoryKind::HttpsKeepAlive
        | MemoryKind::ForwardKeepAlive
        | MemoryKind::StoredObject => Request::http(&target, BODY_BYTES),
    };
    let client_cores = testbed.placement().other_cores();
    let mut kernel = match kind {
        MemoryKind::Split | MemoryKind::SplitStalled => {
            let hold = Holder::open(
                &testbed.client,
                &client_cores,
                &request,
                WARM_UP_CONNECTIONS,
            );
            hold.await?.close().await?;
            tokio::time::sleep(SETTLE).await;
            let before = KernelMemory::read(testbed)?;
            let holder = Holder::open(&testbed.client, &client_cores, &request, run.connections);
            let holder = holder.await?;
            tokio::time::sleep(settle(kind)).await;
            let without = KernelMemory::read(testbed)?.since(&before);
            holder.close().await?;
            Some(KernelGrowth {
                without,
                with: KernelMemory::default(),
            })
        }
        _ => None,
    };
    let mut programs = programs.clone();
    let mut origin = &echo;
    if kind == MemoryKind::SplitStalled {
        programs = programs.with_variant(Some(STALLED_VARIANT));
        origin = &stream;
    }
    let mut service = peer
        .start(kind.job(), origin, testbed, &programs)?
        .context("routing has no process whose memory could be measured")?;
    if kind.job() == Job::Gateway {
        peer.wait_until_ready(kind.job(), &mut service, START_TIMEOUT)
            .await?;
    }
    let outcome = async {
        let opened = Holder::open(
            &testbed.client,
            &client_cores,
            &request,
            WARM_UP_CONNECTIONS,
        );
        let warm_up = tokio::select! {
            holder = opened => holder?,
            ended = service.ended() => return Err(ended),
        };
        tokio::time::sleep(SETTLE).await;
        run.before = memory_of(&testbed.proxy)?;
        let kernel_before = KernelMemory::read(testbed)?;
        let holder =
            Holder::open(&testbed.client, &client_cores, &request, run.connections).await?;
        tokio::time::sleep(settle(kind)).await;
        run.after = memory_of(&testbed.proxy)?;
        if let Some(growth) = &mut kernel {
            growth.with = KernelMemory::read(testbed)?.since(&kernel_before);
            run.kernel = kernel;
        }
        service.check()?;
        holder.close().await?;
        warm_up.close().await
    }
    .await;
    // A proxy that has died explains more than what its clients make of it.
    let outcome = service.check().and(outcome);
    service.stop().await;
    outcome
}

/// In a test bed of its own: what a splitter's connections leave for a minute (TIME_WAIT) would be in the way of those that have the same
/// addresses and ports without it.
async fn try_measure_split(
    programs: &Programs,
    peer: &Peer,
    kind: MemoryKind,
    run: &mut MemoryRun,
) -> Result<()> {
    let testbed = Testbed::create()?;
    let addresses = testbed.addresses();
    let mut echo = start_echo(
        &testbed,
        &testbed.server,
        &addresses.origin_echo().to_string(),
    )?;
    let mut stream = talk::start_server(&testbed, Talk::Stream, addresses.origin_stream()).await?;
    let measured = try_measure(&testbed, programs, peer, kind, run).await;
    echo.check()?;
    stream.check()?;
    measured
}

async fn try_measure_objects(
    testbed: &Testbed,
    programs: &Programs,
    peer: &Peer,
    run: &mut MemoryRun,
) -> Result<()> {
    let addresses = testbed.addresses();
    let mut service = peer
        .start(Job::Cache, "", testbed, programs)?
        .context("routing stores nothing")?;
    service
        .wait_until_listening(Job::Cache.port(), START_TIMEOUT)
        .await?;
    let target = Asks::Many.target(&target(Job::Cache, BODY_BYTES, peer, &addresses), 0);
    let outcome = async {
        store(testbed, &target, 0, WARM_UP_OBJECTS).await?;
        tokio::time::sleep(SETTLE).await;
        run.before = memory_of(&testbed.proxy)?;
        let fetched = store(testbed, &target, WARM_UP_OBJECTS, run.connections).await?;
        tokio::time::sleep(SETTLE).await;
        run.after = memory_of(&testbed.proxy)?;
        let key_bytes = target.host.len()
            + target.request_target.len()
            + (WARM_UP_OBJECTS + run.connections).to_string().len();
        run.content_bytes =
            fetched.head_bytes + (run.connections * (BODY_BYTES + key_bytes)) as u64;
        Ok(())
    }
    .await;
    let outcome = service.check().and(outcome);
    service.stop().await;
    outcome
}

/// Asks for so many objects for the first time.
async fn store(testbed: &Testbed, target: &Target, first: usize, count: usize) -> Result<Fetched> {
    let wish = Wish {
        first: first as u64,
        requests: count as u64,
        objects: count as u64,
        connections: WARM_UP_CONNECTIONS,
        body_bytes: BODY_BYTES,
    };
    fetch::run(testbed, target, &wish).await
}

fn memory_of(namespace: &Namespace) -> Result<Memory> {
    let mut sum = Memory::default();
    for pid in namespace.processes()? {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let memory = parse_rollup(&text).with_context(|| format!("{path} lacks a field"))?;
        sum.pss += memory.pss;
        sum.rss += memory.rss;
        sum.private += memory.private;
    }
    if sum.rss == 0 {
        bail!("the proxy has no process");
    }
    Ok(sum)
}

fn parse_rollup(text: &str) -> Option<Memory> {
    let field = |name: &str| -> Option<u64> {
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(
            value
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse::<u64>()
                .ok()?
                * 1024,
        )
    };
    Some(Memory {
        pss: field("Pss")?,
        rss: field("Rss")?,
        private: field("Private_Clean")? + field("Private_Dirty")?,
    })
}

#[cfg(test)]
mod tests;
