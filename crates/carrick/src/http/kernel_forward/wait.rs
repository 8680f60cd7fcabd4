//! Between two requests of a client with a pair: it may ask, its server may end, and a response may time out.
use super::body::PassedOn;
use super::detach::{Detached, Following, Interrupted, await_end_and_detach, detach, timed_out};
use super::end::{ServerEnd, StallWatch, Unanswered, client_gone, server_gone, stalled, too_long};
use super::events::{Event, WaitFor, next_event};
use super::response::ResponseState;
use super::{PAIR_IDLE_MAX, TICK};
use crate::context::client::Client;
use crate::context::client::Next;
use std::time::{Duration, Instant};

/// What the wait has come to.
pub enum Waited {
    /// The client has sent something, or has ended.
    Request,
    /// The client has no pair any more; how long it may still wait.
    Detached(Duration),
    /// The server has not answered: another one has to, or carrick.
    Unanswered(Box<Unanswered>),
    /// The client's connection is to end.
    End(Next),
}

impl From<Interrupted> for Waited {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::End(next) => Self::End(next),
            Interrupted::Unanswered(unanswered) => Self::Unanswered(unanswered),
        }
    }
}

/// Waits without a buffer for the next request, at most `limit` after the response.
pub async fn wait(client: &mut Client, limit: Duration) -> Waited {
    let Some(mut pair) = client.downstream.kernel_forward.pair.take() else {
        return Waited::Detached(limit);
    };
    let plan = client.context.live.plan();
    let idle = plan.timeouts.idle;
    let wait_for = WaitFor {
        client: true,
        dismissal: true,
    };
    let mut stalls = None;
    let mut rest = StallWatch::new(pair.progress(), Instant::now());
    loop {
        let quiet_max = quiet_max(pair.pending.is_some(), idle, limit);
        let event = next_event(client, &pair, wait_for, quiet_max).await;
        if pair.catch_up(&client.context) {
            stalls = None;
        }
        let event = match event {
            Event::Body => match pair.pass_on(client).await {
                PassedOn::Some | PassedOn::Nothing => Event::Body,
                PassedOn::ServerGone { is_reset } => Event::Server { is_reset },
                PassedOn::ClientGone(ended) => {
                    return Waited::End(client_gone(client, pair, ended));
                }
            },
            event => event,
        };
        match event {
            Event::Client => {
                client.downstream.kernel_forward.pair = Some(pair);
                return Waited::Request;
            }
            Event::Server { is_reset } => {
                return match Box::pin(server_gone(client, pair, is_reset, false)).await {
                    ServerEnd::Over => Waited::Detached(limit),
                    ServerEnd::End(next) => Waited::End(next),
                    ServerEnd::Unanswered(unanswered) => Waited::Unanswered(unanswered),
                };
            }
            Event::Dismissed => {
                let detaching = await_end_and_detach(client, pair, Following::Nothing);
                return match Box::pin(detaching).await {
                    // A request that has come meanwhile is answered.
                    Ok(()) => Waited::Detached(Duration::ZERO),
                    Err(interrupted) => interrupted.into(),
                };
            }
            Event::Tick if pair.pending.is_none() => {
                let quiet = rest.quiet(pair.progress(), Instant::now());
                // A chunk may have looked like the last one: more may come.
                if !pair.past.is_certain(None) && quiet < idle {
                    continue;
                }
                match detach(client, pair) {
                    Detached::Done => {
                        return Waited::Detached(limit.saturating_sub(quiet.max(quiet_max)));
                    }
                    Detached::NotYet(again) => pair = again,
                    Detached::End(next) => return Waited::End(next),
                }
            }
            // A response that takes this long gives statistics of both paths.
            Event::Tick => pair.note_path_statistics(&client.downstream.transport),
            Event::Body => {}
        }
        match pair.state(&client.context) {
            ResponseState::Whole { is_exact } => {
                stalls = None;
                pair.is_over(client, is_exact);
                if pair.past.is_closing {
                    // Requests after the last response get none.
                    return Waited::End(match detach(client, pair) {
                        Detached::Done | Detached::NotYet(_) => Next::Close,
                        Detached::End(next) => next,
                    });
                }
            }
            ResponseState::NotBegun => {
                stalls = None;
                if (pair.pending.as_ref()).is_some_and(|it| it.has_waited(idle, Instant::now())) {
                    return timed_out(client, pair).into();
                }
            }
            ResponseState::TooLong => return Waited::End(too_long(client, pair)),
            state => {
                let (now, progress) = (Instant::now(), pair.progress());
                let stalls = stalls.get_or_insert_with(|| StallWatch::new(progress, now));
                let has_room = || pair.splice.client_has_room();
                if let Some(ended) =
                    stalls.check(client.context.live.plan(), progress, now, has_room)
                {
                    return Waited::End(stalled(client, pair, state, ended));
                }
            }
        }
    }
}

/// How long a client needs no check. `limit`: how long it may still wait between two requests.
fn quiet_max(is_pending: bool, idle: Duration, limit: Duration) -> Duration {
    if is_pending {
        TICK.min(idle / 4)
    } else {
        PAIR_IDLE_MAX.min(limit)
    }
}

#[cfg(test)]
mod tests;
