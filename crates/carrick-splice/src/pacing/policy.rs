//! How much spliced traffic may go while a worker has work of its own: the controls behind the policies,
//! without a clock.

use std::time::Duration;

/// The most unused credit that is kept, in bytes.
pub(super) const CREDIT_MAX: u64 = 1 << 20;

/// When a worker that does not block lets splices go (Rosu 2003, Figure 3): after this long without, for a
/// few bursts. Then it counts anew, so that a long busy worker still holds splices back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Patience {
    since_ns: u64,
}

/// The most bursts at a time while the worker is busy: its own requests wait for all of them.
pub(super) const BURSTS_MAX: usize = 16;

impl Patience {
    /// The worker has become runnable, or has just let go what waited.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// How long it has let nothing go.
    pub(super) fn lasts(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(now_ns.saturating_sub(self.since_ns))
    }
}

/// What a worker did in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) local_requests: u64,
    pub(super) local_bytes: u64,
    pub(super) spliced_requests: u64,
}

/// The paper's *proportional rate*: the ratio of bytes spliced to bytes served by the worker is that of the
/// requests. Requests count on arrival, so that a held-back class does not seem less in demand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Proportion {
    /// Requests that are spliced, for each that the worker serves.
    ratio: f64,
}

/// Limits of the ratio: an interval in which one kind was rare does not shut it out.
const RATIO_MIN: f64 = 1.0 / 64.0;
const RATIO_MAX: f64 = 64.0;

/// With fewer requests in an interval, the next one keeps the previous ratio.
const REQUESTS_MIN: u64 = 10;

impl Proportion {
    /// Initially, a byte for a byte.
    pub(super) fn new() -> Proportion {
        Proportion { ratio: 1.0 }
    }

    /// Takes the bound for the next interval from what happened in this one.
    pub(super) fn end_interval(&mut self, interval: &Interval) {
        if interval.local_requests + interval.spliced_requests < REQUESTS_MIN {
            return;
        }
        let ratio = interval.spliced_requests as f64 / interval.local_requests.max(1) as f64;
        self.ratio = ratio.clamp(RATIO_MIN, RATIO_MAX);
    }

    /// What may be spliced for bytes that the worker has served.
    pub(super) fn credit(&self, local_bytes: u64) -> u64 {
        (local_bytes as f64 * self.ratio) as u64
    }

    /// Bytes that may be spliced for a thousand that are served.
    pub(super) fn per_thousand(&self) -> u64 {
        (self.ratio * 1000.0) as u64
    }
}

/// Keeps the 99th percentile of hits below a target, and gives spliced transfers the rest: more bytes per
/// round while there is time left, at once fewer when there is none (additive increase, multiplicative
/// decrease as in TCP, stable as long as more bytes mean more delay).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DeadlineControl {
    target: Duration,
    /// Bytes in a round.
    budget: f64,
}

/// The least budget: with none, nothing would be learned.
const BUDGET_MIN: f64 = 16.0 * 1024.0;

/// More than a worker can forward within the longest target.
const BUDGET_MAX: f64 = (16 << 20) as f64;

const BUDGET_STEP: f64 = 16.0 * 1024.0;

/// Aims below the target, to meet it despite late estimates.
const AIM: f64 = 0.8;

/// The largest cut of a budget.
const CUT_MAX: f64 = 0.5;

impl DeadlineControl {
    pub(super) fn new(target: Duration) -> DeadlineControl {
        DeadlineControl {
            target,
            budget: 4.0 * BUDGET_MIN,
        }
    }

    pub(super) fn target(&self) -> Duration {
        self.target
    }

    /// Takes the next step. `p99` of the hits since the last one; `None` if there were too few to say.
    pub(super) fn step(&mut self, p99: Option<Duration>) {
        let share = p99.map_or(0.0, |p99| p99.as_secs_f64() / self.target.as_secs_f64());
        if share > AIM {
            self.budget *= (AIM / share).max(CUT_MAX);
        } else {
            self.budget += BUDGET_STEP;
        }
        self.budget = self.budget.clamp(BUDGET_MIN, BUDGET_MAX);
    }

    /// Bytes for a round.
    pub(super) fn budget(&self) -> u64 {
        self.budget as u64
    }
}

/// A histogram of recent latencies: four buckets per doubling, from a microsecond on.
#[derive(Debug, Clone)]
pub(super) struct Latencies {
    counts: [u32; BUCKETS],
    total: u32,
}

const BUCKETS: usize = 100;
const PER_DOUBLING: f64 = 4.0;

/// The fewest samples for a 99th percentile.
const SAMPLES_MIN: u32 = 20;

impl Latencies {
    pub(super) fn new() -> Latencies {
        Latencies {
            counts: [0; BUCKETS],
            total: 0,
        }
    }

    pub(super) fn add(&mut self, latency: Duration) {
        let micros = (latency.as_nanos() as f64 / 1000.0).max(1.0);
        let bucket = ((micros.log2() * PER_DOUBLING) as usize).min(BUCKETS - 1);
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.total = self.total.saturating_add(1);
    }

    /// The 99th percentile, within a fifth; clears the histogram. `None` if there were too few.
    pub(super) fn take_p99(&mut self) -> Option<Duration> {
        if self.total < SAMPLES_MIN {
            return None;
        }
        let rank = (u64::from(self.total) * 99).div_ceil(100);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= rank
        });
        *self = Latencies::new();
        let upper = (bucket.unwrap_or(BUCKETS - 1) + 1) as f64 / PER_DOUBLING;
        Some(Duration::from_nanos((upper.exp2() * 1000.0) as u64))
    }
}
