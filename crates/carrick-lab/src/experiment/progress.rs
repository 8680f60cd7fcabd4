//! How far a run is: a bar with what is left on a terminal, lines elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::schedule::show_time;
use crate::program::note;

/// A run's progress, in its estimated time.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    done: Duration,
    total: Duration,
}

impl Progress {
    /// Begins; `total` is the estimate of the whole.
    #[must_use]
    pub fn begin(total: Duration) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let length = u64::try_from(total.as_millis()).unwrap_or(u64::MAX).max(1);
            let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
            // The template is a constant that is right; with a wrong one there would be the usual bar.
            if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {percent:>3} %  {wide_msg}")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        Self {
            bar,
            started: Instant::now(),
            done: Duration::ZERO,
            total,
        }
    }

    /// What is under way now.
    pub fn at_work(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} left: {what}", show_time(self.left())));
        }
    }

    /// A part is done, of so much estimated time.
    pub fn step(&mut self, estimated: Duration, what: &str) {
        self.done += estimated;
        match &self.bar {
            Some(bar) => bar.set_position(u64::try_from(self.done.as_millis()).unwrap_or(u64::MAX)),
            None => note(format!("[{} left] {what}", show_time(self.left()))),
        }
    }

    /// Something to be read later, too.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => note(text),
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The rest of the estimate, corrected by how the part until now compares with its estimate.
    fn left(&self) -> Duration {
        left(self.started.elapsed(), self.done, self.total)
    }
}

/// What is left of a total estimate when `done` of it took `elapsed`.
fn left(elapsed: Duration, done: Duration, total: Duration) -> Duration {
    let rest = total.saturating_sub(done);
    if done.is_zero() {
        return rest;
    }
    rest.mul_f64((elapsed.as_secs_f64() / done.as_secs_f64()).clamp(0.1, 10.0))
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the estimate.

    use super::*;

    #[test]
    fn what_is_left_follows_the_pace_until_now() {
        let seconds = Duration::from_secs;
        assert_eq!(left(seconds(0), seconds(0), seconds(100)), seconds(100));
        assert_eq!(left(seconds(20), seconds(10), seconds(100)), seconds(180));
        assert_eq!(left(seconds(5), seconds(10), seconds(100)), seconds(45));
        assert_eq!(left(seconds(500), seconds(110), seconds(100)), seconds(0));
    }
}
