//! How passing a response on ended, and why there was none to pass on.
use crate::telemetry::metrics::Limit;
use crate::upstream::Unreachable;
use carrick_logic::http1::Refusal;

/// How the passing on ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// Whole, and the upstream's connection is at rest.
    Whole,
    /// Whole, but the upstream's connection is of no further use (it ended, or sent more than it should).
    WholeAndDone,
    /// The client closed, reset, or stopped reading.
    ClientGone(&'static str),
    /// The upstream closed, reset, stalled, or broke the framing. The client has a part of the response.
    UpstreamBroke(&'static str),
    /// The framing is broken in what came with the head: the client has nothing of the response.
    Refused(Refusal),
}

/// Why there is no response to pass on.
#[derive(Debug)]
pub enum Failure {
    /// The client went away.
    ClientGone(&'static str),
    /// The client was too slow with its body, as this limit has it.
    ClientSlow(Limit),
    /// The request's body must not be passed on.
    BadRequest(Refusal),
    /// No connection.
    Unreachable(Unreachable),
    /// The upstream closed before its response's head was whole, or reset.
    NoResponse(&'static str),
    /// The upstream took too long.
    TimedOut,
    /// The response must not be passed on.
    BadResponse(Refusal),
}
