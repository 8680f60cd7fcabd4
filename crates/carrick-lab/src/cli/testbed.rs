//! `carrick-lab testbed`: a test bed for one command, removed when the command ends.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::testbed::cores::{self, CorePair, Placement};
use crate::testbed::{Layout, Side, Testbed as Bed, TestbedPlan, WanService};
use crate::wan::spec::WanSpec;

/// How long the command may take to end once it was asked to.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// A shell's exit code for a command that a signal ended is this and the signal's number.
const SIGNALLED: i32 = 128;

/// `carrick-lab testbed`
#[derive(Debug, Args)]
#[command(after_help = "\
The command finds in its environment:
  CARRICK_LAB_CLIENT_NETNS, …_PROXY_NETNS, …_SERVER_NETNS, …_ROUTER_NETNS      for `ip netns exec`
  CARRICK_LAB_CLIENT_ADDRESS, …_PROXY_ADDRESS, …_SERVER_ADDRESS
  CARRICK_LAB_PROXY_TO_SERVER_ADDRESS      the proxy as servers see it
  CARRICK_LAB_DIRECTORY                    a directory in memory, removed at the end
All processes that are left in the namespaces when it ends are killed.")]
pub struct Testbed {
    /// How the machines are joined [default: direct; with --wan: routed]
    #[arg(long, value_enum)]
    layout: Option<LayoutName>,
    /// Rules of a WAN emulator that forwards the packets (TOML; implies the layout routed)
    #[arg(long, value_name = "FILE")]
    wan: Option<PathBuf>,
    /// What the emulator did, as JSON, when the command has ended
    #[arg(long, value_name = "FILE", requires = "wan")]
    counts: Option<PathBuf>,
    /// Congestion control of all connections [default: cubic]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Without segmentation offloads: packets cross each link one by one, none larger than the MTU
    #[arg(long)]
    no_offloads: bool,
    /// The whole plan of the test bed (TOML); other options override it
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Where the command runs
    #[arg(long = "in", value_enum, default_value_t = Place::Client)]
    place: Place,
    /// Two cores: OTHER,PROXY. The proxy and its packets have the second to themselves
    #[arg(long)]
    cores: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LayoutName {
    /// client - proxy - server
    Direct,
    /// client, proxy and server, joined by a router
    Routed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    Client,
    Proxy,
    Server,
    Router,
    /// Outside, where this program runs
    Host,
}

impl Place {
    fn side(self) -> Option<Side> {
        match self {
            Self::Client => Some(Side::Client),
            Self::Proxy => Some(Side::Proxy),
            Self::Server => Some(Side::Server),
            Self::Router => Some(Side::Router),
            Self::Host => None,
        }
    }
}

/// Builds the test bed, runs the command, and removes everything.
///
/// # Errors
/// When the test bed cannot be built or the command not started; when the WAN emulator ends in between.
pub fn run(arguments: &Testbed) -> Result<ExitCode> {
    let plan = plan_of(arguments)?;
    let wan = arguments.wan.as_deref().map(read_wan).transpose()?;
    if arguments.place == Place::Router && plan.layout == Layout::Direct {
        bail!("--in router: the direct layout has no router (--layout routed has one)");
    }
    let pair = arguments
        .cores
        .as_deref()
        .map(|text| CorePair::parse(text).context("--cores"))
        .transpose()?;
    let outcome = crate::program::runtime()?.block_on(async {
        let mut interrupted = std::pin::pin!(super::interruption());
        // Polled once, so that the signals are listened for while the test bed is built.
        tokio::select! {
            biased;
            name = &mut interrupted => return Ok(Outcome::Interrupted(name?)),
            () = std::future::ready(()) => {}
        }
        // Dropping the test bed removes it, whichever way this ends.
        let mut testbed = Bed::build(&plan)?;
        if let Some(pair) = pair {
            testbed.place(Placement::Separate(pair))?;
        }
        let _slowdown = testbed.slow_down()?;
        let mut emulator = None;
        if let Some(spec) = &wan {
            tokio::select! {
                biased;
                name = &mut interrupted => return Ok(Outcome::Interrupted(name?)),
                started = testbed.start_wan(spec) => emulator = Some(started?),
            }
        }
        let mut child = start(arguments, &testbed)?;
        let outcome = tokio::select! {
            biased;
            name = &mut interrupted => {
                end(&mut child).await;
                Outcome::Interrupted(name?)
            }
            reason = emulator_ended(&mut emulator) => {
                end(&mut child).await;
                return Err(reason);
            }
            status = child.wait() => Outcome::Ended(status.context("cannot wait for the command")?),
        };
        if let Some(emulator) = emulator {
            let counts = emulator.stop().await?;
            if let Some(file) = &arguments.counts {
                let text = serde_json::to_vec_pretty(&counts).context("cannot write counts")?;
                fs::write(file, text)
                    .with_context(|| format!("cannot write {}", file.display()))?;
            }
        }
        Ok(outcome)
    })?;
    Ok(outcome.code())
}

/// How the command ended.
#[derive(Debug)]
enum Outcome {
    Ended(ExitStatus),
    Interrupted(&'static str),
}

impl Outcome {
    fn code(&self) -> ExitCode {
        use std::os::unix::process::ExitStatusExt as _;
        let code = match self {
            Self::Ended(status) => status
                .code()
                .or_else(|| status.signal().map(|signal| SIGNALLED + signal)),
            Self::Interrupted(name) => Some(SIGNALLED + number_of(name).as_raw()),
        };
        code.and_then(|code| u8::try_from(code).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

fn number_of(name: &str) -> Signal {
    match name {
        "SIGINT" => Signal::INT,
        "SIGHUP" => Signal::HUP,
        _ => Signal::TERM,
    }
}

fn plan_of(arguments: &Testbed) -> Result<TestbedPlan> {
    let mut plan = match &arguments.plan {
        None => TestbedPlan::default(),
        Some(file) => {
            let text = fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            TestbedPlan::parse(&text).with_context(|| file.display().to_string())?
        }
    };
    match (arguments.layout, &arguments.wan) {
        (Some(LayoutName::Direct), Some(_)) => {
            bail!(
                "--wan needs a router to take the place of: --layout routed, or leave --layout out"
            );
        }
        (Some(LayoutName::Direct), None) => plan.layout = Layout::Direct,
        (Some(LayoutName::Routed), _) | (None, Some(_)) => plan.layout = Layout::Routed,
        (None, None) => {}
    }
    if let Some(congestion) = &arguments.congestion {
        plan.congestion.clone_from(congestion);
    }
    if arguments.no_offloads {
        plan.offloads = false;
    }
    Ok(plan)
}

fn read_wan(file: &Path) -> Result<WanSpec> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    toml::from_str(&text).with_context(|| file.display().to_string())
}

/// Starts the command with the terminal, in this process's group, so that a shell can be used in it.
fn start(arguments: &Testbed, testbed: &Bed) -> Result<Child> {
    let (program, rest) = arguments
        .command
        .split_first()
        .context("a command is required after --")?;
    let placement = testbed.placement();
    let mut command = match arguments.place.side() {
        None => Command::new(program),
        Some(side) => {
            let namespace = testbed
                .side(side)
                .context("the layout lacks this machine")?;
            let on = match side {
                Side::Proxy => placement.proxy_cores(),
                _ => placement.other_cores(),
            };
            let mut command = Command::new("ip");
            command
                .args(["netns", "exec", namespace.name(), "taskset", "-c"])
                .arg(cores::list(&on))
                .arg(program);
            command
        }
    };
    command.args(rest).kill_on_drop(true);
    for (side, name) in [
        (Side::Client, "CLIENT"),
        (Side::Proxy, "PROXY"),
        (Side::Server, "SERVER"),
        (Side::Router, "ROUTER"),
    ] {
        let variable = format!("CARRICK_LAB_{name}_NETNS");
        match testbed.side(side) {
            Some(namespace) => command.env(variable, namespace.name()),
            None => command.env_remove(variable),
        };
    }
    let addresses = testbed.addresses();
    for (name, address) in [
        ("CLIENT", addresses.client),
        ("PROXY", addresses.proxy),
        ("PROXY_TO_SERVER", addresses.proxy_to_server),
        ("SERVER", addresses.server),
    ] {
        command.env(format!("CARRICK_LAB_{name}_ADDRESS"), address.to_string());
    }
    command.env("CARRICK_LAB_DIRECTORY", testbed.directory());
    command
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
}

/// Waits for ever if there is none.
async fn emulator_ended(emulator: &mut Option<WanService>) -> anyhow::Error {
    match emulator {
        Some(emulator) => emulator.ended().await,
        None => std::future::pending().await,
    }
}

/// Asks the command to end, and kills it if it does not.
async fn end(child: &mut Child) {
    if let Some(pid) = child
        .id()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw)
    {
        // It may have ended already: the terminal sends Ctrl-C to the command, too.
        let _ = kill_process(pid, Signal::TERM);
    }
    if tokio::time::timeout(END_TIMEOUT, child.wait())
        .await
        .is_err()
    {
        let _ = child.start_kill();
        let _ = child.wait().await;
    }
}

#[cfg(test)]
mod tests;
