//! The laboratory's own programs inside the test bed: origin, load and WAN emulator, each this program again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tokio::process::Command;

use crate::testbed::namespace::Namespace;
use crate::testbed::service::Service;
use crate::testbed::{Testbed, cores, wiring};
use crate::wan::spec::{WanCounts, WanSpec};

/// What each of them prints when it is at work.
const READY: &str = "ready";
/// How long that may take.
const READY_TIMEOUT: Duration = Duration::from_secs(90);
/// Between two looks at the file of counts.
const POLL: Duration = Duration::from_millis(10);

/// A WAN emulator that forwards the packets between the router's devices. When it is dropped, the kernel forwards again.
#[derive(Debug)]
pub struct WanService {
    /// `None` once it was stopped.
    service: Option<Service>,
    counts: PathBuf,
    router: Namespace,
}

impl WanService {
    /// Checks that the emulator still runs.
    ///
    /// # Errors
    /// When it has ended: with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        self.service.as_mut().map_or(Ok(()), Service::check)
    }

    /// Waits until the emulator ends by itself, which it should not; says so with the end of its log.
    pub async fn ended(&mut self) -> anyhow::Error {
        match &mut self.service {
            Some(service) => service.ended().await,
            None => anyhow::anyhow!("the WAN emulator was stopped"),
        }
    }

    /// What the emulator has counted until now; it goes on.
    ///
    /// # Errors
    /// When it has ended, or writes no counts in time.
    pub async fn counts(&mut self) -> Result<WanCounts> {
        let service = self
            .service
            .as_mut()
            .context("the WAN emulator was stopped")?;
        match fs::remove_file(&self.counts) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error)
                    .with_context(|| format!("cannot remove {}", self.counts.display()));
            }
            _ => {}
        }
        service.signal(Signal::USR1);
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            // A file that is half written is no JSON yet.
            if let Ok(counts) = read_counts(&self.counts) {
                return Ok(counts);
            }
            service.check()?;
            if Instant::now() > deadline {
                return read_counts(&self.counts);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends the emulator and returns what it counted. The kernel forwards again.
    ///
    /// # Errors
    /// When it had ended before, or left no counts.
    pub async fn stop(mut self) -> Result<WanCounts> {
        if let Some(mut service) = self.service.take() {
            service.check()?;
            service.end().await?;
        }
        read_counts(&self.counts)
    }
}

fn read_counts(file: &Path) -> Result<WanCounts> {
    let text = fs::read(file)
        .with_context(|| format!("the WAN emulator left no counts in {}", file.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{}: not the counts of a WAN", file.display()))
}

impl Drop for WanService {
    fn drop(&mut self) {
        // Killed first, so that no packet is forwarded twice. The namespace may be gone already.
        drop(self.service.take());
        let _ = wiring::set_forwarding(&self.router, true);
    }
}

impl Testbed {
    /// Lets the WAN emulator forward the packets instead of the router's kernel, and waits until it does.
    ///
    /// # Errors
    /// In the direct layout, which has no router; when the emulator does not start: with what it said.
    pub async fn start_wan(&self, spec: &WanSpec) -> Result<WanService> {
        let router = self.router().context(
            "the direct layout has no router for a WAN emulator: use the layout `routed`",
        )?;
        let number = self.next_number();
        let configuration = self.directory().join(format!("wan-{number}.toml"));
        let counts = self.directory().join(format!("wan-{number}.json"));
        let text = toml::to_string(spec).context("cannot write the WAN's rules as TOML")?;
        crate::testbed::files::write(&configuration, text)?;
        let mut command = self.this_program(router)?;
        command.arg("wan").arg("--config").arg(&configuration);
        command.arg("--counts").arg(&counts);
        wiring::set_forwarding(router, false)?;
        let log = self.directory().join(format!("wan-{number}.log"));
        // From here on, dropping it restores the kernel's forwarding.
        let mut wan = WanService {
            service: None,
            counts,
            router: router.clone(),
        };
        let mut service = Service::start("the WAN emulator", command, router, log, false)?;
        service.wait_for_line(READY, READY_TIMEOUT).await?;
        wan.service = Some(service);
        Ok(wan)
    }

    /// Starts `carrick-lab origin` in the server's namespace with these arguments (`--listen ADDRESS` among them), and waits
    /// until it serves.
    ///
    /// # Errors
    /// When it does not start: with what it said.
    pub async fn start_origin(&self, arguments: &[String]) -> Result<Service> {
        let mut command = self.this_program(&self.server)?;
        command.arg("origin").args(arguments);
        let log = self
            .directory()
            .join(format!("origin-{}.log", self.next_number()));
        let mut service = Service::start("the origin", command, &self.server, log, false)?;
        service.wait_for_line(READY, READY_TIMEOUT).await?;
        Ok(service)
    }

    /// This program again (or that of [`Self::set_program`]), inside a namespace, away from the proxy's core: a subcommand of the laboratory is to follow.
    ///
    /// # Errors
    /// When the program's own file cannot be found.
    pub fn this_program(&self, namespace: &Namespace) -> Result<Command> {
        let program = match &self.program {
            Some(program) => program.clone(),
            None => crate::program::this_program()?,
        };
        Ok(namespace.command(&program, &cores::list(&self.placement().other_cores())))
    }
}
