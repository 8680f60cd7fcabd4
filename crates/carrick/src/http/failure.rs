//! Why a request got no response.
use crate::telemetry::metrics::Limit;
use crate::upstream::Unreachable;
use carrick_logic::http1::Refusal;

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
