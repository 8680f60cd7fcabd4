//! Waiting for a response's end where something else is to follow on the client's connection, and parting the two connections.
use super::Bound;
use super::body::PassedOn;
use super::response::Look;
use super::wait::{Ears, Event, Gone, Lost, Pace, client_gone, next_event, server_gone, stuck};
use crate::proxy::arrival::Client;
use crate::proxy::session::Next;
use rustix::net::{Shutdown, shutdown};
use std::time::Duration;

/// A response is looked at again after so long, and then after twice that, at most [`LOOK_MAX`].
const LOOK_FIRST: Duration = Duration::from_millis(1);

/// See [`LOOK_FIRST`].
const LOOK_MAX: Duration = Duration::from_millis(50);

/// A client that never pipelines asks only when it has its response. So much silence of the server besides will do.
const QUIET: Duration = Duration::from_millis(20);

/// What is done about a response of which it cannot be told whether it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclear {
    /// The next one may follow on the same connection, which keeps the order.
    Goes,
    /// It counts as whole when the server has been silent for [`QUIET`].
    IsQuiet,
    /// The server is told that nothing more is asked; its end is the response's end.
    MustEnd,
}

impl Unclear {
    /// Where something else than this server's next response is to follow.
    pub fn before_others(client: &Client) -> Self {
        if client.binding.has_pipelined {
            Self::MustEnd
        } else {
            Self::IsQuiet
        }
    }
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
                lost.trace.ended = "upstream_closed";
                lost.trace.finish(client, &lost.request, None);
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
    let (mut pace, mut look_again, mut is_asked) = (Pace::new(&bound), LOOK_FIRST, false);
    loop {
        let look = bound.look(client);
        match (look, unclear) {
            (Look::Whole { is_exact }, _) => {
                bound.is_over(client, is_exact && !is_asked);
                return Ok(Some(bound));
            }
            (Look::Unknown, Unclear::Goes) => {
                bound.is_over(client, false);
                return Ok(Some(bound));
            }
            (Look::Unknown, Unclear::IsQuiet) if pace.quiet(&bound) >= QUIET => {
                bound.is_over(client, false);
                return Ok(Some(bound));
            }
            (Look::Unknown, Unclear::MustEnd) if !is_asked => {
                is_asked = true;
                // A connection that is gone tells so by itself.
                let _ = shutdown(&bound.checkout.upstream.stream, Shutdown::Write);
            }
            _ => {}
        }
        if let Some(ended) = pace.judge(client, &bound) {
            return Err(stuck(client, bound, look, ended).into());
        }
        if !matches!(client.stream.take_error(), Ok(None)) {
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
                return match server_gone(client, bound, is_reset).await {
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

/// Parts a client from its server's connection, which is kept for others if it is at rest. `Err`: the client's has to end.
pub fn part(client: &Client, mut bound: Box<Bound>) -> Result<(), Next> {
    if !bound.disarm_to_part(client) {
        return Err(Next::Reset);
    }
    bound.give_back(client);
    Ok(())
}

/// The client is to be sent something by the process: waits until it has its response, and parts it from the server's connection.
pub async fn leave(client: &mut Client) -> Result<(), Next> {
    let Some(bound) = client.binding.bound.take() else {
        return Ok(());
    };
    let unclear = Unclear::before_others(client);
    match settle(client, bound, unclear).await {
        Ok(Some(bound)) => part(client, bound),
        Ok(None) => Ok(()),
        Err(unsettled) => Err(unsettled.give_up(client)),
    }
}

/// The client has ended its stream, or was reset; in the former case it still gets its response (RFC 9112 section 9.6).
pub async fn serve_to_end(client: &mut Client, is_reset: bool) -> Result<(), Unsettled> {
    let Some(mut bound) = client.binding.bound.take() else {
        return Ok(());
    };
    if !is_reset {
        return match settle(client, bound, Unclear::MustEnd).await? {
            Some(bound) => Ok(part(client, bound)?),
            None => Ok(()),
        };
    }
    match bound.look(client) {
        Look::Whole { is_exact } => {
            bound.is_over(client, is_exact);
            let _ = part(client, bound);
        }
        _ => {
            bound.conclude(client, "client_reset");
            bound.reset_server();
            bound.disarm_to_part(client);
        }
    }
    Ok(())
}
