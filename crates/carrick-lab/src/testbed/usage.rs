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

/// CPU seconds that the processes in a namespace have used since they were started, user and system: the part of a
/// proxy's CPU that is not packet work done for it elsewhere. Interrupts that hit it while it runs are in it, unless the
/// kernel keeps account of them (`CONFIG_IRQ_TIME_ACCOUNTING`). In nanoseconds where `/proc/PID/task/TID/schedstat` is
/// there (a thread that has ended takes its time with it), else in hundredths of a second.
///
/// # Errors
/// When the namespace is gone.
pub fn process_cpu_seconds(namespace: &Namespace) -> Result<f64> {
    let seconds = |pid| match scheduled_nanoseconds(pid) {
        Some(nanoseconds) => Some(nanoseconds as f64 / 1e9),
        None => {
            let usage = parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
            Some(usage.ticks as f64 / TICKS_PER_SECOND)
        }
    };
    Ok(namespace.processes()?.into_iter().filter_map(seconds).sum())
}

/// How long all threads of a process have been on a core. `None` if the kernel does not say.
fn scheduled_nanoseconds(pid: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut sum = None;
    for thread in threads.flatten() {
        let said = fs::read_to_string(thread.path().join("schedstat")).ok();
        if let Some(nanoseconds) = said.as_deref().and_then(parse_schedstat) {
            *sum.get_or_insert(0) += nanoseconds;
        }
    }
    sum
}

/// The first of three numbers (Documentation/scheduler/sched-stats.rst, `/proc/<pid>/schedstat`).
fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
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
