//! How responses that the kernel forwards end: by their server's end, or because they stall.
use super::response::ResponseState;
use super::{Disarmed, TICK};
use crate::config::plan::Plan;
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::kernel_forward::{Pair, Pending};
use crate::context::request_context::RequestContext;
use crate::context::request_log::RequestLog;
use crate::context::request_log::{IDLE_TIMEOUT, TOO_SLOW};
use crate::http::outcome::Failure;
use crate::telemetry::forwarded::ASKED_AGAIN;
use crate::telemetry::metrics::{Limit, WorkerMetrics};
use carrick_logic::http1::ResponseBody;
use carrick_splice::{ResponseProgress, STEP_BYTES};
use std::time::{Duration, Instant};

/// A request whose response did not come.
pub struct Unanswered {
    /// Its entry in the access log, as far as it is known.
    pub log: RequestLog,
    /// Its head, as the client has written it.
    pub request: Vec<u8>,
    /// The failure to reply with; `None`: another server may be asked.
    pub failure: Option<Failure>,
}

/// The client takes no more of its response.
pub(super) fn client_gone(client: &Client, mut pair: Box<Pair>, ended: &'static str) -> Next {
    if ended == IDLE_TIMEOUT {
        client.context.metrics().limits.reached(Limit::IdleTimeout);
    }
    pair.conclude(&client.context, ended);
    pair.reset_server();
    pair.take_client(&client.downstream.transport);
    Next::Reset
}

/// Notices a response that stalls, or a client that reads too slowly.
pub(super) struct StallWatch {
    progress: ResponseProgress,
    moved: Instant,
    /// The last check of the least rate.
    checked_at: Instant,
    /// When the client kept it last, and what it had acknowledged then.
    level: (Instant, u64),
}

impl StallWatch {
    pub(super) fn new(progress: ResponseProgress, now: Instant) -> Self {
        Self {
            progress,
            moved: now,
            checked_at: now,
            level: (now, progress.acked_bytes),
        }
    }

    /// How long nothing has moved.
    pub(super) fn quiet(&mut self, progress: ResponseProgress, now: Instant) -> Duration {
        if progress != self.progress {
            (self.progress, self.moved) = (progress, now);
        }
        now.duration_since(self.moved)
    }

    /// Why the response is not awaited any longer, if it is not.
    pub(super) fn check(
        &mut self,
        plan: &Plan,
        progress: ResponseProgress,
        now: Instant,
        client_has_room: impl FnOnce() -> bool,
    ) -> Option<&'static str> {
        if self.quiet(progress, now) >= plan.timeouts.idle {
            return Some(IDLE_TIMEOUT);
        }
        if plan.limits.rate_min == 0 || now.duration_since(self.checked_at) < plan.timeouts.head {
            return None;
        }
        self.checked_at = now;
        let (since, bytes) = self.level;
        let wanted_bytes = plan.limits.rate_min as f64 * now.duration_since(since).as_secs_f64();
        let behind_bytes = wanted_bytes - progress.acked_bytes.saturating_sub(bytes) as f64;
        // The least rate is asked of clients; servers have the idle time-out.
        if behind_bytes <= 0.0 || client_has_room() {
            self.level = (now, progress.acked_bytes);
            return None;
        }
        (behind_bytes > STEP_BYTES as f64).then_some(TOO_SLOW)
    }
}

/// What the end of a server's connection means.
pub(super) enum ServerEnd {
    /// The response, if there was one, is over; the client stays.
    Over,
    /// The client's connection is to end.
    End(Next),
    /// Nothing of the response has come.
    Unanswered(Box<Unanswered>),
}

/// How a response ends that gets no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseEnd {
    /// The client has it.
    Over { is_exact: bool },
    /// Not a byte of it has come.
    Unanswered,
    /// The client's connection is closed: the response ends with it, or may.
    Closed { is_complete: bool },
    /// The client's connection is reset: it has only a part, or bytes of unknown origin.
    Cut { is_servers_fault: bool },
}

/// Of a response whose server's connection has ended, after the kernel has returned both. `has_sent_nothing`: nothing was sent up to that
/// moment; `has_response`: a client that never pipelines has sent another request, so it has its response.
fn response_end(
    pending: &Pending,
    state: ResponseState,
    is_reset: bool,
    has_sent_nothing: bool,
    has_response: bool,
) -> ResponseEnd {
    let head = pending.final_head();
    match state {
        // Something was sent since.
        ResponseState::NotBegun if !has_sent_nothing => ResponseEnd::Cut {
            is_servers_fault: false,
        },
        // The response before may not be whole; its framing shows it. A FIN is retransmitted if it is lost, a reset is not.
        ResponseState::NotBegun if !pending.is_trusted => {
            ResponseEnd::Closed { is_complete: false }
        }
        ResponseState::NotBegun => ResponseEnd::Unanswered,
        ResponseState::Whole { is_exact } => ResponseEnd::Over { is_exact },
        ResponseState::Partial
            if !is_reset && head.is_some_and(|head| head.body == ResponseBody::UntilClose) =>
        {
            ResponseEnd::Closed { is_complete: true }
        }
        ResponseState::Unknown if !is_reset && has_response => {
            ResponseEnd::Over { is_exact: false }
        }
        ResponseState::Unknown if !is_reset => ResponseEnd::Closed {
            is_complete: head.is_some(),
        },
        ResponseState::Partial | ResponseState::Unknown | ResponseState::TooLong => {
            ResponseEnd::Cut {
                is_servers_fault: true,
            }
        }
    }
}

/// Of a response that has stalled, for this reason. If the client has room, the server is at fault.
fn end_of_stalled(
    state: ResponseState,
    ended: &str,
    client_has_room: impl FnOnce() -> bool,
) -> ResponseEnd {
    match state {
        ResponseState::Unknown | ResponseState::Whole { .. } => {
            ResponseEnd::Closed { is_complete: true }
        }
        _ => ResponseEnd::Cut {
            is_servers_fault: ended == IDLE_TIMEOUT && client_has_room(),
        },
    }
}

/// Whether another server may be asked for a response of which nothing has come, unnoticed by the client: no bytes of another response can
/// be on their way to it.
pub(super) fn may_be_asked_again(
    disarmed: Disarmed,
    is_trusted: bool,
    has_sent_nothing: bool,
) -> bool {
    disarmed == Disarmed::Done && is_trusted && has_sent_nothing
}

fn is_unacknowledged(progress: ResponseProgress) -> bool {
    progress.sent_bytes != progress.acked_bytes
}

/// The server has ended its stream, or has broken off. `has_response`: see [`response_end`].
pub(super) async fn server_gone(
    client: &Client,
    mut pair: Box<Pair>,
    is_reset: bool,
    has_response: bool,
) -> ServerEnd {
    let how = if is_reset {
        "upstream_reset"
    } else {
        "upstream_closed"
    };
    // After a reset the client may have everything, and its acknowledgement be on the way.
    let deadline = Instant::now() + TICK;
    while is_reset && is_unacknowledged(pair.splice.progress()) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let state = pair.state(&client.context);
    if pair.take_client(&client.downstream.transport) != Disarmed::Done {
        // The requests that the kernel has forwarded since stay unanswered.
        pair.catch_up(&client.context);
        pair.conclude(&client.context, how);
        return ServerEnd::End(Next::Reset);
    }
    let Some(pending) = &pair.pending else {
        return ServerEnd::Over;
    };
    let response_end = response_end(
        pending,
        state,
        is_reset,
        pair.has_sent_nothing(),
        has_response,
    );
    match response_end {
        ResponseEnd::Over { is_exact } => {
            pair.is_over(client, is_exact);
            return if pair.past.is_closing {
                ServerEnd::End(Next::Close)
            } else {
                ServerEnd::Over
            };
        }
        ResponseEnd::Unanswered => {
            return unanswered(client.context.metrics(), pair)
                .map_or(ServerEnd::Over, ServerEnd::Unanswered);
        }
        ResponseEnd::Closed { .. } | ResponseEnd::Cut { .. } => {}
    }
    ServerEnd::End(end(&client.context, &mut pair, response_end, how))
}

/// The response ends with the client's connection; `how`: the reason in one word, unless it is complete.
fn end(
    context: &RequestContext,
    pair: &mut Pair,
    response_end: ResponseEnd,
    how: &'static str,
) -> Next {
    if response_end
        == (ResponseEnd::Cut {
            is_servers_fault: true,
        })
    {
        pair.checkout.failed_alive(&pair.next_hop);
    }
    let is_complete = response_end == ResponseEnd::Closed { is_complete: true };
    pair.conclude(context, if is_complete { "complete" } else { how });
    if matches!(response_end, ResponseEnd::Closed { .. }) {
        Next::Close
    } else {
        Next::Reset
    }
}

/// Not a byte of the response has come, and none will.
pub(super) fn unanswered(metrics: &WorkerMetrics, mut pair: Box<Pair>) -> Option<Box<Unanswered>> {
    let pending = pair.pending.take()?;
    let mut request = std::mem::take(&mut pair.request);
    if pending.is_classified {
        request = pair.splice.forwarded_request()?;
        // It may not have this request, so no end would reach it.
        pair.reset_server();
        // It gets the line of the next attempt.
        if let Some(named) = &mut pair.named {
            named.ended = Some(ASKED_AGAIN);
        }
    }
    metrics.retries.add(1);
    Some(Box::new(Unanswered {
        log: pending.log,
        request,
        failure: None,
    }))
}

/// The server has sent more than its response, and the client has received it. No other response may follow.
pub(super) fn too_long(client: &Client, mut pair: Box<Pair>) -> Next {
    pair.conclude(&client.context, "bad_response");
    pair.reset_server();
    pair.take_client(&client.downstream.transport);
    Next::Reset
}

/// A response has stalled.
pub(super) fn stalled(
    client: &Client,
    mut pair: Box<Pair>,
    state: ResponseState,
    ended: &'static str,
) -> Next {
    client
        .context
        .metrics()
        .limits
        .reached(if ended == TOO_SLOW {
            Limit::RateMin
        } else {
            Limit::IdleTimeout
        });
    let response_end = end_of_stalled(state, ended, || pair.splice.client_has_room());
    let next = end(&client.context, &mut pair, response_end, ended);
    pair.reset_server();
    match pair.take_client(&client.downstream.transport) {
        Disarmed::Done => next,
        Disarmed::Behind | Disarmed::Lost => Next::Reset,
    }
}

impl Pair {
    /// Whether nothing has been forwarded since the latest request was about to be sent.
    pub(super) fn has_sent_nothing(&self) -> bool {
        self.splice.progress().sent_bytes == 0
    }
}

#[cfg(test)]
mod tests;
