//! Notes what the file asks of this machine, and the machine does not have: memory and cores.
#[cfg(test)]
mod tests;

use crate::config::file::File;
use crate::config::problem::Problems;
use crate::config::values::show_size;
use rustix::system::sysinfo;
use std::path::Path;

/// So many workers for each core do no harm; more only take turns.
const WORKERS_PER_CORE_MAX: u64 = 2;

/// What there is.
pub(super) struct Machine {
    /// Of the machine, or what the control group of this process leaves of it; `None`: not known.
    memory_bytes: Option<u64>,
    /// That this process may run on.
    cores: u64,
}

impl Machine {
    /// The one that this runs on.
    pub(super) fn here() -> Self {
        Self {
            memory_bytes: memory_bytes(),
            cores: super::workers(0) as u64,
        }
    }
}

/// Notes a cache that is larger than memory, and workers that are many more than cores.
pub(super) fn check(file: &File, machine: &Machine, problems: &mut Problems) {
    let cache = file.cache.given().map(toml::Spanned::get_ref);
    if let Some(cache) = cache
        && let Some(span) = cache.value("memory")
        && let Some(limit) = machine.memory_bytes.filter(|limit| *limit < cache.memory)
    {
        // Whole gigabytes, or megabytes, are near enough and can be read.
        let unit_bits = if limit >> 30 > 9 { 30 } else { 20 };
        let there_is = show_size(limit >> unit_bits << unit_bits);
        problems
            .note(
                span,
                format!("this carrick can have at most {} of memory", there_is.trim_matches('"')),
            )
            .help("when the cache is full, the kernel ends carrick; leave room for connections and for other programs, too");
    }
    let cores = machine.cores;
    if let Some(span) = file.workers.value("count")
        && file.workers.count > cores.saturating_mul(WORKERS_PER_CORE_MAX)
    {
        let of = if cores == 1 { "core" } else { "cores" };
        problems
            .note(span, format!("carrick may run on {cores} {of} only"))
            .help("each worker has buffers and pools of its own; 0, the default, is one worker for each core");
    }
}

fn memory_bytes() -> Option<u64> {
    let machine = sysinfo();
    let machine = machine.totalram.checked_mul(machine.mem_unit.into())?;
    Some(control_group_bytes().map_or(machine, |limit| limit.min(machine)))
}

/// The least limit of the control group and those above it, if there is one (cgroup v2, `memory.max`).
fn control_group_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Path::new(own)
        .ancestors()
        .filter_map(|group| {
            let file = Path::new("/sys/fs/cgroup").join(group).join("memory.max");
            std::fs::read_to_string(file).ok()?.trim().parse().ok()
        })
        .min()
}
