//! Streams whose response is complete and whose end is still to come: a server may send that in a frame of its own
//! (RFC 9113 section 8.1). To reset them would tell it that the request was cancelled.
use super::super::StreamPlace;
use crate::net::deadline::{Deadline, Timer, now};
use h2::RecvStream;
use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// How long the end may take. Then the stream is reset.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The streams of one connection, the oldest first. The server counts them still, and so does their place.
#[derive(Debug, Default)]
pub(super) struct Unended(VecDeque<Stream>);

#[derive(Debug)]
struct Stream {
    stream: RecvStream,
    until: Instant,
    /// Given up after the stream.
    _place: StreamPlace,
}

impl Unended {
    /// One more. To be [polled](Self::poll) soon.
    pub(super) fn add(&mut self, stream: RecvStream, place: StreamPlace) {
        self.0.push_back(Stream {
            stream,
            until: now() + END_TIMEOUT,
            _place: place,
        });
    }

    /// Lets those go that have ended. Those that send content nevertheless, or are late, are reset by that.
    pub(super) fn poll(&mut self, timer: &mut Timer, cx: &mut Context<'_>) {
        self.0.retain_mut(|stream| stream.poll_end(cx).is_pending());
        while let Some(oldest) = self.0.front() {
            let mut deadline = Deadline::at(oldest.until);
            let mut wait = timer.until(&mut deadline, pending::<()>());
            if Pin::new(&mut wait).poll(cx).is_pending() {
                return;
            }
            self.0.pop_front();
        }
    }
}

impl Stream {
    /// Ready with anything but an empty frame.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match ready!(self.stream.poll_data(cx)) {
                Some(Ok(bytes)) if bytes.is_empty() => {}
                _ => return Poll::Ready(()),
            }
        }
    }
}
