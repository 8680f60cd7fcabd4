//! Sending a request: its head and the body that follows, up to the body's last byte and not one further.
use carrick_logic::http1::{BodyLength, Chunked, Followed, OddNames, Refusal};
use carrick_splice::tcp::{UnreadLimit, UnreadWindow};
use carrick_splice::{
    Choice, End, Ended, Order, PaceHandle, RateMin, Side, Splicer, Throttle, Transfer,
};
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use super::least_rate::{ReceiverPace, SenderPace};
use super::while_taken::write_while_taken;
use crate::net::deadline::{TimedOut, Timer, now};
use crate::net::io::{Stream, read_at_most, read_rest};
use crate::net::transport::Transport;
use crate::telemetry::metrics::Limit;

/// A chunk's content is spliced from this size on; below, it is read with its framing.
pub const SPLICED_CHUNK_BYTES_MIN: u64 = 64 * 1024;

/// Room that a body read needs in its buffer.
const READ_BYTES_MIN: usize = 8 * 1024;

/// Size of the buffer for a body that is copied: a TLS record.
const COPIED_BYTES: usize = 16 * 1024;

/// How bodies are to be moved.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// The splice service.
    pub splicer: &'a Splicer,
    /// The engine that is asked for.
    pub engine: Choice,
    /// Longest time without a byte.
    pub idle: Duration,
    /// Least rate, after a grace.
    pub rate_min: Option<RateMin>,
    /// How they are paced: to the server, and to the client.
    pub pace: [PaceHandle; 2],
    /// How much of the sender may wait unread.
    pub unread: UnreadLimit,
    /// What becomes of trailers with odd names.
    pub odd_names: OddNames,
    /// Most bytes of trailers that come [by HTTP/2](Self::trailers_from): those of a head.
    pub trailers_bytes_max: usize,
    /// When bytes last moved in either direction, if both are served at the same time: one may be silent as long as the other is not.
    pub moved: Option<&'a Cell<Instant>>,
}

impl Means<'_> {
    /// `chunked`, whose trailers may be longer if `sender` speaks HTTP/2, where they come in one piece.
    pub fn trailers_from(&self, sender: &Transport, chunked: Chunked) -> Chunked {
        match sender {
            Transport::Http2(_) | Transport::Http2Server(_) => {
                chunked.with_trailers_of(self.trailers_bytes_max)
            }
            _ => chunked,
        }
    }

    /// Waits for a read, as long as bytes move.
    pub async fn read<T>(
        &self,
        timer: &mut Timer,
        reading: impl Future<Output = io::Result<T>> + Unpin,
    ) -> Result<io::Result<T>, TimedOut> {
        match self.moved {
            None => timer.within(self.idle, reading).await,
            Some(moved) => read_while_moving(timer, (self.idle, moved), reading).await,
        }
    }

    /// The engine for a body to this client. Only TCP itself is left to the engines that redirect it.
    pub fn engine_to(&self, client: &Transport) -> Choice {
        match client.tcp() {
            Some(_) => self.engine,
            None => self.engine_before_more(),
        }
    }

    /// The engine for a piece that is followed by more on the same connection: by the next chunk, or the next request. The
    /// process keeps such a boundary at less cost than the kernel.
    pub fn engine_before_more(&self) -> Choice {
        match self.engine {
            Choice::Socket | Choice::Packet => Choice::Auto,
            choice => choice,
        }
    }
}

/// Waits for a read that may take longer than `idle` if something else `moved` meanwhile.
async fn read_while_moving<T>(
    timer: &mut Timer,
    (idle, moved): (Duration, &Cell<Instant>),
    mut reading: impl Future<Output = io::Result<T>> + Unpin,
) -> Result<io::Result<T>, TimedOut> {
    let mut limit = idle;
    loop {
        let read = timer.within(limit, &mut reading).await;
        if read.is_ok() {
            moved.set(now());
            return read;
        }
        limit = idle.saturating_sub(now().saturating_duration_since(moved.get()));
        if limit.is_zero() {
            return read;
        }
    }
}

/// How sending ended, if not with the last byte.
#[derive(Debug)]
pub enum NotSent {
    /// The client closed or reset in the middle of its body.
    ClientGone,
    /// The client sent nothing, or too little, for too long: this limit was reached.
    ClientSlow(Limit),
    /// The body's framing is wrong.
    Refused(Refusal),
    /// The upstream does not take it; it may have answered early.
    Upstream {
        /// Whether not a single byte went out.
        nothing_sent: bool,
        /// Why.
        error: io::Error,
    },
    /// The upstream did not read for too long.
    UpstreamSlow,
}

/// Sends `head` (rewritten) and the body of length `body`. `buffer` holds the original head in its first `head_bytes`
/// bytes and what came after it; what is left after the head at the end belongs to the next request.
///
/// # Errors
/// See [`NotSent`].
pub async fn send(
    means: Means<'_>,
    client: &Transport,
    upstream: &Transport,
    head: &[u8],
    (buffer, head_bytes): (&mut Vec<u8>, usize),
    body: BodyLength,
    body_bytes: &mut u64,
) -> Result<(), NotSent> {
    match body {
        BodyLength::None => write(means, upstream, head, &[]).await,
        BodyLength::Bytes(length) => {
            let here = buffer
                .len()
                .saturating_sub(head_bytes)
                .min(usize::try_from(length).unwrap_or(usize::MAX));
            write(
                means,
                upstream,
                head,
                buffer
                    .get(head_bytes..head_bytes + here)
                    .unwrap_or_default(),
            )
            .await?;
            buffer.drain(head_bytes..head_bytes + here);
            *body_bytes += here as u64;
            splice(means, client, upstream, length - here as u64, body_bytes).await
        }
        BodyLength::Chunked => {
            send_chunked(
                means,
                client,
                upstream,
                head,
                (buffer, head_bytes),
                body_bytes,
            )
            .await
        }
    }
}

async fn send_chunked(
    means: Means<'_>,
    client: &Transport,
    upstream: &Transport,
    mut head: &[u8],
    (buffer, head_bytes): (&mut Vec<u8>, usize),
    body_bytes: &mut u64,
) -> Result<(), NotSent> {
    let mut chunked = means.trailers_from(client, Chunked::of_request(means.odd_names));
    let mut timer = Timer::default();
    let mut pace = SenderPace::new(means.rate_min);
    let mut throttle = Throttle::new(means.pace[0], means.splicer.pacer());
    let mut window = UnreadWindow::new(means.unread);
    loop {
        let mut content_bytes = 0;
        let Followed { bytes, is_over } = chunked
            .tidy(buffer, head_bytes, &mut content_bytes)
            .map_err(NotSent::Refused)?;
        // What came whole with its head is not paced.
        if bytes > 0 && (head.is_empty() || !is_over) {
            upstream.wait_for(&mut throttle, bytes as u64).await;
        }
        let ready = head_bytes..head_bytes + bytes;
        let is_begun = head.is_empty();
        write(
            means,
            upstream,
            std::mem::take(&mut head),
            buffer.get(ready.clone()).unwrap_or_default(),
        )
        .await
        .map_err(|not_sent| {
            if is_begun {
                as_begun(not_sent)
            } else {
                not_sent
            }
        })?;
        buffer.drain(ready);
        // Counted only now: what was not sent may be sent again.
        *body_bytes += content_bytes;
        if is_over {
            return Ok(());
        }
        if chunked.data_left() >= SPLICED_CHUNK_BYTES_MIN {
            let length = chunked.data_left();
            splice(means, client, upstream, length, body_bytes).await?;
            chunked.skip_data(length);
        }
        buffer.reserve(READ_BYTES_MIN);
        pace.begin();
        match means.read(&mut timer, read_rest(client, buffer)).await {
            Ok(Ok(0) | Err(_)) => return Err(NotSent::ClientGone),
            Ok(Ok(count)) if pace.end(count) => client.took(&mut window, count as u64),
            Ok(Ok(_)) => return Err(NotSent::ClientSlow(Limit::RateMin)),
            Err(_) => return Err(NotSent::ClientSlow(Limit::IdleTimeout)),
        }
    }
}

async fn write(
    means: Means<'_>,
    upstream: &Transport,
    first: &[u8],
    second: &[u8],
) -> Result<(), NotSent> {
    let mut done = 0;
    let mut timer = Timer::default();
    let (patience, pieces) = ((&mut timer, means.idle), (first, second));
    let pace = &mut ReceiverPace::new(None);
    match write_while_taken(patience, upstream, pieces, &mut done, pace).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(NotSent::Upstream {
            nothing_sent: done == 0 && first.len() + second.len() > 0,
            error,
        }),
        Err(_) => Err(NotSent::UpstreamSlow),
    }
}

async fn splice(
    means: Means<'_>,
    client: &Transport,
    upstream: &Transport,
    length: u64,
    body_bytes: &mut u64,
) -> Result<(), NotSent> {
    if length == 0 {
        return Ok(());
    }
    let Some([from, to]) = Transport::both_tcp(client, upstream) else {
        return Box::pin(copy(means, client, upstream, length, body_bytes)).await;
    };
    let mut order = Order::new(End::AfterBytes(length));
    order.choice = means.engine_before_more();
    order.idle = means.idle;
    order.rate_min = means.rate_min;
    order.pace = means.pace[0];
    order.unread = means.unread;
    let mut counted = Counted {
        transfer: means.splicer.transfer(from, to, order),
        body_bytes,
    };
    let result = loop {
        match counted.transfer.run().await {
            // The least rate is asked of clients; upstreams have the idle time-out.
            Ok(Ended::TooSlow) if !upstream.has_room() => {}
            result => break result,
        }
    };
    match result {
        Ok(Ended::Bytes) => Ok(()),
        Ok(Ended::EndOfStream | Ended::Input) => Err(NotSent::ClientGone),
        Ok(Ended::Idle) if !upstream.has_room() => Err(NotSent::UpstreamSlow),
        Ok(Ended::Idle) => Err(NotSent::ClientSlow(Limit::IdleTimeout)),
        Ok(Ended::TooSlow) => Err(NotSent::ClientSlow(Limit::RateMin)),
        Ok(Ended::Stalled) => Err(NotSent::UpstreamSlow),
        Err(fault) => Err(match fault.side {
            Side::From => NotSent::ClientGone,
            Side::To => NotSent::Upstream {
                nothing_sent: false,
                error: fault.source,
            },
        }),
    }
}

/// Counts what was moved, however the transfer ends: it may be given up.
pub(super) struct Counted<'a, 'b> {
    pub(super) transfer: Transfer<'a>,
    pub(super) body_bytes: &'b mut u64,
}

impl Drop for Counted<'_, '_> {
    fn drop(&mut self) {
        *self.body_bytes += self.transfer.bytes();
    }
}

/// The same by reading and writing.
async fn copy(
    means: Means<'_>,
    client: &Transport,
    upstream: &Transport,
    mut length: u64,
    body_bytes: &mut u64,
) -> Result<(), NotSent> {
    let mut buffer = Vec::with_capacity(COPIED_BYTES);
    let mut timer = Timer::default();
    let mut pace = SenderPace::new(means.rate_min);
    let mut throttle = Throttle::new(means.pace[0], means.splicer.pacer());
    let mut window = UnreadWindow::new(means.unread);
    while length > 0 {
        buffer.clear();
        pace.begin();
        let bytes_max = usize::try_from(length).unwrap_or(usize::MAX);
        let reading = read_at_most(client, &mut buffer, bytes_max);
        let count = match means.read(&mut timer, reading).await {
            Ok(Ok(0) | Err(_)) => return Err(NotSent::ClientGone),
            Ok(Ok(count)) => count,
            Err(_) => return Err(NotSent::ClientSlow(Limit::IdleTimeout)),
        };
        if !pace.end(count) {
            return Err(NotSent::ClientSlow(Limit::RateMin));
        }
        client.took(&mut window, count as u64);
        upstream.wait_for(&mut throttle, count as u64).await;
        write(means, upstream, &[], &buffer)
            .await
            .map_err(as_begun)?;
        length -= count as u64;
        *body_bytes += count as u64;
    }
    Ok(())
}

/// An error of a body of which something was sent before.
fn as_begun(not_sent: NotSent) -> NotSent {
    match not_sent {
        NotSent::Upstream { error, .. } => NotSent::Upstream {
            nothing_sent: false,
            error,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::transport::testing;
    use std::future::{pending, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    const IDLE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn what_could_not_be_sent_is_not_counted() {
        let address = |port| ([127, 0, 0, 1], port).into();
        let pair = || testing::pair([address(1), address(2)]);
        let ([client, _client], [upstream, server]) = (pair(), pair());
        let (client, upstream) = (Transport::Memory(client), Transport::Memory(upstream));
        server.reset();
        let splicer = Splicer::new(Default::default(), Default::default());
        let means = Means {
            splicer: &splicer,
            engine: Choice::Auto,
            idle: IDLE,
            rate_min: None,
            pace: Default::default(),
            unread: UnreadLimit::default(),
            odd_names: OddNames::Drop,
            trailers_bytes_max: 0,
            moved: None,
        };
        let mut buffer = b"5\r\nhello\r\n0\r\n\r\n".to_vec();
        let mut received = 0;
        let sent = send(
            means,
            &client,
            &upstream,
            b"head",
            (&mut buffer, 0),
            BodyLength::Chunked,
            &mut received,
        );
        let is_unsent = matches!(
            sent.await,
            Err(NotSent::Upstream {
                nothing_sent: true,
                ..
            })
        );
        assert!(is_unsent);
        assert_eq!(received, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_direction_may_be_silent_as_long_as_the_other_moves() {
        let begun = now();
        let moved = Cell::new(begun);
        let mut timer = Timer::default();
        let reading = Box::pin(pending::<io::Result<usize>>());
        let mut waiting = pin!(read_while_moving(&mut timer, (IDLE, &moved), reading));
        // The other direction moves for ten minutes.
        for _ in 0..20 {
            tokio::time::advance(Duration::from_secs(30)).await;
            moved.set(now());
            let polled = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_ready())).await;
            assert!(!polled);
        }
        assert!(waiting.await.is_err());
        assert_eq!(now() - begun, Duration::from_secs(600) + IDLE);
    }
}
