//! Between two requests of a bound client: it may ask, its server may end, and the time of a response may be over.
use super::body::PassedOn;
use super::response::Look;
use super::settle::{Parting, Unclear, Unsettled, part, settle_and_part};
use super::{BOUND_IDLE_MAX, Disarmed, TICK};
use crate::config::plan::Plan;
use crate::context::client::Client;
use crate::context::client::Next;
use crate::context::kernel_forward::{Bound, Pending};
use crate::context::request_log::RequestLog;
use crate::context::request_log::{IDLE_TIMEOUT, TOO_SLOW};
use crate::http::outcome::Failure;
use crate::net::io::{Stream, try_peek};
use crate::telemetry::metrics::Limit;
use carrick_logic::http1::ResponseBody;
use carrick_splice::ResponseProgress;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// What the wait has come to.
pub enum Waited {
    /// The client has sent something, or has ended.
    Request,
    /// The client is bound to nobody any more, and may wait for so long yet.
    Parted(Duration),
    /// The server has not answered: somebody else has to.
    Lost(Box<Lost>),
    /// The client's connection is to end.
    End(Next),
}

/// A request whose response did not come.
pub struct Lost {
    /// Its entry in the access log, as far as it is known.
    pub log: RequestLog,
    /// Its head, as the client has written it.
    pub request: Vec<u8>,
    /// What the client is to be told; `None`: another server may be asked.
    pub failure: Option<Failure>,
}

/// What happens while nobody reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Client,
    /// A part of a response is there that the kernel does not forward.
    Body,
    Server {
        is_reset: bool,
    },
    Dismissed,
    Tick,
}

/// Who is listened to, besides the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ears {
    pub client: bool,
    pub dismissal: bool,
}

impl Bound {
    /// Ready when the server has ended its stream, or has broken off.
    pub(super) fn poll_server(&self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.splice.is_armed() {
            self.splice.listen(cx);
            if self.splice.is_server_over() {
                return Poll::Ready(Event::Server { is_reset: false });
            }
        }
        let stream = &self.checkout.upstream.transport;
        if self.left_bytes() > 0 {
            return stream.poll_read_ready(cx).map(|_| Event::Body);
        }
        while stream.poll_read_ready(cx).is_ready() {
            match try_peek(stream) {
                // Nobody has asked for it.
                Ok(is_reset) => return Poll::Ready(Event::Server { is_reset }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(Event::Server { is_reset: true }),
            }
        }
        Poll::Pending
    }
}

/// The next thing that happens, at the latest after `limit`.
pub(super) async fn next_event(
    client: &mut Client,
    bound: &Bound,
    ears: Ears,
    limit: Duration,
) -> Event {
    let Client {
        worker,
        transport,
        timer,
        ..
    } = client;
    let mut listening = poll_fn(|cx| {
        if ears.client && transport.poll_read_ready(cx).is_ready() {
            return Poll::Ready(Event::Client);
        }
        bound.poll_server(cx)
    });
    if !ears.dismissal {
        return timer.within(limit, listening).await.unwrap_or(Event::Tick);
    }
    let mut waiting = pin!(worker.idle.wait(&mut listening, || worker.dismisses_idle()));
    match timer
        .within(limit, poll_fn(|cx| waiting.as_mut().poll(cx)))
        .await
    {
        Ok(Some(event)) => event,
        Ok(None) => Event::Dismissed,
        Err(_) => Event::Tick,
    }
}

/// Waits without a buffer for the next request, at most `limit` after the response.
pub async fn wait(client: &mut Client, limit: Duration) -> Waited {
    let Some(mut bound) = client.binding.bound.take() else {
        return Waited::Parted(limit);
    };
    let plan = client.live.plan();
    let idle = plan.timeouts.idle;
    let ears = Ears {
        client: true,
        dismissal: true,
    };
    let mut pace = None;
    loop {
        let quiet_max = quiet_max(bound.pending.is_some(), idle, limit);
        let event = next_event(client, &bound, ears, quiet_max).await;
        bound.catch_up(client);
        let event = match event {
            Event::Body => match bound.pass_on(client).await {
                PassedOn::Some | PassedOn::Nothing => Event::Body,
                PassedOn::ServerGone { is_reset } => Event::Server { is_reset },
                PassedOn::ClientGone(ended) => {
                    return Waited::End(client_gone(client, bound, ended));
                }
            },
            event => event,
        };
        match event {
            Event::Client => {
                client.binding.bound = Some(bound);
                return Waited::Request;
            }
            Event::Server { is_reset } => {
                return match Box::pin(server_gone(client, bound, is_reset, false)).await {
                    Gone::Over => Waited::Parted(limit),
                    Gone::End(next) => Waited::End(next),
                    Gone::Lost(lost) => Waited::Lost(lost),
                };
            }
            Event::Dismissed => {
                let parting = settle_and_part(client, bound, Unclear::MustEnd);
                return match Box::pin(parting).await {
                    Ok(()) => Waited::End(Next::Close),
                    Err(Unsettled::End(next)) => Waited::End(next),
                    Err(Unsettled::Lost(lost)) => Waited::Lost(lost),
                };
            }
            Event::Tick if bound.pending.is_none() => match part(client, bound) {
                Parting::Parted => return Waited::Parted(limit.saturating_sub(quiet_max)),
                Parting::NotYet(again) => bound = again,
                Parting::End(next) => return Waited::End(next),
            },
            // A response that takes so long may show what its legs are like.
            Event::Tick => bound.note_path_statistics(client),
            Event::Body => {}
        }
        match bound.look(client) {
            Look::Whole { is_exact } => {
                bound.is_over(client, is_exact);
                if bound.past.is_closing {
                    // Whoever asks behind the last response gets none, from whomever.
                    return Waited::End(match part(client, bound) {
                        Parting::Parted | Parting::NotYet(_) => Next::Close,
                        Parting::End(next) => next,
                    });
                }
            }
            Look::Nothing => {
                if (bound.pending.as_ref()).is_some_and(|it| it.has_waited(idle, Instant::now())) {
                    return timed_out(client, bound);
                }
            }
            Look::TooLong => return Waited::End(too_long(client, bound)),
            look => {
                let (now, progress) = (Instant::now(), bound.progress());
                let pace = pace.get_or_insert_with(|| Pace::new(progress, now));
                let has_room = || bound.splice.client_has_room();
                if let Some(ended) = pace.judge(client.live.plan(), progress, now, has_room) {
                    return Waited::End(stuck(client, bound, look, ended));
                }
            }
        }
    }
}

/// For how long nobody has to look at a client: it may wait for so long yet between two requests.
fn quiet_max(is_pending: bool, idle: Duration, limit: Duration) -> Duration {
    if is_pending {
        TICK.min(idle / 4)
    } else {
        BOUND_IDLE_MAX.min(limit)
    }
}

/// The client takes no more of its response.
pub(super) fn client_gone(client: &Client, mut bound: Box<Bound>, ended: &'static str) -> Next {
    if ended == IDLE_TIMEOUT {
        client.worker.metrics.limits.reached(Limit::IdleTimeout);
    }
    bound.conclude(client, ended);
    bound.reset_server();
    bound.disarm_to_part(client);
    Next::Reset
}

/// How a response moves, as far as it is looked at.
pub(super) struct Pace {
    progress: ResponseProgress,
    moved: Instant,
    window: (Instant, u64),
}

impl Pace {
    pub(super) fn new(progress: ResponseProgress, now: Instant) -> Self {
        Self {
            progress,
            moved: now,
            window: (now, progress.acked_bytes),
        }
    }

    /// How long nothing has moved.
    pub(super) fn quiet(&mut self, progress: ResponseProgress, now: Instant) -> Duration {
        if progress != self.progress {
            (self.progress, self.moved) = (progress, now);
        }
        now.duration_since(self.moved)
    }

    /// Why the response is not waited for any longer.
    pub(super) fn judge(
        &mut self,
        plan: &Plan,
        progress: ResponseProgress,
        now: Instant,
        client_has_room: impl FnOnce() -> bool,
    ) -> Option<&'static str> {
        if self.quiet(progress, now) >= plan.timeouts.idle {
            return Some(IDLE_TIMEOUT);
        }
        let (since, bytes) = self.window;
        let window = now.duration_since(since);
        if plan.limits.rate_min == 0 || window < plan.timeouts.head {
            return None;
        }
        let acked_bytes = progress.acked_bytes;
        self.window = (now, acked_bytes);
        // The least rate is asked of clients; servers have the idle time-out.
        let wanted_bytes = plan.limits.rate_min as f64 * window.as_secs_f64();
        let is_slow = ((acked_bytes - bytes) as f64) < wanted_bytes && !client_has_room();
        is_slow.then_some(TOO_SLOW)
    }
}

/// What the end of a server's connection means.
pub(super) enum Gone {
    /// The response, if there was one, is over; the client stays.
    Over,
    /// The client's connection is to end.
    End(Next),
    /// Nothing of the response has come.
    Lost(Box<Lost>),
}

/// What is to become of a response that gets no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The client has it.
    Over { is_exact: bool },
    /// Not a byte of it has come.
    Lost,
    /// The client's connection is closed: the response ends so, or that cannot be told.
    Closed { is_complete: bool },
    /// The client's connection is reset: it has only a part, or nobody knows whose bytes came.
    Cut { is_servers_fault: bool },
}

/// The server's connection is gone, and the kernel has given both back. `has_sent_nothing`: also when it did that; `has_response`: a client
/// that never pipelines has asked for something else, so it has its response.
fn fate(
    pending: &Pending,
    look: Look,
    is_reset: bool,
    has_sent_nothing: bool,
    has_response: bool,
) -> Fate {
    let head = pending.final_head();
    match look {
        // Something has come just now.
        Look::Nothing if !has_sent_nothing => Fate::Cut {
            is_servers_fault: false,
        },
        // The response before may not be whole, and says so itself. An end is sent again if it is lost; a reset is not.
        Look::Nothing if !pending.is_trusted => Fate::Closed { is_complete: false },
        Look::Nothing => Fate::Lost,
        Look::Whole { is_exact } => Fate::Over { is_exact },
        Look::Partial
            if !is_reset && head.is_some_and(|head| head.body == ResponseBody::UntilClose) =>
        {
            Fate::Closed { is_complete: true }
        }
        Look::Unknown if !is_reset && has_response => Fate::Over { is_exact: false },
        Look::Unknown if !is_reset => Fate::Closed {
            is_complete: head.is_some(),
        },
        Look::Partial | Look::Unknown | Look::TooLong => Fate::Cut {
            is_servers_fault: true,
        },
    }
}

/// The response does not go on, for this reason. Whoever keeps a client with room waiting is the server.
fn fate_of_stuck(look: Look, ended: &str, client_has_room: impl FnOnce() -> bool) -> Fate {
    match look {
        Look::Unknown => Fate::Closed { is_complete: true },
        _ => Fate::Cut {
            is_servers_fault: ended == IDLE_TIMEOUT && client_has_room(),
        },
    }
}

/// Whether somebody else may be asked for a response of which nothing has come, without a word of it to the client: nobody knows of
/// bytes for the client that are not this response's.
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

/// The server has ended its stream, or has broken off. `has_response`: see [`fate`].
pub(super) async fn server_gone(
    client: &mut Client,
    mut bound: Box<Bound>,
    is_reset: bool,
    has_response: bool,
) -> Gone {
    let how = if is_reset {
        "upstream_reset"
    } else {
        "upstream_closed"
    };
    // After a reset the client may have everything, and not have said so yet.
    let deadline = Instant::now() + TICK;
    while is_reset && is_unacknowledged(bound.splice.progress()) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let look = bound.look(client);
    if bound.disarm_to_part(client) != Disarmed::Done {
        // What the kernel has forwarded since is not answered any more.
        bound.catch_up(client);
        bound.conclude(client, how);
        return Gone::End(Next::Reset);
    }
    let Some(pending) = &bound.pending else {
        return Gone::Over;
    };
    let fate = fate(
        pending,
        look,
        is_reset,
        bound.has_sent_nothing(),
        has_response,
    );
    match fate {
        Fate::Over { is_exact } => {
            bound.is_over(client, is_exact);
            return if bound.past.is_closing {
                Gone::End(Next::Close)
            } else {
                Gone::Over
            };
        }
        Fate::Lost => return lost(client, bound).map_or(Gone::Over, Gone::Lost),
        Fate::Closed { .. } | Fate::Cut { .. } => {}
    }
    Gone::End(end(client, &mut bound, fate, how))
}

/// The response ends here, by the client's connection; `how`, in one word, unless it is complete.
fn end(client: &Client, bound: &mut Bound, fate: Fate, how: &'static str) -> Next {
    if fate
        == (Fate::Cut {
            is_servers_fault: true,
        })
    {
        bound.checkout.failed(&bound.place);
    }
    let is_complete = fate == Fate::Closed { is_complete: true };
    bound.conclude(client, if is_complete { "complete" } else { how });
    if matches!(fate, Fate::Closed { .. }) {
        Next::Close
    } else {
        Next::Reset
    }
}

/// Not a byte of the response has come, and none will.
fn lost(client: &Client, mut bound: Box<Bound>) -> Option<Box<Lost>> {
    let pending = bound.pending.take()?;
    client.worker.metrics.retries.add(1);
    Some(Box::new(Lost {
        log: pending.log,
        request: std::mem::take(&mut bound.request),
        failure: None,
    }))
}

/// The server has not answered in time.
fn timed_out(client: &Client, mut bound: Box<Bound>) -> Waited {
    client.worker.metrics.limits.reached(Limit::IdleTimeout);
    bound.reset_server();
    let is_trusted = (bound.pending.as_ref()).is_some_and(|pending| pending.is_trusted);
    let disarmed = bound.disarm_to_part(client);
    if may_be_asked_again(disarmed, is_trusted, bound.has_sent_nothing()) {
        return lost(client, bound).map_or(Waited::End(Next::Reset), |mut lost| {
            lost.failure = Some(Failure::TimedOut);
            Waited::Lost(lost)
        });
    }
    bound.catch_up(client);
    bound.conclude(client, "upstream_timeout");
    Waited::End(Next::Reset)
}

/// The server has sent more than its response, and the client has it. No other response may follow.
pub(super) fn too_long(client: &Client, mut bound: Box<Bound>) -> Next {
    bound.conclude(client, "bad_response");
    bound.reset_server();
    bound.disarm_to_part(client);
    Next::Reset
}

/// A response does not go on.
pub(super) fn stuck(
    client: &Client,
    mut bound: Box<Bound>,
    look: Look,
    ended: &'static str,
) -> Next {
    client.worker.metrics.limits.reached(if ended == TOO_SLOW {
        Limit::RateMin
    } else {
        Limit::IdleTimeout
    });
    let fate = fate_of_stuck(look, ended, || bound.splice.client_has_room());
    let next = end(client, &mut bound, fate, ended);
    bound.reset_server();
    match bound.disarm_to_part(client) {
        Disarmed::Done => next,
        Disarmed::Behind | Disarmed::Lost => Next::Reset,
    }
}

impl Pending {
    /// Whether the response has been waited for so long.
    fn has_waited(&self, limit: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.log.begun) >= limit
    }
}

#[cfg(test)]
mod tests;
