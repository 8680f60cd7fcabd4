//! What a series has to reach in a workload, alone or against others.

use serde::{Deserialize, Serialize};

/// A bound for one metric of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The series that is judged.
    #[serde(default = "as_users_get_it")]
    pub of: String,
    /// What is judged.
    pub what: What,
    /// At least for rates, at most for everything else: a factor of the best of the others, or without others the value itself.
    pub bound: f64,
    /// Series, or the programs behind them, of which the best one counts; none: the bound is the value itself.
    #[serde(default)]
    pub than: Vec<String>,
}

/// What is judged: the median of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Requests (or messages, or bits) per second: as many as possible.
    Rate,
    /// CPU of the proxy's core for each: as little as possible.
    Cpu,
    /// CPU of the proxy's process alone for each: as little as possible.
    Process,
    /// The median latency: as low as possible.
    Latency,
    /// Requests that the origin gets of a crowd that asks for one object.
    Fetches,
    /// The last client of a crowd: its time divided by that of the first one.
    LastToFirst,
    /// Bytes of the proxy's processes for each connection or object.
    Memory,
    /// The same with those of the kernel's slabs.
    MemoryAndKernel,
}

impl What {
    /// Whether it is of memory, not of speed.
    #[must_use]
    pub fn is_memory(self) -> bool {
        matches!(self, Self::Memory | Self::MemoryAndKernel)
    }

    /// The value of the parameter `cores` at which it is taken: rates and latencies with shared cores, CPU with separate ones.
    #[must_use]
    pub fn cores(self) -> &'static str {
        match self {
            Self::Cpu | Self::Process => "separate",
            _ => "shared",
        }
    }
}

/// The row that the targets judge if they name no other.
fn as_users_get_it() -> String {
    String::from(crate::peers::JUDGED)
}
