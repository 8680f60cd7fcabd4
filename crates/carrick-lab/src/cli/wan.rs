//! `carrick-lab wan`: the emulator in the network namespace it is started in, told what to do by signals.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::program::note;
use crate::wan::check;
use crate::wan::control::{self, Handle};
use crate::wan::spec::{WanCounts, WanSpec};

/// `carrick-lab wan`
#[derive(Debug, Args)]
#[command(
    after_help = "It says `ready` when packets are being forwarded. SIGTERM and SIGINT end it, and it writes its counts; \
                  SIGUSR1: it writes its counts and goes on; SIGHUP: it reads the file, addresses and routes again."
)]
pub struct Wan {
    /// The network to emulate, in TOML (docs/lab/wan.md)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Devices to forward packets between [default: all that have an Ethernet address and are up]
    #[arg(long = "device", value_name = "NAME")]
    devices: Vec<String>,
    /// Where the counts go, as JSON [default: standard output]
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,
    /// Only say whether the file is right
    #[arg(long)]
    check: bool,
}

/// Emulates until a signal ends it.
///
/// # Errors
/// When the specification is wrong, not root, a device is missing, the kernel forwards by itself, or the counts cannot
/// be written.
pub fn run(arguments: &Wan) -> Result<ExitCode> {
    let spec = read(&arguments.config)?;
    if arguments.check {
        let mut output = super::output();
        writeln!(
            output,
            "{} is right; rules: {}",
            arguments.config.display(),
            spec.rules.len()
        )
        .context("cannot print")?;
        return Ok(ExitCode::SUCCESS);
    }
    let counts = crate::program::runtime()?.block_on(emulate(arguments, spec))?;
    write(&counts, arguments.counts.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<WanSpec> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the specification {}", path.display()))?;
    check::parse(&text).map_err(|problems| anyhow!("{}: {problems}", path.display()))
}

fn listen(kind: SignalKind, name: &str) -> Result<Signal> {
    signal(kind).with_context(|| format!("cannot listen for {name}"))
}

async fn emulate(arguments: &Wan, spec: WanSpec) -> Result<WanCounts> {
    // Before it is ready, so that no signal comes too early.
    let mut terminate = listen(SignalKind::terminate(), "SIGTERM")?;
    let mut interrupt = listen(SignalKind::interrupt(), "SIGINT")?;
    let mut report = listen(SignalKind::user_defined1(), "SIGUSR1")?;
    let mut reread = listen(SignalKind::hangup(), "SIGHUP")?;

    let (handle, orders) = control::pair()?;
    let (done, mut ended) = oneshot::channel();
    let devices = arguments.devices.clone();
    thread::Builder::new()
        .name("wan".into())
        .spawn(move || {
            let ready = || {
                let mut output = super::output();
                writeln!(output, "ready")
                    .and_then(|()| output.flush())
                    .context("cannot say that the emulator is ready")
            };
            // The other end waits for it, or the whole program ends.
            let _ = done.send(crate::wan::run(&spec, &devices, &orders, ready));
        })
        .context("cannot start the emulator's thread")?;
    loop {
        tokio::select! {
            result = &mut ended => return result.context("the emulator's thread ended by itself")?,
            _ = terminate.recv() => handle.stop(),
            _ = interrupt.recv() => handle.stop(),
            _ = report.recv() => {
                if let Some(counts) = handle.counts() {
                    write(&counts, arguments.counts.as_deref())?;
                }
            }
            _ = reread.recv() => replace(&handle, &arguments.config),
        }
    }
}

fn replace(handle: &Handle, path: &Path) {
    let said = match read(path) {
        Ok(spec) => {
            let said = format!(
                "follows {} now; rules: {}",
                path.display(),
                spec.rules.len()
            );
            handle.replace(spec);
            said
        }
        Err(error) => format!("keeps the old specification: {error:#}"),
    };
    note(format_args!("carrick-lab wan: {said}"));
}

/// Writes the counts whole: a reader sees the old file or the new one.
fn write(counts: &WanCounts, file: Option<&Path>) -> Result<()> {
    let json = serde_json::to_string(counts).context("cannot write the counts as JSON")?;
    let Some(path) = file else {
        return writeln!(super::output(), "{json}").context("cannot print the counts");
    };
    let beside = path.with_added_extension("new");
    fs::write(&beside, json + "\n")
        .and_then(|()| fs::rename(&beside, path))
        .with_context(|| format!("cannot write the counts to {}", path.display()))
}
