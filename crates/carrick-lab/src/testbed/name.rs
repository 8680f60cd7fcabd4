//! The name of a run: a prefix, the process and its start time, so that leftovers can be told from a run that is alive; and
//! a number, as a process may have several.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

/// Everything that the laboratory makes on a machine has a name that starts so.
/// Letters and digits only, because Squid's service names allow nothing else.
pub const PREFIX: &str = "carricklab";
/// A file system in memory.
pub const MEMORY_DIRECTORY: &str = "/dev/shm";
/// A file system on disk, also where `/tmp` is in memory (file-hierarchy(7)).
pub const DISK_DIRECTORY: &str = "/var/tmp";

/// A process, and when it was started, in clock ticks since boot: unlike a pid alone it is never used twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunName {
    pid: u32,
    started_ticks: u64,
    number: u32,
}

impl RunName {
    /// The name of the next run of this process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn of_this_process() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let pid = std::process::id();
        let started_ticks =
            started_ticks(pid).context("cannot read the start time of this process from /proc")?;
        Ok(Self {
            pid,
            started_ticks,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        })
    }

    /// Reads `carricklabPIDxSTARTbNUMBER`, with or without the number, and with anything behind it that does not go on as a word; `None` for names that are not
    /// ours.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.strip_prefix(PREFIX)?;
        let end = numbers
            .find(|letter: char| !letter.is_ascii_alphanumeric())
            .unwrap_or(numbers.len());
        let (pid, rest) = numbers[..end].split_once('x')?;
        let (started_ticks, number) = rest.split_once('b').unwrap_or((rest, "0"));
        Some(Self {
            pid: pid.parse().ok()?,
            started_ticks: started_ticks.parse().ok()?,
            number: number.parse().ok()?,
        })
    }

    /// Whether the process that made the run still exists.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        started_ticks(self.pid) == Some(self.started_ticks)
    }

    /// The name of a part of the run.
    #[must_use]
    pub fn part(&self, role: &str) -> String {
        format!("{self}.{role}")
    }

    /// The run's directory, in memory where the machine has such a file system.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        memory_directory().join(self.to_string())
    }

    /// The run's directory on disk, for the few that want one.
    #[must_use]
    pub fn disk_directory(&self) -> PathBuf {
        Path::new(DISK_DIRECTORY).join(self.to_string())
    }
}

impl std::fmt::Display for RunName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{PREFIX}{}x{}b{}",
            self.pid, self.started_ticks, self.number
        )
    }
}

/// Where runs keep their files.
#[must_use]
pub fn memory_directory() -> PathBuf {
    let memory = PathBuf::from(MEMORY_DIRECTORY);
    if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    }
}

/// Field 22 of `/proc/PID/stat` (proc(5)); counted behind the command's name, which may hold spaces and brackets.
fn started_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests;
