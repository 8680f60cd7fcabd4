//! How long a transfer takes, split and joined, by what is known of both legs: what is believed before anything was compared.
//!
//! Time is as the gateway can see it, from the request that it passes on to the receiver's acknowledgement of the last byte, so that both
//! ways of relaying are measured alike:
//!
//! - *joined*: a round trip to the server and one to the client, and what slow start and loss take over both legs together;
//! - *split*: the same two round trips, and what the slower leg takes by itself: the server's leg fills the gateway while the client's
//!   drains it. And `RELAYING`, since bytes that go up to a process take longer than those that are forwarded.
//!
//! Slow start doubles the window each round trip, from the initial one. In the long run, throughput is what the leg has shown that it can
//! do, or less if loss bounds it (Padhye, Firoiu, Towsley, Kurose: *Modeling TCP Throughput*, 1998, equation 30, of which Mathis'
//! formula is the first term). A short transfer hardly sees that; for it, each segment that is lost costs another round trip, and one
//! among the last three a time-out, since nothing behind it tells of it.

use super::leg::LegState;

/// Payload of a segment, in bytes.
const SEGMENT_BYTES: f64 = 1448.0;

/// The default initial window of a sender, in bytes (RFC 6928).
pub const INITIAL_WINDOW_BYTES: f64 = 10.0 * SEGMENT_BYTES;

/// What a split connection takes longer for being relayed by a process, in seconds.
const RELAYING: f64 = 0.001;

/// A leg that nothing is known of, in seconds.
const RTT_UNKNOWN: f64 = 0.020;

/// The rate of a leg that has shown none, in bytes a second: no bound for what has to be decided.
const RATE_UNKNOWN: f64 = 12_500_000.0;

/// Linux's least time-out, in seconds.
const TIMEOUT_MIN: f64 = 0.2;

/// Segments that an acknowledgement answers.
const SEGMENTS_PER_ACK: f64 = 2.0;

/// One sender's way to its receiver.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PathModel {
    rtt: f64,
    loss: f64,
    rate: f64,
    window_bytes: f64,
}

impl PathModel {
    fn of(leg: &LegState, window_bytes: f64) -> Self {
        Self {
            rtt: leg.rtt().map_or(RTT_UNKNOWN, |rtt| rtt.as_secs_f64()),
            loss: leg.loss().clamp(0.0, 0.5),
            rate: if leg.full_rate() > 0.0 {
                leg.full_rate()
            } else {
                RATE_UNKNOWN
            },
            window_bytes,
        }
    }

    /// Both, one behind the other; the sender is the server.
    fn joined(server: Self, client: Self) -> Self {
        Self {
            rtt: server.rtt + client.rtt,
            loss: 1.0 - (1.0 - server.loss) * (1.0 - client.loss),
            rate: server.rate.min(client.rate),
            window_bytes: server.window_bytes,
        }
    }

    fn timeout(&self) -> f64 {
        self.rtt + TIMEOUT_MIN.max(self.rtt)
    }

    /// Throughput in the long run, in bytes a second.
    fn steady_rate(&self) -> f64 {
        if self.loss <= 0.0 {
            return self.rate;
        }
        let p = self.loss;
        let fast = self.rtt * (2.0 * SEGMENTS_PER_ACK * p / 3.0).sqrt();
        let often = (3.0 * (3.0 * SEGMENTS_PER_ACK * p / 8.0).sqrt()).min(1.0);
        let slow = self.timeout() * often * p * (1.0 + 32.0 * p * p);
        self.rate.min(SEGMENT_BYTES / (fast + slow))
    }

    /// From the moment at which the first byte is sent until the last one is, with what loss delays.
    fn sending_time(&self, bytes: f64) -> f64 {
        let rate = self.steady_rate();
        // What is under way when the leg is full.
        let full = (rate * self.rtt).max(SEGMENT_BYTES);
        let (mut left, mut window, mut time) = (bytes, self.window_bytes, 0.0);
        while window < full && left > window {
            left -= window;
            window *= 2.0;
            time += self.rtt;
        }
        let segments = (bytes / SEGMENT_BYTES).max(1.0);
        let lost = self.loss * (segments * self.rtt + segments.min(3.0) * self.timeout());
        // A long transfer's losses are in its rate.
        let is_long = window >= full && self.loss > 0.0 && rate < self.rate;
        time + left / rate + if is_long { 0.0 } else { lost }
    }
}

/// The logarithm of 1 + GoS that is likely for a transfer of so many bytes: how much shorter it is if it is split. The legs are the client's
/// and the server's; `client_window_bytes` is the initial window towards the client.
#[must_use]
pub fn likely_gain(legs: &[LegState; 2], client_window_bytes: f64, bytes: u64) -> f64 {
    let bytes = bytes as f64;
    let client = PathModel::of(&legs[0], client_window_bytes);
    let server = PathModel::of(&legs[1], INITIAL_WINDOW_BYTES);
    let both = server.rtt + client.rtt;
    let joined = both + PathModel::joined(server, client).sending_time(bytes);
    let slower = (server.sending_time(bytes)).max(client.sending_time(bytes));
    let split = both + slower + RELAYING;
    (joined / split).ln()
}
