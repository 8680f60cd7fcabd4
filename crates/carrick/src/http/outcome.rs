//! How passing a response on ended, and why there was none to pass on.
use super::sender;
use crate::context::request_context::RequestContext;
use crate::context::request_log::{CLIENT_CLOSED_REQUEST, RequestLog};
use crate::net::transport::Transport;
use crate::reply::{self, Reply};
use crate::telemetry::metrics::Limit;
use crate::upstream::Unreachable;
use carrick_logic::http1::Refusal;
use h2::Reason;

/// How a request ended that the upstream has not begun with.
pub const REFUSED: &str = "upstream_refused";

/// How a request ended that the upstream had not begun to answer when `[timeouts] idle` was over.
pub const UPSTREAM_TIMEOUT: &str = "upstream_timeout";

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
    /// The upstream has reset the request's stream of HTTP/2 with this code.
    Reset(Reason),
    /// The upstream has not begun with the request, and says so; it cannot be sent again from here.
    Refused,
    /// The upstream took too long.
    TimedOut,
    /// The response must not be passed on.
    BadResponse(Refusal),
}

impl Failure {
    /// Whether a client that speaks HTTP/2 is told by a reset of its stream, whose code is then set: it may ask again, whatever it
    /// asks for (RFC 9113 section 8.7).
    pub fn is_told_by_reset(&self, client: &Transport, log: &mut RequestLog) -> bool {
        let (Self::Refused, Transport::Http2(stream)) = (self, client) else {
            return false;
        };
        (log.status, log.ended) = (502, REFUSED);
        stream.set_reset_code(Reason::REFUSED_STREAM);
        true
    }

    /// What the client is answered, which `log` notes; `None`: it has gone.
    pub fn reply(self, context: &RequestContext, log: &mut RequestLog) -> Option<Reply> {
        let metrics = context.metrics();
        Some(match self {
            Self::ClientGone(how) => {
                log.ended = how;
                log.status = CLIENT_CLOSED_REQUEST;
                return None;
            }
            Self::ClientSlow(limit) => {
                metrics.limits.reached(limit);
                Reply::new(408, "slow_body", "The request's body came too slowly.")
            }
            Self::BadRequest(refusal) => sender::refused(metrics, refusal),
            Self::Unreachable(unreachable) => {
                reply::unreachable_reply(&unreachable, &context.listener.mode)
            }
            Self::NoResponse(how) => {
                log.ended = how;
                Reply::new(
                    502,
                    "no_response",
                    "The upstream closed the connection without a response.",
                )
            }
            Self::Reset(code) => {
                log.ended = "upstream_reset";
                Reply {
                    reset_code: Some(code.into()),
                    ..Reply::new(
                        502,
                        "no_response",
                        format!("The upstream reset the request's stream: {code:?}."),
                    )
                }
            }
            Self::Refused => {
                log.ended = REFUSED;
                Reply::new(
                    502,
                    "no_response",
                    "The upstream did not begin with the request.",
                )
            }
            Self::TimedOut => Reply::new(
                504,
                UPSTREAM_TIMEOUT,
                "The upstream did not answer in time.",
            ),
            Self::BadResponse(refusal) => {
                log.ended = "bad_response";
                tracing::warn!(
                    "response of {} refused: {}",
                    log.server_name(),
                    refusal.reason
                );
                Reply::new(
                    502,
                    refusal.label,
                    format!(
                        "The upstream's response is not valid HTTP: {}.",
                        refusal.reason
                    ),
                )
            }
        })
    }
}
