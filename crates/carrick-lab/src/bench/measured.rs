//! What a load saw, from any generator, and whether it can be used.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::bench::plan::Work;

/// What wrk measured, or the client of a [`Talk`](crate::bench::plan::Talk).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// From the first request to the last response.
    pub duration_us: u64,
    /// Responses received; messages that came back; whole megabytes of streams.
    pub requests: u64,
    /// Bytes received, heads included.
    pub bytes: u64,
    /// What went wrong.
    pub errors: Errors,
    /// Of each response, in microseconds.
    pub latency_us: Latency,
}

/// What went wrong, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Connections that could not be opened.
    pub connect: u64,
    /// Connections that broke, or responses that could not be parsed.
    pub read: u64,
    /// Requests that could not be sent.
    pub write: u64,
    /// Responses that came too late.
    pub timeout: u64,
    /// Responses with a status of 400 and above.
    pub status: u64,
}

/// Of a closed loop, so with "coordinated omission": for comparison between peers only.
/// All are 0 for streams, which have none.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: f64,
}

impl Latency {
    /// From a histogram whose unit is one of so many in a microsecond.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>, units_per_us: f64) -> Self {
        let us = |quantile| histogram.value_at_quantile(quantile) as f64 / units_per_us;
        Self {
            p50: us(0.5),
            p90: us(0.9),
            p99: us(0.99),
            max: us(1.0),
        }
    }
}

impl Measured {
    /// Requests per second.
    #[must_use]
    pub fn requests_per_second(&self) -> f64 {
        if self.duration_us == 0 {
            0.0
        } else {
            self.requests as f64 * 1e6 / self.duration_us as f64
        }
    }

    /// Bytes per second, in billions of bits.
    #[must_use]
    pub fn gigabits_per_second(&self) -> f64 {
        if self.duration_us == 0 {
            0.0
        } else {
            self.bytes as f64 * 8.0 / (self.duration_us as f64 * 1e3)
        }
    }

    /// Why this run must not be used, if so.
    #[must_use]
    pub fn fault(&self, work: &Work) -> Option<String> {
        let Errors {
            connect,
            read,
            write,
            timeout,
            status,
        } = self.errors;
        if self.errors != Errors::default() {
            return Some(format!(
                "the load saw errors: {connect} connect, {read} read, {write} write, {timeout} time-outs, {status} responses >= 400"
            ));
        }
        if work.is_stream() {
            // However slow it was, that is a figure.
            return (self.bytes == 0).then(|| String::from("not one byte"));
        }
        if self.requests == 0 {
            return Some(String::from("not one response"));
        }
        // A redirect or an empty answer would be fast, and wrong.
        let bytes_each = self.bytes / self.requests;
        (bytes_each < work.body_bytes as u64).then(|| {
            format!(
                "responses have {bytes_each} bytes each, fewer than the body's {}",
                work.body_bytes
            )
        })
    }
}
