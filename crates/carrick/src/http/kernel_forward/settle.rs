//! Waiting for a response's end where something else is to follow on the client's connection, and parting the two connections.
use super::Disarmed;
use super::body::PassedOn;
use super::response::Look;
use super::wait::{
    Ears, Event, Gone, Lost, Pace, client_gone, next_event, server_gone, stuck, too_long,
};
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::kernel_forward::Bound;
use std::time::{Duration, Instant};

/// A response is looked at again after so long, and then after twice that, at most [`LOOK_MAX`].
const LOOK_FIRST: Duration = Duration::from_millis(1);

/// See [`LOOK_FIRST`].
const LOOK_MAX: Duration = Duration::from_millis(50);

/// A server is told that nothing more is asked only when it has been silent for so long: some give up what they are about.
const QUIET: Duration = Duration::from_millis(20);

/// A client that never pipelines asks only when it has its response. So much silence of a server that was told will do.
const SILENT: Duration = Duration::from_secs(1);

/// What is done about a response of which it cannot be told whether it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclear {
    /// The next one may follow on the same connection, which keeps the order.
    Goes,
    /// Something else than this server's next response is to follow. The server is told that nothing more is asked; its end is the response's
    /// end, or [`SILENT`].
    MustEnd,
}

/// Why a response did not come to its end.
pub enum Unsettled {
    /// The client's connection has to end so.
    End(Next),
    /// The server has gone without a byte of it.
    Lost(Box<Lost>),
}

impl Unsettled {
    /// Where the request cannot be served once more: what the client has sent since would have to wait for that.
    pub fn give_up(self, client: &Client) -> Next {
        match self {
            Self::End(next) => next,
            Self::Lost(mut lost) => {
                lost.log.ended = "upstream_closed";
                lost.log.finish(client, &lost.request, None);
                Next::Reset
            }
        }
    }
}

impl From<Next> for Unsettled {
    fn from(next: Next) -> Self {
        Self::End(next)
    }
}

/// Waits until the response under way is over. `None`: the server's connection is gone.
pub async fn settle(
    client: &mut Client,
    mut bound: Box<Bound>,
    unclear: Unclear,
) -> Result<Option<Box<Bound>>, Unsettled> {
    let ears = Ears {
        client: false,
        dismissal: false,
    };
    let (mut look_again, mut is_told) = (LOOK_FIRST, false);
    let begun = bound.progress();
    let mut pace = Pace::new(begun, Instant::now());
    loop {
        let look = bound.look(client);
        let (now, progress) = (Instant::now(), bound.progress());
        // What comes after the next request was not waited for.
        client.binding.has_pipelined |= progress.sent_bytes != begun.sent_bytes;
        let waiting = Waiting {
            unclear,
            is_certain: bound.past.is_certain(bound.pending.as_ref()),
            is_told,
            has_pipelined: client.binding.has_pipelined,
            quiet: pace.quiet(progress, now),
        };
        match waiting.step(look) {
            Step::Over { is_exact } => {
                bound.is_over(client, is_exact);
                return Ok(Some(bound));
            }
            Step::TooLong => return Err(too_long(client, bound).into()),
            Step::Tell => {
                is_told = true;
                // A connection that is gone tells so by itself.
                let _ = bound.checkout.upstream.transport.end();
            }
            Step::Wait => {}
        }
        let has_room = || bound.splice.client_has_room();
        if let Some(ended) = pace.judge(client.live.plan(), progress, now, has_room) {
            return Err(stuck(client, bound, look, ended).into());
        }
        if client.transport.has_failed() {
            bound.conclude(client, "client_reset");
            bound.reset_server();
            bound.disarm_to_part(client);
            return Err(Next::Reset.into());
        }
        let event = match next_event(client, &bound, ears, look_again).await {
            Event::Body => match bound.pass_on(client).await {
                PassedOn::Some => {
                    look_again = LOOK_FIRST;
                    continue;
                }
                PassedOn::Nothing => Event::Tick,
                PassedOn::ServerGone { is_reset } => Event::Server { is_reset },
                PassedOn::ClientGone(ended) => {
                    return Err(client_gone(client, bound, ended).into());
                }
            },
            event => event,
        };
        match event {
            Event::Server { is_reset } => {
                let has_response = !client.binding.has_pipelined;
                return match server_gone(client, bound, is_reset, has_response).await {
                    Gone::Over => Ok(None),
                    Gone::End(next) => Err(next.into()),
                    Gone::Lost(lost) => Err(Unsettled::Lost(lost)),
                };
            }
            Event::Client | Event::Body | Event::Dismissed | Event::Tick => {}
        }
        look_again = (2 * look_again).min(LOOK_MAX);
    }
}

/// `is_certain`: where all has come that the head announces, nothing can follow on the client's connection but the next response.
pub(super) fn is_settled(look: Look, unclear: Unclear, is_certain: bool) -> bool {
    match look {
        Look::Whole { is_exact } => is_exact || is_certain || unclear == Unclear::Goes,
        Look::Unknown => unclear == Unclear::Goes,
        Look::Nothing | Look::Partial | Look::TooLong => false,
    }
}

/// What is known while a response is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub unclear: Unclear,
    /// See [`is_settled`].
    pub is_certain: bool,
    /// The server was told that nothing more is asked.
    pub is_told: bool,
    pub has_pipelined: bool,
    /// For so long nothing has moved.
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
    /// The server is told that nothing more is asked.
    Tell,
    Wait,
}

impl Waiting {
    pub(super) fn step(&self, look: Look) -> Step {
        match look {
            look if is_settled(look, self.unclear, self.is_certain) => Step::Over {
                is_exact: look == Look::Whole { is_exact: true } && !self.is_told,
            },
            Look::TooLong => Step::TooLong,
            Look::Nothing | Look::Partial => Step::Wait,
            Look::Unknown | Look::Whole { .. } if self.is_told => {
                let may_be_over = look != Look::Unknown || !self.has_pipelined;
                if self.quiet >= SILENT && may_be_over {
                    Step::Over { is_exact: false }
                } else {
                    Step::Wait
                }
            }
            Look::Unknown if self.quiet < QUIET => Step::Wait,
            Look::Unknown | Look::Whole { .. } => Step::Tell,
        }
    }
}

/// What came of an attempt to part a client from its server's connection.
pub enum Parting {
    Parted,
    /// The kernel has forwarded another request, whose response is to be waited for.
    NotYet(Box<Bound>),
    /// The client's connection has to end so.
    End(Next),
}

/// Parts a client from its server's connection, which is kept for others if it is at rest.
///
/// A server's connection gets to others only here and by [`Bound::into_checkout`](super::send), and only if both hold in the step in which
/// the kernel gives it back: every request that went to the server is known here, and the response to the last of them is known to be whole.
pub fn part(client: &Client, mut bound: Box<Bound>) -> Parting {
    match bound.disarm_to_part(client) {
        disarmed @ Disarmed::Done => bound.give_back(client, disarmed),
        Disarmed::Behind => {
            bound.catch_up(client);
            return Parting::NotYet(bound);
        }
        Disarmed::Lost => return Parting::End(Next::Reset),
    }
    Parting::Parted
}

/// Waits until the client has its response, and parts it from the server's connection.
pub async fn settle_and_part(
    client: &mut Client,
    mut bound: Box<Bound>,
    unclear: Unclear,
) -> Result<(), Unsettled> {
    while let Some(settled) = settle(client, bound, unclear).await? {
        match part(client, settled) {
            Parting::Parted => break,
            Parting::NotYet(again) => bound = again,
            Parting::End(next) => return Err(next.into()),
        }
    }
    Ok(())
}

/// The client is to be sent something by the process: waits until it has its response, and parts it from the server's connection.
pub async fn leave(client: &mut Client) -> Result<(), Next> {
    let Some(bound) = client.binding.bound.take() else {
        return Ok(());
    };
    let parted = settle_and_part(client, bound, Unclear::MustEnd).await;
    parted.map_err(|unsettled| unsettled.give_up(client))
}

/// The client has ended its stream, or was reset; in the former case it still gets its response (RFC 9112 section 9.6).
pub async fn serve_to_end(client: &mut Client, is_reset: bool) -> Result<(), Unsettled> {
    let Some(mut bound) = client.binding.bound.take() else {
        return Ok(());
    };
    if !is_reset {
        return settle_and_part(client, bound, Unclear::MustEnd).await;
    }
    match bound.look(client) {
        Look::Whole { is_exact } => {
            bound.is_over(client, is_exact);
            if let Parting::NotYet(bound) = part(client, bound) {
                bound.reset_server();
            }
        }
        _ => {
            bound.conclude(client, "client_reset");
            bound.reset_server();
            bound.disarm_to_part(client);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
