//! A long-running program inside a namespace: an origin or a proxy, with its log.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use crate::testbed::namespace::Namespace;
use crate::testbed::rules::Rules;

/// How much of a log an error quotes.
const LOG_LINES_QUOTED: usize = 8;
/// A program that must end by itself hangs after this time.
const HANG: Duration = Duration::from_secs(60);
/// How long a program that may be killed has to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// Between two looks at a program that is coming up.
const POLL: Duration = Duration::from_millis(10);

/// A running program; it and all that it started in its namespace are killed on drop.
#[derive(Debug)]
pub struct Service {
    name: String,
    child: Child,
    pid: u32,
    log: PathBuf,
    namespace: Namespace,
    owns_namespace: bool,
    /// Removed when the program is.
    rules: Option<Rules>,
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
            rules: None,
        })
    }

    /// The same with rules of the kernel that are to go with it.
    #[must_use]
    pub fn with_rules(mut self, rules: Option<Rules>) -> Self {
        self.rules = rules;
        self
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
        let text = self.log_text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_QUOTED)..].join("\n")
    }

    fn log_text(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Waits until the program has written a line that begins with a word; the rest of that line.
    ///
    /// # Errors
    /// When it ends instead, or does not do so in time: with the end of its log.
    pub async fn wait_for_line(&mut self, word: &str, timeout: Duration) -> Result<String> {
        let deadline = Instant::now() + timeout;
        loop {
            // Looked at before the log: what an ended program has written is all there.
            let ended = self.check();
            if let Some(rest) = line_of(&self.log_text(), word) {
                return Ok(rest);
            }
            ended?;
            if Instant::now() > deadline {
                bail!(
                    "{} is not ready after {} s; its log ends:\n{}",
                    self.name,
                    timeout.as_secs(),
                    self.log_tail()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until a program in the service's namespace listens on a TCP port. No connection is made for it.
    ///
    /// # Errors
    /// When the program ends instead, or does not do so in time: with the end of its log.
    pub async fn wait_until_listening(&mut self, port: u16, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            self.check()?;
            if self.namespace.is_listening(port)? {
                break;
            }
            if Instant::now() > deadline {
                bail!(
                    "{} does not listen on port {port} after {} s; its log ends:\n{}",
                    self.name,
                    timeout.as_secs(),
                    self.log_tail()
                );
            }
            tokio::time::sleep(POLL).await;
        }
        // It listens before its engines are loaded, and says when they are.
        if self.name.starts_with("carrick") {
            self.wait_for_line("carrick", timeout).await?;
        }
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// When it does not end in time (then it is killed), or fails: with the end of its log.
    pub async fn end(mut self) -> Result<()> {
        self.ask_to_end();
        let status = tokio::time::timeout(HANG, self.child.wait())
            .await
            .with_context(|| {
                format!(
                    "{} did not end within {} s of SIGTERM",
                    self.name,
                    HANG.as_secs()
                )
            })?
            .with_context(|| format!("cannot wait for {}", self.name))?;
        if !status.success() {
            bail!(
                "{} failed at its end ({status}); its log ends:\n{}",
                self.name,
                self.log_tail()
            );
        }
        Ok(())
    }

    fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal; does nothing if the program has ended.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // It may have ended already.
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks it to end, and kills it if it does not.
    pub async fn stop(mut self) {
        self.ask_to_end();
        if tokio::time::timeout(END_TIMEOUT, self.child.wait())
            .await
            .is_err()
        {
            let _ = self.child.start_kill();
            let _ = self.child.wait().await;
        }
    }

    /// Kills it and waits until it is gone, with all that it started in a namespace of its own: then nothing listens there
    /// any more.
    pub async fn kill(mut self) {
        let _ = self.child.start_kill();
        let _ = self.child.wait().await;
        if self.owns_namespace {
            self.namespace.kill_processes();
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

/// What stands behind the word at the beginning of the first line that begins with it and is complete.
fn line_of(text: &str, word: &str) -> Option<String> {
    text.split_inclusive('\n').find_map(|line| {
        let rest = line.strip_suffix('\n')?.strip_prefix(word)?;
        (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim().to_owned())
    })
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
