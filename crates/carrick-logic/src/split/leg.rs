//! How one leg of a pair fares: round-trip time, loss and rate.

use std::time::Duration;

/// Each round-trip time moves the mean by such a part (as TCP's own, RFC 6298).
const RTT_GAIN: f64 = 1.0 / 8.0;

/// The least round-trip time is forgotten by such a part with each connection, towards the mean: routes change.
const RTT_MIN_DRIFT: f64 = 1.0 / 64.0;

/// Loss is not believed of fewer segments.
const SEGMENTS_MIN: f64 = 20.0;

/// Slow start is over after so many segments: their rate is what the leg can do, that of fewer is what the window could.
const FULL_SEGMENTS_MIN: u64 = 500;

/// Nothing is further away: that of which TCP itself says more counts as this.
const RTT_MAX: Duration = Duration::from_secs(60);

/// What one connection has shown of a leg, at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LegSeen {
    /// The least round-trip time; zero: not known.
    pub rtt_min: Duration,
    /// The smoothed one; zero: not known.
    pub rtt: Duration,
    /// Segments with data that were sent to the peer.
    pub segments: u64,
    /// Those of them that were sent again.
    pub again: u64,
    /// At which rate the peer got them, in bytes a second; zero: not known.
    pub rate: u64,
}

/// What is known of a leg of a pair.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LegState {
    rtt_min_s: f64,
    rtt_s: f64,
    segments: f64,
    again: f64,
    rate: f64,
    full_rate: f64,
}

impl LegState {
    /// Of a leg whose handshake took so long, and nothing else.
    #[must_use]
    pub fn of_handshake(rtt: Option<Duration>) -> Self {
        let rtt_s = rtt.unwrap_or_default().min(RTT_MAX).as_secs_f64();
        Self {
            rtt_min_s: rtt_s,
            rtt_s,
            ..Self::default()
        }
    }

    /// Takes in what a connection has shown; `fading` is what became of a sample of last time.
    pub(super) fn learn(&mut self, seen: &LegSeen, fading: f64) {
        let known = |time: Duration| (!time.is_zero()).then(|| time.min(RTT_MAX).as_secs_f64());
        if let Some(rtt_s) = known(seen.rtt) {
            if self.rtt_s == 0.0 {
                self.rtt_s = rtt_s;
            } else {
                self.rtt_s += RTT_GAIN * (rtt_s - self.rtt_s);
            }
        }
        if let Some(rtt_s) = known(seen.rtt_min).or(known(seen.rtt)) {
            if self.rtt_min_s == 0.0 || rtt_s < self.rtt_min_s {
                self.rtt_min_s = rtt_s;
            } else {
                self.rtt_min_s += RTT_MIN_DRIFT * (rtt_s - self.rtt_min_s);
            }
        }
        self.segments = self.segments * fading + seen.segments as f64;
        self.again = self.again * fading + seen.again.min(seen.segments) as f64;
        // The largest that was seen lately: others shared the leg, or had little to send.
        self.rate = (self.rate * fading).max(seen.rate as f64);
        self.full_rate *= fading;
        if seen.segments >= FULL_SEGMENTS_MIN {
            self.full_rate = self.full_rate.max(seen.rate as f64);
        }
    }

    /// The least round-trip time, if any was ever known.
    #[must_use]
    pub fn rtt_min(&self) -> Option<Duration> {
        (self.rtt_min_s > 0.0).then(|| Duration::from_secs_f64(self.rtt_min_s))
    }

    /// The smoothed round-trip time, if any was ever known.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        (self.rtt_s > 0.0).then(|| Duration::from_secs_f64(self.rtt_s))
    }

    /// Segments that were sent again, of all that were sent; 0 where too few were seen.
    #[must_use]
    pub fn loss(&self) -> f64 {
        if self.segments < SEGMENTS_MIN {
            0.0
        } else {
            self.again / self.segments
        }
    }

    /// The best rate that was seen lately, in bytes a second; 0: not known.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// What the leg can do, in bytes a second; 0: no connection was long enough to show that.
    pub(super) fn full_rate(&self) -> f64 {
        self.full_rate
    }
}
