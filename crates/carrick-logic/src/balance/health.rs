//! Passive marking: what requests that fail or succeed say about a server.
//!
//! ```text
//!              failures_max failures in a row           the pause is over, one is let through
//!        up ------------------------------------> down ---------------------------------------> on trial
//!        ^                                        | ^                                           |      |
//!        |              a response                | |       the trial fails: pause doubled      |      |
//!        +----------------------------------------+ +-------------------------------------------+      |
//!        +---------------------------------------------------------------------------------------------+
//! ```
//!
//! A trial without a report (its client went away) is over after another pause; then the next is let through.
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

/// How long a server is left alone the first time.
pub const PAUSE_MIN: Duration = Duration::from_secs(1);

/// How long it is left alone at most.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Passive marking: a server that fails several times in a row is left alone for a while (state machine, given `now`).
#[derive(Debug, Clone)]
pub struct PassiveHealth {
    failures_max: u32,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Failures in a row so far, fewer than `failures_max`.
    Up { failures: u32 },
    /// Left alone until then; on trial too, where `until` is when the trial counts as lost.
    Down {
        until: Instant,
        pause: Duration,
        on_trial: bool,
    },
}

impl PassiveHealth {
    /// Up. After `failures_max` failures in a row the server is down for 1 s, doubled with each further failure, up to 60 s.
    /// With `failures_max` 0 it is never marked down.
    #[must_use]
    pub fn new(failures_max: u32) -> Self {
        Self {
            failures_max,
            state: State::Up { failures: 0 },
        }
    }

    /// What is known of the server, with another limit, which its next failure is measured by. With 0 it is up.
    #[must_use]
    pub fn with_failures_max(self, failures_max: u32) -> Self {
        match failures_max {
            0 => Self::new(0),
            _ => Self {
                failures_max,
                ..self
            },
        }
    }

    /// Whether the server may be tried. After the pause one trial is let through at a time: whoever goes there says so
    /// with [`chosen`](Self::chosen).
    #[must_use]
    pub fn is_up(&self, now: Instant) -> bool {
        match self.state {
            State::Up { .. } => true,
            State::Down { until, .. } => now >= until,
        }
    }

    /// The server was chosen. If it was down, this is its trial, and [`is_up`](Self::is_up) is false until the trial has
    /// failed or succeeded, or nothing was heard of it for another pause.
    pub fn chosen(&mut self, now: Instant) {
        if let State::Down {
            until,
            pause,
            on_trial,
        } = &mut self.state
            && now >= *until
        {
            *on_trial = true;
            *until = now + *pause;
        }
    }

    /// A connection failed, or died before a response.
    ///
    /// While the server is left alone this says nothing new: it comes from what was under way when it was marked down, and
    /// many such at once must not add up to the longest pause.
    pub fn failed(&mut self, now: Instant) {
        match &mut self.state {
            State::Up { failures } => {
                *failures = failures.saturating_add(1);
                if self.failures_max > 0 && *failures >= self.failures_max {
                    let until = now + PAUSE_MIN;
                    self.state = State::Down {
                        until,
                        pause: PAUSE_MIN,
                        on_trial: false,
                    };
                }
            }
            State::Down {
                until,
                pause,
                on_trial,
            } => {
                if *on_trial || now >= *until {
                    *pause = (*pause * 2).min(PAUSE_MAX);
                    *until = now + *pause;
                    *on_trial = false;
                }
            }
        }
    }

    /// A response came.
    pub fn succeeded(&mut self) {
        self.state = State::Up { failures: 0 };
    }
}
