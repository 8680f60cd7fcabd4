//! Awaiting the end of a response that something else is to follow on the client's connection, and detaching the two connections.
use super::Disarmed;
use super::body::PassedOn;
use super::end::{
    ServerEnd, StallWatch, Unanswered, client_gone, may_be_asked_again, server_gone, stalled,
    too_long, unanswered,
};
use super::events::{Event, WaitFor, next_event};
use super::response::ResponseState;
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::kernel_forward::{Pair, Pending};
use crate::context::request_context::RequestContext;
use crate::http::outcome::{Failure, UPSTREAM_TIMEOUT};
use crate::telemetry::metrics::Limit;
use std::time::{Duration, Instant};

/// A response is checked again after this time, then after twice that, up to [`POLL_MAX`].
const POLL_FIRST: Duration = Duration::from_millis(1);

/// See [`POLL_FIRST`].
const POLL_MAX: Duration = Duration::from_millis(50);

/// The server's connection is half-closed only after this much silence: some servers abort their response when they see the FIN.
const QUIET: Duration = Duration::from_millis(20);

/// A client that never pipelines asks only when it has its response: then this much silence after the half-close suffices.
const SILENT: Duration = Duration::from_secs(1);

/// Without a next request, the server's connection is half-closed only after this much silence: some servers pause.
const SILENT_LONG: Duration = Duration::from_secs(10);

/// What is to follow on the client's connection after a response of which it may be unknown whether it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Following {
    /// The same server's next response: one connection keeps the order.
    NextResponse,
    /// Anything else. The server's connection is half-closed; the response ends with the server's end, or after [`SILENT`].
    Anything,
    /// Nothing: the client has not asked again, so nothing says that it has its response. The server's connection is half-closed after
    /// [`SILENT`] if the response looks whole, otherwise after [`SILENT_LONG`]; it ends with the server's end, or after `timeouts.idle`.
    Nothing,
}

/// Why a response did not come to its end.
pub enum Interrupted {
    /// The client's connection has to end so.
    End(Next),
    /// The server has closed, without a byte of it.
    Unanswered(Box<Unanswered>),
}

impl Interrupted {
    /// For a request that cannot be served again: what the client has sent since would have to wait for it.
    pub fn give_up(self, context: &RequestContext) -> Next {
        match self {
            Self::End(next) => next,
            Self::Unanswered(mut unanswered) => {
                unanswered.log.ended = match unanswered.failure {
                    Some(_) => UPSTREAM_TIMEOUT,
                    None => "upstream_closed",
                };
                unanswered.log.finish(context, &unanswered.request, None);
                Next::Reset
            }
        }
    }
}

impl From<Next> for Interrupted {
    fn from(next: Next) -> Self {
        Self::End(next)
    }
}

/// Waits until the response under way is over. `None`: the server's connection has ended.
pub async fn await_end(
    client: &mut Client,
    mut pair: Box<Pair>,
    following: Following,
) -> Result<Option<Box<Pair>>, Interrupted> {
    let wait_for = WaitFor {
        client: false,
        dismissal: false,
    };
    let (mut poll_again, mut is_told) = (POLL_FIRST, false);
    let begun = pair.progress();
    let mut stalls = StallWatch::new(begun, Instant::now());
    loop {
        let state = pair.state(&client.context);
        let (now, progress) = (Instant::now(), pair.progress());
        // What comes after the next request was not waited for.
        client.downstream.kernel_forward.has_pipelined |=
            following != Following::Nothing && progress.sent_bytes != begun.sent_bytes;
        let waiting = Waiting {
            following,
            is_certain: pair.past.is_certain(pair.pending.as_ref()),
            is_told,
            has_pipelined: client.downstream.kernel_forward.has_pipelined,
            quiet: stalls.quiet(progress, now),
        };
        match waiting.step(state) {
            Step::Over { is_exact } => {
                pair.is_over(client, is_exact);
                return Ok(Some(pair));
            }
            Step::TooLong => return Err(too_long(client, pair).into()),
            Step::Tell => {
                is_told = true;
                // A failure of the connection shows in the next event.
                let _ = pair.checkout.upstream.transport.end();
            }
            Step::Wait => {}
        }
        let limit = client.context.live.plan().timeouts.idle;
        if state == ResponseState::NotBegun
            && (pair.pending.as_ref()).is_some_and(|it| it.has_waited(limit, now))
        {
            return Err(timed_out(client, pair));
        }
        let has_room = || pair.splice.client_has_room();
        if let Some(ended) = stalls.check(client.context.live.plan(), progress, now, has_room) {
            return Err(stalled(client, pair, state, ended).into());
        }
        if client.downstream.transport.has_failed() {
            pair.conclude(&client.context, "client_reset");
            pair.reset_server();
            pair.take_client(&client.downstream.transport);
            return Err(Next::Reset.into());
        }
        let event = match next_event(client, &pair, wait_for, poll_again).await {
            Event::Body => match pair.pass_on(client).await {
                PassedOn::Some => {
                    poll_again = POLL_FIRST;
                    continue;
                }
                PassedOn::Nothing => Event::Tick,
                PassedOn::ServerGone { is_reset } => Event::Server { is_reset },
                PassedOn::ClientGone(ended) => {
                    return Err(client_gone(client, pair, ended).into());
                }
            },
            event => event,
        };
        match event {
            Event::Server { is_reset } => {
                let has_response = following != Following::Nothing
                    && !client.downstream.kernel_forward.has_pipelined;
                return match server_gone(client, pair, is_reset, has_response).await {
                    ServerEnd::Over => Ok(None),
                    ServerEnd::End(next) => Err(next.into()),
                    ServerEnd::Unanswered(unanswered) => Err(Interrupted::Unanswered(unanswered)),
                };
            }
            Event::Client | Event::Body | Event::Dismissed | Event::Tick => {}
        }
        poll_again = (2 * poll_again).min(POLL_MAX);
    }
}

/// The server has not answered in time.
pub(super) fn timed_out(client: &Client, mut pair: Box<Pair>) -> Interrupted {
    client.context.metrics().limits.reached(Limit::IdleTimeout);
    // Of a request that the kernel has forwarded, the local socket does not know whether it was acknowledged.
    match pair
        .pending
        .as_ref()
        .is_some_and(|pending| pending.is_classified)
    {
        true => pair.checkout.failed(&pair.next_hop),
        false => pair.checkout.timed_out(&pair.next_hop),
    }
    pair.reset_server();
    let is_trusted = (pair.pending.as_ref()).is_some_and(|pending| pending.is_trusted);
    let disarmed = pair.take_client(&client.downstream.transport);
    if may_be_asked_again(disarmed, is_trusted, pair.has_sent_nothing()) {
        return unanswered(client.context.metrics(), pair).map_or(
            Interrupted::End(Next::Reset),
            |mut unanswered| {
                unanswered.failure = Some(Failure::TimedOut);
                Interrupted::Unanswered(unanswered)
            },
        );
    }
    pair.catch_up(&client.context);
    pair.conclude(&client.context, UPSTREAM_TIMEOUT);
    Interrupted::End(Next::Reset)
}

impl Pending {
    /// Whether the response has been waited for so long.
    pub(super) fn has_waited(&self, limit: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.log.begun) >= limit
    }
}

/// `is_certain`: where all has come that the head announces, nothing can follow on the client's connection but the next response.
pub(super) fn may_follow(state: ResponseState, following: Following, is_certain: bool) -> bool {
    match state {
        ResponseState::Whole { is_exact } => {
            is_exact || is_certain || following == Following::NextResponse
        }
        ResponseState::Unknown => following == Following::NextResponse,
        ResponseState::NotBegun | ResponseState::Partial | ResponseState::TooLong => false,
    }
}

/// What is known while a response is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub following: Following,
    /// See [`may_follow`].
    pub is_certain: bool,
    /// Whether the server's connection was half-closed.
    pub is_told: bool,
    pub has_pipelined: bool,
    /// How long nothing has moved.
    pub quiet: Duration,
}

/// What is done about a response that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// `is_exact`: the server's connection can be used again.
    Over {
        is_exact: bool,
    },
    TooLong,
    /// The server's connection is half-closed.
    Tell,
    Wait,
}

impl Waiting {
    pub(super) fn step(&self, state: ResponseState) -> Step {
        match state {
            state if may_follow(state, self.following, self.is_certain) => Step::Over {
                is_exact: state == ResponseState::Whole { is_exact: true } && !self.is_told,
            },
            ResponseState::TooLong => Step::TooLong,
            ResponseState::NotBegun | ResponseState::Partial => Step::Wait,
            state if self.following == Following::Nothing => {
                let pause = match state {
                    ResponseState::Unknown => SILENT_LONG,
                    _ => SILENT,
                };
                match !self.is_told && self.quiet >= pause {
                    true => Step::Tell,
                    false => Step::Wait,
                }
            }
            ResponseState::Unknown | ResponseState::Whole { .. } if self.is_told => {
                let may_be_over = state != ResponseState::Unknown || !self.has_pipelined;
                if self.quiet >= SILENT && may_be_over {
                    Step::Over { is_exact: false }
                } else {
                    Step::Wait
                }
            }
            ResponseState::Unknown if self.quiet < QUIET => Step::Wait,
            ResponseState::Unknown | ResponseState::Whole { .. } => Step::Tell,
        }
    }
}

/// What came of an attempt to detach a client from its server's connection.
pub enum Detached {
    Done,
    /// The kernel has forwarded another request, whose response has to be awaited.
    NotYet(Box<Pair>),
    /// The client's connection has to end so.
    End(Next),
}

/// Detaches a client from its server's connection, which returns to the pool if it is at rest.
///
/// A server's connection gets to others only here and by [`Pair::into_checkout`](super::send), and only if both hold in the step in which
/// the kernel gives it back: every request that went to the server is known here, and the response to the last of them is known to be whole.
pub fn detach(client: &Client, mut pair: Box<Pair>) -> Detached {
    pair.note_path_statistics(&client.downstream.transport);
    match pair.disarm() {
        disarmed @ Disarmed::Done => pair.give_back(client.context.pool(), disarmed),
        Disarmed::Behind => {
            pair.catch_up(&client.context);
            return Detached::NotYet(pair);
        }
        Disarmed::Lost => return Detached::End(Next::Reset),
    }
    Detached::Done
}

/// Waits until the client has its response, and detaches it from the server's connection.
pub async fn await_end_and_detach(
    client: &mut Client,
    mut pair: Box<Pair>,
    following: Following,
) -> Result<(), Interrupted> {
    while let Some(ended_pair) = await_end(client, pair, following).await? {
        match detach(client, ended_pair) {
            Detached::Done => break,
            Detached::NotYet(again) => pair = again,
            Detached::End(next) => return Err(next.into()),
        }
    }
    Ok(())
}

/// For the process to send something: waits until the client has its response, and detaches it from the server's connection.
pub async fn leave(client: &mut Client) -> Result<(), Next> {
    let Some(pair) = client.downstream.kernel_forward.pair.take() else {
        return Ok(());
    };
    let detached = await_end_and_detach(client, pair, Following::Anything).await;
    detached.map_err(|interrupted| interrupted.give_up(&client.context))
}

/// The client has ended its stream, or reset it; in the former case it still gets its response (RFC 9112 section 9.6).
pub async fn serve_to_end(client: &mut Client, is_reset: bool) -> Result<(), Interrupted> {
    let Some(mut pair) = client.downstream.kernel_forward.pair.take() else {
        return Ok(());
    };
    if !is_reset {
        return await_end_and_detach(client, pair, Following::Nothing).await;
    }
    match pair.state(&client.context) {
        ResponseState::Whole { is_exact } => {
            pair.is_over(client, is_exact);
            if let Detached::NotYet(pair) = detach(client, pair) {
                pair.reset_server();
            }
        }
        _ => {
            pair.conclude(&client.context, "client_reset");
            pair.reset_server();
            pair.take_client(&client.downstream.transport);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
