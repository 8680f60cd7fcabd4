//! A long-running program inside a namespace: an origin or a proxy, with its log.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use crate::testbed::namespace::Namespace;

/// How much of a log an error quotes.
const LOG_LINES_QUOTED: usize = 8;
/// How long a program may take to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// A running program; it and all that it started in its namespace are killed on drop.
#[derive(Debug)]
pub struct Service {
    name: String,
    child: Child,
    pid: u32,
    log: PathBuf,
    namespace: Namespace,
    owns_namespace: bool,
}

impl Service {
    /// Starts a command that was made by [`Namespace::command`]. `owns_namespace`: it is the only service there, so
    /// stopping it kills whatever is left in the namespace (workers that outlive their master).
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        name: &str,
        mut command: Command,
        namespace: &Namespace,
        log: PathBuf,
        owns_namespace: bool,
    ) -> Result<Self> {
        let file =
            File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let errors = file
            .try_clone()
            .context("cannot duplicate the log's descriptor")?;
        let child = command
            .stdin(std::process::Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let pid = child
            .id()
            .with_context(|| format!("{name} ended at once"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            pid,
            log,
            namespace: namespace.clone(),
            owns_namespace,
        })
    }

    /// The process that was started (a master, if the program has workers).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Checks that the program still runs.
    ///
    /// # Errors
    /// When it has ended: with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self
            .child
            .try_wait()
            .with_context(|| format!("cannot wait for {}", self.name))?
        {
            bail!(
                "{} ended ({status}); its log ends:\n{}",
                self.name,
                self.log_tail()
            );
        }
        Ok(())
    }

    /// Waits until the program ends by itself; says so with the end of its log.
    pub async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => anyhow::anyhow!(
                "{} ended ({status}); its log ends:\n{}",
                self.name,
                self.log_tail()
            ),
            Err(error) => {
                anyhow::Error::from(error).context(format!("cannot wait for {}", self.name))
            }
        }
    }

    /// The last lines of the log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_QUOTED)..].join("\n")
    }

    /// Asks it to end, and kills it if it does not.
    pub async fn stop(mut self) {
        // In each of these cases it may have ended already.
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        if tokio::time::timeout(END_TIMEOUT, self.child.wait())
            .await
            .is_err()
        {
            let _ = self.child.start_kill();
            let _ = self.child.wait().await;
        }
    }

    /// Connections that the service's namespace has accepted since it was made (`PassiveOpens`, RFC 4022), and opened.
    ///
    /// # Errors
    /// When the service has ended.
    pub fn connections(&self) -> Result<Connections> {
        let path = format!("/proc/{}/net/snmp", self.pid);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {path}: {} ended?", self.name))?;
        Connections::parse(&text).with_context(|| format!("{path} has no counters of TCP"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        if self.owns_namespace {
            self.namespace.kill_processes();
        }
    }
}

/// Counters of TCP connections in one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Connections opened from inside.
    pub opened: u64,
    /// Connections accepted inside.
    pub accepted: u64,
}

impl Connections {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
        let names = lines.next()?.split_whitespace();
        let values = lines.next()?.split_whitespace();
        let column = |wanted: &str| {
            names
                .clone()
                .zip(values.clone())
                .find(|(name, _)| *name == wanted)?
                .1
                .parse()
                .ok()
        };
        Some(Self {
            opened: column("ActiveOpens")?,
            accepted: column("PassiveOpens")?,
        })
    }
}

#[cfg(test)]
mod tests;
