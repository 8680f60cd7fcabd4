//! What can happen to two connections between which the kernel forwards.
use crate::context::client::Client;
use crate::context::downstream::Downstream;
use crate::context::kernel_forward::Pair;
use crate::net::io::{Stream, try_peek};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// What can happen while the kernel forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Client,
    /// Part of a response is there that the kernel does not forward.
    Body,
    Server {
        is_reset: bool,
    },
    Dismissed,
    Tick,
}

/// What is waited for, besides the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitFor {
    pub client: bool,
    pub dismissal: bool,
}

impl Pair {
    /// Ready when the server has ended its stream, or has broken off.
    pub(super) fn poll_server(&self, cx: &mut Context<'_>) -> Poll<Event> {
        if self.splice.is_armed() {
            self.splice.listen(cx);
            if self.splice.is_server_over() {
                return Poll::Ready(Event::Server { is_reset: false });
            }
            // As if the server had broken off: what did not arrive is lost.
            if self.splice.is_stuck() {
                return Poll::Ready(Event::Server { is_reset: true });
            }
        }
        let stream = &self.checkout.upstream.transport;
        if self.left_bytes() > 0 {
            return stream.poll_read_ready(cx).map(|_| Event::Body);
        }
        while stream.poll_read_ready(cx).is_ready() {
            match try_peek(stream) {
                // An end, or bytes that no request asked for.
                Ok(is_reset) => return Poll::Ready(Event::Server { is_reset }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Poll::Ready(Event::Server { is_reset: true }),
            }
        }
        Poll::Pending
    }
}

/// The next event; [`Event::Tick`] after `limit`.
pub(super) async fn next_event(
    client: &mut Client,
    pair: &Pair,
    wait_for: WaitFor,
    limit: Duration,
) -> Event {
    let Client {
        context,
        downstream: Downstream {
            transport, timer, ..
        },
    } = client;
    let mut listening = poll_fn(|cx| {
        if wait_for.client && transport.poll_read_ready(cx).is_ready() {
            return Poll::Ready(Event::Client);
        }
        pair.poll_server(cx)
    });
    if !wait_for.dismissal {
        return timer.within(limit, listening).await.unwrap_or(Event::Tick);
    }
    let mut waiting = pin!(context.worker.sessions.wait_idle(&mut listening));
    match timer
        .within(limit, poll_fn(|cx| waiting.as_mut().poll(cx)))
        .await
    {
        Ok(Some(event)) => event,
        Ok(None) => Event::Dismissed,
        Err(_) => Event::Tick,
    }
}
