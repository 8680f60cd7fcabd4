//! How far the meter of busy time can be trusted: an idle core, and spinners that use a known share of it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::testbed::busy::{BusyMeter, Source};
use crate::testbed::cores::{self, CorePair};
use crate::testbed::slowdown::Slowdown;
use crate::testbed::spin::spin;

/// The shares that are tried.
const SHARES: [f64; 3] = [0.05, 0.3, 0.9];

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// Where idle time is read from.
    pub source: Source,
    /// Seconds of each measurement.
    pub seconds: f64,
    /// The proxy's core with nothing to do: its busy share. Everything above nought is others' work.
    pub idle_busy_share: f64,
    /// The hypervisor's share of that core meanwhile.
    pub idle_stolen_share: f64,
    /// The spinners.
    pub spinners: Vec<Spinner>,
    /// The idle core again, if the proxy is slow: beside the spinner that slows it.
    #[serde(default)]
    pub slowdown: Option<SlowdownCheck>,
}

/// What a [`Slowdown`] does with a core that has nothing else to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct SlowdownCheck {
    /// The share of the core that it took, by its own account.
    pub taken_share: f64,
    /// The core's busy share beyond: others' work, and what it costs to wake the spinner.
    pub other_busy_share: f64,
}

/// One spinner.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Spinner {
    /// The share of the core that it used, by its own CPU clock.
    pub used_share: f64,
    /// The share that the meter saw.
    pub metered_share: f64,
}

impl Calibration {
    /// The busy share of the core without a proxy, which is taken off what is metered.
    #[must_use]
    pub fn background_share(&self) -> f64 {
        self.slowdown
            .map_or(self.idle_busy_share, |check| check.other_busy_share)
    }

    /// The largest difference between used and metered, in points of a hundred of the core.
    #[must_use]
    pub fn worst_error_percent(&self) -> f64 {
        self.spinners
            .iter()
            .map(|spinner| (spinner.metered_share - spinner.used_share).abs() * 100.0)
            .fold(0.0, f64::max)
    }
}

/// Measures the idle core, then the spinners.
///
/// # Errors
/// When the meter cannot be read or a thread not started.
pub async fn calibrate(
    meter: &BusyMeter,
    pair: CorePair,
    duration: Duration,
) -> Result<Calibration> {
    let before = meter.read()?;
    tokio::time::sleep(duration).await;
    let idle = meter.read()?.since(&before);

    let mut spinners = Vec::new();
    for share in SHARES {
        let before = meter.read()?;
        let (report, result) = tokio::sync::oneshot::channel();
        std::thread::Builder::new()
            .name(String::from("spinner"))
            .spawn(move || {
                let outcome = cores::pin_this_thread(&[pair.proxy]).map(|()| spin(share, duration));
                // The receiver is gone only when the benchmark was interrupted.
                let _ = report.send(outcome);
            })
            .context("cannot start a thread")?;
        let used = result
            .await
            .context("the spinner ended without a result")??;
        let busy = meter.read()?.since(&before);
        spinners.push(Spinner {
            used_share: used.as_secs_f64() / busy.wall_seconds,
            metered_share: busy.busy_seconds / busy.wall_seconds,
        });
    }
    Ok(Calibration {
        source: meter.source(),
        seconds: duration.as_secs_f64(),
        idle_busy_share: idle.busy_seconds / idle.wall_seconds,
        idle_stolen_share: idle.stolen_seconds / idle.wall_seconds,
        spinners,
        slowdown: None,
    })
}

/// Measures the idle core beside a slowdown.
///
/// # Errors
/// When the meter cannot be read.
pub async fn check_slowdown(
    meter: &BusyMeter,
    slowdown: &Slowdown,
    duration: Duration,
) -> Result<SlowdownCheck> {
    let before = meter.read_beside(Some(slowdown))?;
    tokio::time::sleep(duration).await;
    let idle = meter.read_beside(Some(slowdown))?.since(&before);
    Ok(SlowdownCheck {
        taken_share: idle.taken_seconds / idle.wall_seconds,
        other_busy_share: (idle.busy_seconds - idle.taken_seconds) / idle.wall_seconds,
    })
}
