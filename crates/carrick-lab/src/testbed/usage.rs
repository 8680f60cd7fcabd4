//! CPU time of programs: of those that do not belong to the benchmark (how quiet was the machine?), and of the proxy's.

use std::fs;

use anyhow::{Context as _, Result};

use crate::testbed::Testbed;
use crate::testbed::namespace::Namespace;

/// `USER_HZ`, the unit of `/proc/PID/stat`.
const TICKS_PER_SECOND: f64 = 100.0;
/// The parent of all kernel threads.
const KTHREADD: u32 = 2;

/// CPU seconds that all programs outside the test bed have used since they were started, with their ended children.
/// Kernel threads are left out: they work for the benchmark, too.
///
/// # Errors
/// When `/proc` cannot be read.
#[expect(clippy::cast_precision_loss, reason = "clock ticks since boot")]
pub fn foreign_cpu_seconds(testbed: &Testbed) -> Result<f64> {
    let own = std::process::id();
    let mut inside = vec![own];
    for namespace in testbed.namespaces() {
        inside.extend(namespace.processes()?);
    }
    let mut ticks = 0;
    for entry in fs::read_dir("/proc").context("cannot list /proc")? {
        let Some(pid) = entry
            .ok()
            .and_then(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        else {
            continue;
        };
        // A process may end while we look: its parent's count then has its time.
        let usage = fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .as_deref()
            .and_then(parse);
        if let Some(usage) = usage
            && !inside.contains(&pid)
            && usage.parent != own
            && usage.parent != KTHREADD
            && pid != KTHREADD
        {
            ticks += usage.ticks;
        }
    }
    Ok(ticks as f64 / TICKS_PER_SECOND)
}

/// CPU seconds that the processes in a namespace have used since they were started: the part of a proxy's CPU that is
/// not packet work done for it in interrupts. Resolution 10 ms.
///
/// # Errors
/// When the namespace is gone.
#[expect(clippy::cast_precision_loss, reason = "clock ticks since boot")]
pub fn process_cpu_seconds(namespace: &Namespace) -> Result<f64> {
    let usages = namespace
        .processes()?
        .into_iter()
        .filter_map(|pid| parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?));
    Ok(usages.map(|usage| usage.ticks).sum::<u64>() as f64 / TICKS_PER_SECOND)
}

#[derive(Debug, PartialEq, Eq)]
struct Usage {
    parent: u32,
    ticks: u64,
}

/// Fields 4 and 14 to 17 (proc(5)): the parent; user and system time of the process and of its waited-for children.
fn parse(stat: &str) -> Option<Usage> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks = fields
        .get(11..15)?
        .iter()
        .map_while(|field| field.parse::<u64>().ok())
        .sum();
    Some(Usage {
        parent: fields.get(1)?.parse().ok()?,
        ticks,
    })
}

#[cfg(test)]
mod tests;
