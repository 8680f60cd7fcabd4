//! The busy time of one core: wall-clock time less what the kernel accounted as idle.
//!
//! `user`, `system` and `softirq` in `/proc/stat` are *sampled* by the timer tick on kernels with tick accounting (the
//! usual choice), which misses work that is woken and done between two ticks: most of a proxy's. Idle time is different:
//! `tick_nohz_start_idle` and `tick_nohz_stop_idle` take the clock at each entry to and exit from idle, interrupts
//! excluded. `/proc/timer_list` shows these sums in nanoseconds; `/proc/stat` shows the same sums in hundredths of a second.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::testbed::cores;
use crate::testbed::slowdown::Slowdown;

const TIMER_LIST: &str = "/proc/timer_list";
const STAT: &str = "/proc/stat";
/// `USER_HZ`, the unit of `/proc/stat`, on every architecture that carrick runs on.
const STAT_TICKS_PER_SECOND: u64 = 100;

/// Where idle time is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `/proc/timer_list`, nanoseconds.
    TimerList,
    /// `/proc/stat`, hundredths of a second.
    Stat,
}

impl Source {
    /// What a reader of the report should know.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::TimerList => {
                "idle time from /proc/timer_list, resolution 1 ns; each reading itself costs the core about 0.1 ms"
            }
            Self::Stat => "idle time from /proc/stat, resolution 10 ms",
        }
    }

    /// What a difference of two readings cannot show, in seconds: the clock's step, and what the readings cost.
    #[must_use]
    pub fn resolution_seconds(self) -> f64 {
        match self {
            Self::TimerList => 0.000_1,
            Self::Stat => 0.01,
        }
    }
}

/// Reads one core's busy time.
#[derive(Clone, Copy, Debug)]
pub struct BusyMeter {
    core: usize,
    source: Source,
}

/// A moment, and how long the core had been idle until then.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    at: Instant,
    idle: Duration,
    stolen: Duration,
    sampled: Duration,
    taken: Duration,
}

/// What happened on the core between two readings.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Busy {
    /// Seconds between the readings.
    pub wall_seconds: f64,
    /// Seconds in which the core was not idle.
    pub busy_seconds: f64,
    /// Seconds in which the hypervisor ran something else (part of `busy_seconds`; resolution 10 ms).
    pub stolen_seconds: f64,
    /// What the timer tick's samples would make of it (user, nice, system, irq, softirq of `/proc/stat`); for
    /// comparison only.
    #[serde(default)]
    pub sampled_seconds: f64,
    /// Seconds that a [`Slowdown`] took (part of `busy_seconds`).
    #[serde(default)]
    pub taken_seconds: f64,
}

impl BusyMeter {
    /// Chooses the finest source that this kernel has.
    ///
    /// # Errors
    /// When neither source tells about that core.
    pub fn new(core: usize) -> Result<Self> {
        let timer_list = fs::read_to_string(TIMER_LIST)
            .ok()
            .and_then(|text| idle_in_timer_list(&text, core));
        let source = if timer_list.is_some() {
            Source::TimerList
        } else {
            Source::Stat
        };
        let meter = Self { core, source };
        meter.read()?;
        Ok(meter)
    }

    /// Where this meter reads from.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Takes a reading. The calling thread moves to the core for it: a core that is idle at that moment has not yet
    /// added the time since it went idle, and running there ends the idle period.
    ///
    /// # Errors
    /// When the thread cannot be moved or the source cannot be read.
    pub fn read(&self) -> Result<Reading> {
        self.read_beside(None)
    }

    /// As [`Self::read`], with what a slowdown of this core has taken until the same moment.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_beside(&self, slowdown: Option<&Slowdown>) -> Result<Reading> {
        let before =
            rustix::thread::sched_getaffinity(None).context("cannot read this thread's cores")?;
        cores::pin_this_thread(&[self.core])?;
        let reading = self.read_here(slowdown);
        rustix::thread::sched_setaffinity(None, &before).context("cannot move this thread back")?;
        reading
    }

    fn read_here(&self, slowdown: Option<&Slowdown>) -> Result<Reading> {
        let stat = fs::read_to_string(STAT).with_context(|| format!("cannot read {STAT}"))?;
        let (at, taken) = now_beside(slowdown);
        let idle = match self.source {
            Source::TimerList => {
                let text = fs::read_to_string(TIMER_LIST)
                    .with_context(|| format!("cannot read {TIMER_LIST}"))?;
                idle_in_timer_list(&text, self.core)
            }
            Source::Stat => stat_fields(&stat, self.core).map(|fields| fields.idle),
        };
        let idle = idle.with_context(|| format!("no idle time of core {}", self.core))?;
        let fields = stat_fields(&stat, self.core)
            .with_context(|| format!("{STAT} lacks core {}", self.core))?;
        Ok(Reading {
            at,
            idle,
            stolen: fields.stolen,
            sampled: fields.sampled,
            taken,
        })
    }
}

/// A moment, and what a slowdown has taken until then. The caller is on its core: either this thread runs or the spinner.
fn now_beside(slowdown: Option<&Slowdown>) -> (Instant, Duration) {
    let Some(slowdown) = slowdown else {
        return (Instant::now(), Duration::ZERO);
    };
    loop {
        let before = slowdown.taken();
        let at = Instant::now();
        if slowdown.taken() == before {
            return (at, before);
        }
    }
}

impl Reading {
    /// What happened since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Busy {
        let wall = self.at.duration_since(earlier.at);
        Busy {
            wall_seconds: wall.as_secs_f64(),
            busy_seconds: wall
                .saturating_sub(self.idle.saturating_sub(earlier.idle))
                .as_secs_f64(),
            sampled_seconds: self.sampled.saturating_sub(earlier.sampled).as_secs_f64(),
            stolen_seconds: self.stolen.saturating_sub(earlier.stolen).as_secs_f64(),
            taken_seconds: self.taken.saturating_sub(earlier.taken).as_secs_f64(),
        }
    }
}

/// `idle_sleeptime` and `iowait_sleeptime` below the line `cpu: N` (kernel/time/timer_list.c, `print_cpu`).
fn idle_in_timer_list(text: &str, core: usize) -> Option<Duration> {
    let header = format!("cpu: {core}");
    let mut lines = text
        .lines()
        .skip_while(|line| line.trim() != header)
        .skip(1);
    let mut sums = [None; 2];
    for line in lines.by_ref().take_while(|line| !line.starts_with("cpu: ")) {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let slot = match key.trim() {
            ".idle_sleeptime" => 0,
            ".iowait_sleeptime" => 1,
            _ => continue,
        };
        sums[slot] = value.trim().trim_end_matches(" nsecs").parse::<u64>().ok();
    }
    Some(Duration::from_nanos(sums[0]?.checked_add(sums[1]?)?))
}

struct StatFields {
    idle: Duration,
    sampled: Duration,
    stolen: Duration,
}

/// Fields of the line `cpuN` (proc(5)): user nice system idle iowait irq softirq steal.
fn stat_fields(text: &str, core: usize) -> Option<StatFields> {
    let label = format!("cpu{core}");
    let line = text
        .lines()
        .find(|line| line.split_whitespace().next() == Some(&label))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .map_while(|field| field.parse().ok())
        .collect();
    let to_duration = |ticks: u64| Duration::from_millis(ticks * 1000 / STAT_TICKS_PER_SECOND);
    Some(StatFields {
        idle: to_duration(ticks.get(3)? + ticks.get(4)?),
        sampled: to_duration(ticks.get(..3)?.iter().chain(ticks.get(5..7)?).sum()),
        stolen: to_duration(*ticks.get(7)?),
    })
}

#[cfg(test)]
mod tests;
