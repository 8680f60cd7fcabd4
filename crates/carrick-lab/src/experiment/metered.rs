//! A load with the meters at work while it is measured: the proxy's core, the server's TCP, the packets at the proxy.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::oneshot;

use super::capture::{Capture, Packet};
use crate::load::BEGINS;
use crate::load::outcome::LoadOutcome;
use crate::load::plan::LoadPlan;
use crate::testbed::cores::Placement;
use crate::testbed::slowdown::Slowdown;
use crate::testbed::{Meter, ProxyCpu, TcpCounters, Testbed, files};

/// How long a load may take beyond what its plan says: connecting, preparing caches, adding up.
const GRACE: Duration = Duration::from_secs(120);
/// Lines of what the load said that an error quotes.
const LINES_QUOTED: usize = 4;

/// What was seen.
#[derive(Debug)]
pub struct Metered {
    /// By the load generator.
    pub outcome: LoadOutcome,
    /// The length of a body (or page) of each class, in the order of the outcome.
    pub class_bytes: Vec<u64>,
    /// By the meter of the proxy's core, if it has one to itself.
    pub cpu: Option<ProxyCpu>,
    /// Of the server's TCP.
    pub server: TcpCounters,
    /// At the proxy's devices, if wanted.
    pub packets: Vec<Packet>,
    /// Whether the engine that was asked for has moved the bytes (see [`engine_use`](crate::peers::engine_use)).
    pub is_its_work: bool,
}

/// Makes the load, and meters while it is measured. Dropping the future kills the load.
///
/// # Errors
/// When the load fails or takes far too long, or a meter fails. Requests that fail are no error.
pub async fn run(testbed: &Testbed, plan: &LoadPlan, capture: bool) -> Result<Metered> {
    let file = testbed
        .directory()
        .join(format!("load-{}.json", testbed.next_number()));
    let text = serde_json::to_vec(plan).context("cannot write the load's plan as JSON")?;
    files::write(&file, text)?;
    // Until the load has ended, whichever way.
    let slowdown = testbed.slow_down()?;
    let mut command = testbed.this_program(&testbed.client)?;
    command
        .args(["load", "--json", "--announce", "--plan"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start the load")?;
    let output = child.stdout.take().context("the load has no output")?;
    let errors = child.stderr.take().context("the load has no output")?;

    let (begins, begun) = oneshot::channel();
    let ended = async {
        let (text, said) = tokio::try_join!(read_all(output), listen(errors, begins))?;
        let status = child.wait().await.context("cannot wait for the load")?;
        anyhow::Ok((status, text, said))
    };
    let meters = async {
        // The sender is dropped when the load ends before it has begun.
        match begun.await {
            Ok(()) => meter(testbed, slowdown.as_ref(), plan, capture)
                .await
                .map(Some),
            Err(_) => Ok(None),
        }
    };
    let seconds =
        plan.warm_up_seconds + plan.measured_seconds + plan.shutdown_seconds + plan.timeout_seconds;
    let patience = Duration::try_from_secs_f64(seconds).context("the load's duration")? + GRACE;
    let both = async {
        tokio::pin!(ended, meters);
        let mut metered = None;
        let (status, text, said) = loop {
            tokio::select! {
                done = &mut ended => break done?,
                done = &mut meters, if metered.is_none() => metered = Some(done?),
            }
        };
        let outcome = serde_json::from_slice::<LoadOutcome>(&text);
        // It fails, too, when nothing was answered; why is in the outcome.
        let Ok(outcome) = outcome else {
            bail!("the load failed ({status}): {}", last_lines(&said));
        };
        let metered = match metered {
            Some(metered) => metered,
            None => meters.await?,
        };
        let (cpu, server, packets) =
            metered.with_context(|| format!("the load did not begin: {}", last_lines(&said)))?;
        Ok(Metered {
            outcome,
            class_bytes: plan.classes.iter().map(|class| class.body_bytes).collect(),
            cpu,
            server,
            packets,
            is_its_work: true,
        })
    };
    tokio::time::timeout(patience, both)
        .await
        .with_context(|| format!("the load did not end within {} s", patience.as_secs()))?
}

type Readings = (Option<ProxyCpu>, TcpCounters, Vec<Packet>);

async fn meter(
    testbed: &Testbed,
    slowdown: Option<&Slowdown>,
    plan: &LoadPlan,
    capture: bool,
) -> Result<Readings> {
    tokio::time::sleep(Duration::from_secs_f64(plan.warm_up_seconds)).await;
    let capture = match capture {
        true => Some(Capture::start(&testbed.proxy)?),
        false => None,
    };
    let before = TcpCounters::read(&testbed.server)?;
    let meter = match testbed.placement() {
        Placement::Separate(_) => Some(Meter::start_beside(testbed, slowdown)?),
        Placement::Shared => None,
    };
    tokio::time::sleep(Duration::from_secs_f64(plan.measured_seconds)).await;
    let cpu = meter.map(Meter::finish).transpose()?;
    let server = TcpCounters::read(&testbed.server)?.since(&before);
    let packets = capture.map(Capture::finish).transpose()?;
    Ok((cpu, server, packets.unwrap_or_default()))
}

async fn read_all(mut output: tokio::process::ChildStdout) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    output
        .read_to_end(&mut bytes)
        .await
        .context("cannot read what the load prints")?;
    Ok(bytes)
}

/// What the load says, without the announcement, which is passed on.
async fn listen(
    errors: tokio::process::ChildStderr,
    begins: oneshot::Sender<()>,
) -> Result<Vec<String>> {
    let mut begins = Some(begins);
    let mut said = Vec::new();
    let mut lines = BufReader::new(errors).lines();
    while let Some(line) = lines
        .next_line()
        .await
        .context("cannot read what the load says")?
    {
        if line == BEGINS {
            // It fails when the run is over.
            let _ = begins.take().map(|begins| begins.send(()));
        } else {
            said.push(line);
        }
    }
    Ok(said)
}

fn last_lines(said: &[String]) -> String {
    said[said.len().saturating_sub(LINES_QUOTED)..].join("\n")
}
