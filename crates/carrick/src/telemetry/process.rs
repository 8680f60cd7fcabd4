//! The kernel's figures for this process: memory, descriptors, processor time.
use std::fs;

/// Each field is read separately, because `/proc` may be restricted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process {
    /// Memory in RAM.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
    /// Limit on open file descriptors.
    pub max_fds: Option<u64>,
    /// User and system time.
    pub cpu_seconds: Option<f64>,
}

impl Process {
    /// Reads the current figures.
    #[must_use]
    pub fn read() -> Self {
        Self {
            resident_bytes: fs::read_to_string("/proc/self/status")
                .ok()
                .and_then(|text| resident_bytes(&text)),
            open_fds: open_fds(),
            max_fds: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            cpu_seconds: fs::read_to_string("/proc/self/stat")
                .ok()
                .and_then(|text| cpu_seconds(&text)),
        }
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Since 6.2, the kernel reports the number as the size of the directory (`proc_fd_getattr`); before, entries are
/// counted, one of which is the directory itself.
fn open_fds() -> Option<u64> {
    let size = fs::metadata("/proc/self/fd").ok()?.len();
    if size > 0 {
        return Some(size);
    }
    let entries = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(entries.saturating_sub(1)).ok()
}

/// Fields 14 and 15 of `/proc/self/stat` (proc_pid_stat(5)), in units of `USER_HZ`, which is 100 on every architecture
/// that carrick supports.
fn cpu_seconds(stat: &str) -> Option<f64> {
    const USER_HZ: f64 = 100.0;
    // The second field is the program's name in parentheses, and may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / USER_HZ)
}

#[cfg(test)]
mod tests;
