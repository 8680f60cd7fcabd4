//! The proxy's CPU: what its core did, interrupts and kernel workers included, less what it does without a proxy.

use std::fs;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::testbed::Testbed;
use crate::testbed::busy::{BusyMeter, Reading, Source};
use crate::testbed::cores::Placement;
use crate::testbed::slowdown::Slowdown;
use crate::testbed::usage::{foreign_cpu_seconds, process_cpu_seconds};

/// Packets that a core received and dropped because its queue was full (`net.core.netdev_max_backlog`).
const SOFTNET: &str = "/proc/net/softnet_stat";

/// With a larger background, what is left of the core's busy time is not the proxy's.
const BACKGROUND_SHARE_MAX: f64 = 0.2;

/// A measurement that has begun.
#[derive(Debug)]
pub struct Meter<'a> {
    testbed: &'a Testbed,
    slowdown: Option<&'a Slowdown>,
    started: Instant,
    foreign_seconds: f64,
    process_seconds: f64,
    backlog_dropped: u64,
    busy: BusyMeter,
    before: Reading,
}

/// What the proxy's machine used between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProxyCpu {
    /// Seconds between the moments.
    pub wall_seconds: f64,
    /// Seconds of the core for the proxy: its processes, system calls, interrupts, packets and kernel workers. The
    /// background is taken off, and what a [`Slowdown`] took; never below nought.
    pub busy_seconds: f64,
    /// Seconds in which the core was not idle, background and slowdown included.
    pub core_busy_seconds: f64,
    /// Seconds of the core that a [`Slowdown`] took.
    #[serde(default)]
    pub taken_seconds: f64,
    /// The core's busy share without a proxy, as measured by [`Testbed::calibrate`]; nought if that was not done.
    pub background_share: f64,
    /// Of `core_busy_seconds`: what the hypervisor took away (resolution 10 ms).
    pub stolen_seconds: f64,
    /// Of `busy_seconds`: what the kernel accounts to the proxy's processes ([`process_cpu_seconds`]).
    pub process_seconds: f64,
    /// Where the idle time is read from, and so the resolution.
    pub source: Source,
    /// Cores that programs outside the test bed kept busy meanwhile: above about 0.05, they may have disturbed.
    pub foreign_cores: f64,
    /// Packets dropped because a core's queue was full, on the whole machine: nought, or the figures are not to be trusted.
    pub backlog_dropped: u64,
}

impl<'a> Meter<'a> {
    /// Begins: everything is read, the core's idle time last, so that the window holds little else than the work.
    ///
    /// # Errors
    /// When the proxy does not have a core of its own ([`Testbed::place`]), or something cannot be read.
    pub fn start(testbed: &'a Testbed) -> Result<Self> {
        Self::start_beside(testbed, None)
    }

    /// As [`Self::start`], beside what [`Testbed::slow_down`] returned.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_beside(testbed: &'a Testbed, slowdown: Option<&'a Slowdown>) -> Result<Self> {
        let Placement::Separate(pair) = testbed.placement() else {
            bail!("the proxy's CPU can only be measured while it has a core of its own");
        };
        let busy = BusyMeter::new(pair.proxy)?;
        Ok(Self {
            testbed,
            slowdown,
            started: Instant::now(),
            foreign_seconds: foreign_cpu_seconds(testbed)?,
            process_seconds: process_cpu_seconds(&testbed.proxy)?,
            backlog_dropped: backlog_dropped()?,
            busy,
            before: busy.read_beside(slowdown)?,
        })
    }

    /// Ends, while the proxy still runs.
    ///
    /// # Errors
    /// When something cannot be read.
    pub fn finish(self) -> Result<ProxyCpu> {
        let busy = self.busy.read_beside(self.slowdown)?.since(&self.before);
        let process_seconds = process_cpu_seconds(&self.testbed.proxy)? - self.process_seconds;
        let foreign_seconds = foreign_cpu_seconds(self.testbed)? - self.foreign_seconds;
        let background_share = self.testbed.background_share();
        let background_seconds = background_share * busy.wall_seconds;
        Ok(ProxyCpu {
            wall_seconds: busy.wall_seconds,
            busy_seconds: (busy.busy_seconds - busy.taken_seconds - background_seconds).max(0.0),
            core_busy_seconds: busy.busy_seconds,
            taken_seconds: busy.taken_seconds,
            background_share,
            stolen_seconds: busy.stolen_seconds,
            // A process that has ended takes its time with it.
            process_seconds: process_seconds.max(0.0),
            source: self.busy.source(),
            foreign_cores: foreign_seconds.max(0.0) / self.started.elapsed().as_secs_f64(),
            backlog_dropped: backlog_dropped()?.saturating_sub(self.backlog_dropped),
        })
    }
}

impl ProxyCpu {
    /// Whether the figures say anything: not if the core was busy with something else when its background was measured.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.background_share < BACKGROUND_SHARE_MAX
    }

    /// Share of what the proxy had of its core, in percent: the papers' CPU utilisation.
    #[must_use]
    pub fn utilization_percent(&self) -> f64 {
        100.0 * self.busy_seconds / (self.wall_seconds - self.taken_seconds)
    }

    /// What the proxy had of its core: 1, or less beside a [`Slowdown`].
    #[must_use]
    pub fn core_share(&self) -> f64 {
        1.0 - self.taken_seconds / self.wall_seconds
    }

    /// What the figure cannot show, in seconds of this measurement: the clock's step at both ends, and what the readings
    /// themselves cost.
    #[must_use]
    pub fn resolution_seconds(&self) -> f64 {
        self.source.resolution_seconds()
    }
}

fn backlog_dropped() -> Result<u64> {
    let text = fs::read_to_string(SOFTNET).with_context(|| format!("cannot read {SOFTNET}"))?;
    sum_dropped(&text).with_context(|| format!("{SOFTNET} is not as expected"))
}

/// A line for each core, numbers in hexadecimal, the second one what was dropped (net/core/net-procfs.c).
fn sum_dropped(text: &str) -> Option<u64> {
    text.lines()
        .map(|line| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok())
        .sum()
}

#[cfg(test)]
mod tests;
