//! Which core does which work: everything shared, or the proxy's machine on one core and all else on the other.

use std::fs;

use anyhow::{Context as _, Result, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// The two cores that a benchmark uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorePair {
    /// The core of client, server and laboratory.
    pub other: usize,
    /// The core of the proxy and of its packets.
    pub proxy: usize,
}

impl CorePair {
    /// Reads `OTHER,PROXY`.
    ///
    /// # Errors
    /// When these are not two different cores of this machine.
    pub fn parse(text: &str) -> Result<Self> {
        let (other, proxy) = text
            .split_once(',')
            .context("two cores are required, such as 0,1")?;
        let read = |core: &str| {
            core.trim()
                .parse::<usize>()
                .with_context(|| format!("`{core}` is not a core"))
        };
        let pair = Self {
            other: read(other)?,
            proxy: read(proxy)?,
        };
        if pair.other == pair.proxy {
            bail!(
                "the two cores must differ: the proxy's CPU is measured as the busy time of its core"
            );
        }
        let online = online();
        for core in [pair.other, pair.proxy] {
            if !online.contains(&core) {
                bail!("this process may not use core {core}, only {online:?}");
            }
        }
        Ok(pair)
    }
}

/// Where work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Anywhere on this process's cores.
    Shared,
    /// The proxy and the packets of its namespace on one core, everything else on the other.
    Separate(CorePair),
}

impl Placement {
    /// The cores for the proxy.
    #[must_use]
    pub fn proxy_cores(self) -> Vec<usize> {
        match self {
            Self::Shared => online(),
            Self::Separate(pair) => vec![pair.proxy],
        }
    }

    /// The cores for everything else.
    #[must_use]
    pub fn other_cores(self) -> Vec<usize> {
        match self {
            Self::Shared => online(),
            Self::Separate(pair) => vec![pair.other],
        }
    }
}

/// The cores that this process was allowed to use when it started.
#[must_use]
pub fn online() -> Vec<usize> {
    static ONLINE: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    ONLINE
        .get_or_init(|| match rustix::thread::sched_getaffinity(None) {
            Ok(set) => (0..CpuSet::MAX_CPU)
                .filter(|core| set.is_set(*core))
                .collect(),
            Err(_) => vec![0],
        })
        .clone()
}

/// Cores as `taskset -c` reads them.
#[must_use]
pub fn list(cores: &[usize]) -> String {
    cores
        .iter()
        .map(usize::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

/// Moves the calling thread.
///
/// # Errors
/// When the kernel refuses.
pub fn pin_this_thread(cores: &[usize]) -> Result<()> {
    sched_setaffinity(None, &set_of(cores))
        .with_context(|| format!("cannot move to cores {cores:?}"))
}

/// Moves all threads of a process; one that has ended meanwhile is left out.
///
/// # Errors
/// When the kernel refuses.
pub fn pin_process(pid: u32, cores: &[usize]) -> Result<()> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Ok(());
    };
    for task in tasks {
        let thread = task
            .ok()
            .and_then(|task| task.file_name().to_str()?.parse::<i32>().ok())
            .and_then(Pid::from_raw);
        match sched_setaffinity(thread, &set_of(cores)) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot move process {pid} to cores {cores:?}"));
            }
        }
    }
    Ok(())
}

/// One core as `rps_cpus` wants it: groups of 32 bits in hexadecimal, the highest first.
#[must_use]
pub fn rps_mask(core: usize) -> String {
    let mut mask = format!("{:x}", 1_u32 << (core % 32));
    for _ in 0..core / 32 {
        mask.push_str(",00000000");
    }
    mask
}

fn set_of(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    set
}

#[cfg(test)]
mod tests;
