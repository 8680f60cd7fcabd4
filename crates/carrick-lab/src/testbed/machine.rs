//! The machine that was measured on.

use std::fs;

use serde::{Deserialize, Serialize};

/// What a reader needs to know to compare.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// As `uname -r` has it.
    pub kernel: String,
    /// The processor's name.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in KiB.
    pub memory_kib: u64,
    /// The load of the last minute when the benchmark began: above about 0.3, others were at work.
    pub load_at_start: String,
    /// Mitigations of the processor's faults, which make system calls dearer.
    pub mitigations: Vec<String>,
}

impl Machine {
    /// Reads it; what the kernel does not tell is left empty.
    #[must_use]
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))
                .map(|value| value.trim().to_owned())
        };
        let memory = field(&text("/proc/meminfo"), "MemTotal").unwrap_or_default();
        Self {
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: field(&text("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: crate::testbed::cores::online().len(),
            memory_kib: memory
                .split(' ')
                .next()
                .and_then(|value| value.parse().ok())
                .unwrap_or(0),
            load_at_start: text("/proc/loadavg")
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_owned(),
            mitigations: mitigations(),
        }
    }
}

fn mitigations() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return Vec::new();
    };
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let state = fs::read_to_string(entry.path()).ok()?;
            let means = state.trim().strip_prefix("Mitigation: ")?.to_owned();
            Some(format!("{}: {means}", entry.file_name().to_string_lossy()))
        })
        .collect();
    found.sort();
    found
}
