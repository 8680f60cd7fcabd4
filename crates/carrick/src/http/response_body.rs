//! Passing a response on: the rewritten head, and the body by the splice service, up to its last byte and not one further.
use super::cached::Tee;
use super::least_rate::ReceiverPace;
use super::outcome::Passed;
use super::request_body::{Counted, Means, SPLICED_CHUNK_BYTES_MIN};
use super::while_taken::{room_while_taken, write_while_taken};
use crate::context::request_log::IDLE_TIMEOUT;
use crate::context::request_log::STALLED;
use crate::context::request_log::TOO_SLOW;
use crate::http::prefetch::PageTap;
use crate::net::deadline::{TimedOut, Timer};
use crate::net::io::{Stream, poll_reset, read_some, try_read_at_most, write_all, write_last};
use crate::net::transport::Transport;
use crate::net::transport::http2::{Http2Stream, buffers};
use carrick_logic::http1::{
    Chunked, Followed, LAST_CHUNK, Piece, Refusal, ResponseBody, ResponseHead, Version,
    write_chunk_size,
};
use carrick_splice::tcp::UnreadWindow;
use carrick_splice::{End, Ended, Engine, Fault, LocalCopy, Order, Side, Throttle, Transfer};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::TcpStream;

/// Room that a read of a chunked body needs in its buffer.
const READ_BYTES_MIN: usize = 16 * 1024;

/// A body of up to this many bytes is copied behind the head, which costs less than `writev(2)` costs more than `send(2)`.
const COPIED_BODY_BYTES_MAX: usize = 4 * 1024;

/// Reads from the upstream, unless the client [does not want it](unless_reset) any more.
fn read_for<'a>(
    client: &'a Transport,
    upstream: &'a Transport,
    buffer: &'a mut Vec<u8>,
) -> impl Future<Output = io::Result<usize>> + Unpin {
    let mut reading = read_some(upstream, buffer);
    unless_reset(client, move |cx| Pin::new(&mut reading).poll(cx))
}

/// Waits for the upstream. The client is watched meanwhile: its reset [ends](is_unwanted) the wait.
fn unless_reset<T>(
    client: &Transport,
    mut upstream: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>> + Unpin,
) -> impl Future<Output = io::Result<T>> + Unpin {
    let mut watches = true;
    poll_fn(move |cx| {
        let polled = upstream(cx);
        if polled.is_pending() && watches && poll_reset(client, &mut watches, cx) {
            return Poll::Ready(Err(io::ErrorKind::Interrupted.into()));
        }
        polled
    })
}

/// Whether the client has reset its connection or stream.
fn is_unwanted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
}

/// Whether there is more of a body than what is in the buffer: it may be spliced.
pub fn is_to_come(head: &ResponseHead, buffer: &[u8]) -> bool {
    match head.body {
        ResponseBody::None | ResponseBody::Tunnel => false,
        ResponseBody::Bytes(length) => {
            length > (buffer.len().saturating_sub(head.head_bytes)) as u64
        }
        ResponseBody::Chunked | ResponseBody::UntilClose => true,
    }
}

/// What is passed on, and what was counted on the way.
pub struct Response<'a> {
    /// The head as it came; its bytes are the first of `buffer`.
    pub head: &'a ResponseHead,
    /// What came from the upstream so far.
    pub buffer: &'a mut Vec<u8>,
    /// The rewritten head, not sent yet; empty if it is sent.
    pub out: &'a mut Vec<u8>,
    /// The client's version; HTTP/1.0 gets chunked content without its framing.
    pub client_version: Version,
    /// Body bytes that went to the client.
    pub body_bytes: u64,
    /// The engine that moved (most of) the body.
    pub engine: Engine,
    /// Whether a body that ends with the upstream's connection is sent in chunks (RFC 9112 section 7.1).
    pub is_framed: bool,
    /// Whether the client's connection ends as soon as it has all of it.
    pub is_last: bool,
    /// Stores what passes.
    pub tee: Option<&'a mut Tee>,
    /// Reads its beginning, if it is a page.
    pub tap: Option<&'a mut PageTap>,
}

impl Response<'_> {
    /// Passes the response on.
    pub async fn pass(
        &mut self,
        means: Means<'_>,
        upstream: &Transport,
        client: &Transport,
        timer: &mut Timer,
    ) -> Passed {
        match self.head.body {
            ResponseBody::None | ResponseBody::Tunnel => {
                if let Err(passed) = self.write(means, client, timer, 0).await {
                    return passed;
                }
                // After a tunnel's head the bytes belong to the tunnel; otherwise they are surplus.
                if self.head.body == ResponseBody::None && self.buffer.len() > self.head.head_bytes
                {
                    Passed::WholeAndDone
                } else {
                    Passed::Whole
                }
            }
            ResponseBody::Bytes(length) if self.tee.is_some() => {
                Box::pin(self.pass_and_keep(means, upstream, client, timer, Some(length))).await
            }
            ResponseBody::Bytes(length) => {
                self.pass_bytes(means, upstream, client, timer, length)
                    .await
            }
            ResponseBody::Chunked => {
                Box::pin(self.pass_chunked(means, upstream, client, timer)).await
            }
            ResponseBody::UntilClose => match Transport::spliceable(upstream, client, u64::MAX) {
                Some(legs) if !self.is_framed && self.tee.is_none() && self.tap.is_none() => {
                    self.pass_rest(means, legs, client).await
                }
                _ => Box::pin(self.pass_and_keep(means, upstream, client, timer, None)).await,
            },
        }
    }

    async fn pass_bytes(
        &mut self,
        means: Means<'_>,
        upstream: &Transport,
        client: &Transport,
        timer: &mut Timer,
        length: u64,
    ) -> Passed {
        let head_bytes = self.head.head_bytes;
        let here = self.buffer.len() - head_bytes;
        if here as u64 >= length {
            let excess = here as u64 > length;
            let Ok(body) = usize::try_from(length) else {
                return Passed::UpstreamBroke("length");
            };
            self.show(head_bytes, head_bytes + body);
            return match self.write(means, client, timer, body).await {
                Err(passed) => passed,
                Ok(()) if excess => Passed::WholeAndDone,
                Ok(()) => Passed::Whole,
            };
        }
        let Some(legs) = Transport::spliceable(upstream, client, length + self.out.len() as u64)
        else {
            return match client {
                Transport::Http2(stream) if self.tap.is_none() => {
                    Box::pin(self.pass_to_stream(means, upstream, (client, stream), timer, length))
                        .await
                }
                _ => {
                    Box::pin(self.pass_and_keep(means, upstream, client, timer, Some(length))).await
                }
            };
        };
        let left_bytes = length - here as u64;
        self.show(head_bytes, head_bytes + here);
        let shown_bytes = self.tap.as_ref().map_or(0, |tap| tap.wanted_bytes());
        if (1..left_bytes).contains(&shown_bytes) {
            let parts = (shown_bytes, left_bytes - shown_bytes);
            // Boxed: what few responses need should not make every session larger.
            return Box::pin(self.pass_shown(means, legs, client, parts)).await;
        }
        // Boxed: a session that waits for a request has no need of its room.
        Box::pin(self.splice(means, legs, client, End::AfterBytes(left_bytes))).await
    }

    /// A body to a stream of HTTP/2. No more is read than the stream takes, at most a buffer at a time, and that is not
    /// copied again: a client that does not read holds nothing.
    async fn pass_to_stream(
        &mut self,
        means: Means<'_>,
        upstream: &Transport,
        (client, stream): (&Transport, &Http2Stream),
        timer: &mut Timer,
        length: u64,
    ) -> Passed {
        let here = self.buffer.len() - self.head.head_bytes;
        if let Err(passed) = self.write(means, client, timer, here).await {
            return passed;
        }
        let mut left_bytes = length - here as u64;
        let mut pace = ReceiverPace::new(means.rate_min);
        let mut throttle = Throttle::new(means.pace[1], means.splicer.pacer());
        let mut window = UnreadWindow::new(means.unread);
        while left_bytes > 0 {
            let readable = unless_reset(client, |cx| upstream.poll_read_ready(cx));
            match means.read(timer, readable).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) if is_unwanted(&error) => return Passed::ClientGone("client_reset"),
                Ok(Err(_)) => return Passed::UpstreamBroke("upstream_reset"),
                Err(_) => return Passed::UpstreamBroke(IDLE_TIMEOUT),
            }
            let room = poll_fn(|cx| stream.poll_room(left_bytes, cx));
            pace.begin();
            let patience = (&mut *timer, means.idle);
            let room = match room_while_taken(patience, client, room, (&pace, 0)).await {
                Ok(Ok(room)) => room,
                Ok(Err(_)) => return Passed::ClientGone("client_reset"),
                Err(how) => return Passed::ClientGone(how),
            };
            let mut bytes = buffers::take();
            let read = try_read_at_most(upstream, &mut bytes, room);
            stream.keep_room(bytes.len());
            let count = match read {
                Ok(0) => return Passed::UpstreamBroke("upstream_closed"),
                Ok(count) => count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    buffers::give(bytes);
                    continue;
                }
                Err(_) => return Passed::UpstreamBroke("upstream_reset"),
            };
            upstream.took(&mut window, count);
            left_bytes -= count;
            self.body_bytes += count;
            let is_in_time = pace.end(bytes.len());
            client.wait_for(&mut throttle, count).await;
            match stream.send(bytes) {
                Ok(()) if is_in_time => {}
                Ok(()) => return Passed::ClientGone(TOO_SLOW),
                Err(_) => return Passed::ClientGone("client_reset"),
            }
        }
        Passed::Whole
    }

    /// Bytes that are read, then others that are not.
    async fn pass_shown(
        &mut self,
        means: Means<'_>,
        legs: [&TcpStream; 2],
        client: &Transport,
        (shown_bytes, left_bytes): (u64, u64),
    ) -> Passed {
        let end = End::AfterBytes(shown_bytes);
        match self.splice(means, legs, client, end).await {
            Passed::Whole => {}
            other => return other,
        }
        // The head is out, and what had come with it.
        self.out.clear();
        self.buffer.truncate(self.head.head_bytes);
        self.splice(means, legs, client, End::AfterBytes(left_bytes))
            .await
    }

    /// Copies these bytes of the buffer to the page's reader.
    fn show(&mut self, start: usize, end: usize) {
        if let Some(tap) = &mut self.tap {
            tap.take(self.buffer.get(start..end).unwrap_or_default());
        }
    }

    /// A body that ends with the upstream's stream; the client's stream ends with it, too.
    async fn pass_rest(
        &mut self,
        means: Means<'_>,
        legs: [&TcpStream; 2],
        client: &Transport,
    ) -> Passed {
        match Box::pin(self.splice(means, legs, client, End::EndOfStream)).await {
            Passed::Whole => Passed::WholeAndDone,
            other => other,
        }
    }

    /// The same, by the process: what passes is stored, or read, or sent in chunks. `left_bytes`: a known length.
    async fn pass_and_keep(
        &mut self,
        means: Means<'_>,
        upstream: &Transport,
        client: &Transport,
        timer: &mut Timer,
        mut left_bytes: Option<u64>,
    ) -> Passed {
        let mut pace = ReceiverPace::new(means.rate_min);
        let mut throttle = Throttle::new(means.pace[1], means.splicer.pacer());
        let mut window = UnreadWindow::new(means.unread);
        self.buffer.drain(..self.head.head_bytes);
        loop {
            let has_surplus = left_bytes.is_some_and(|left| self.buffer.len() as u64 > left);
            if let Some(left) = &mut left_bytes {
                self.buffer
                    .truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= self.buffer.len() as u64;
            }
            if let Some(tee) = &mut self.tee {
                tee.keep(self.buffer);
            }
            self.show(0, self.buffer.len());
            let body_bytes = self.buffer.len() as u64;
            if self.is_framed && body_bytes > 0 {
                write_chunk_size(self.out, body_bytes);
                self.buffer.extend_from_slice(b"\r\n");
            }
            client.wait_for(&mut throttle, body_bytes).await;
            let pieces = (&self.out[..], &self.buffer[..]);
            let patience = (&mut *timer, means.idle);
            let written = write_while_taken(patience, client, pieces, &mut 0, &mut pace).await;
            self.body_bytes += body_bytes;
            self.out.clear();
            self.buffer.clear();
            match written {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Passed::ClientGone("client_reset"),
                Err(how) => return Passed::ClientGone(how),
            }
            if left_bytes == Some(0) {
                return match has_surplus {
                    true => Passed::WholeAndDone,
                    false => Passed::Whole,
                };
            }
            self.buffer.reserve(READ_BYTES_MIN);
            match means
                .read(timer, read_for(client, upstream, self.buffer))
                .await
            {
                Ok(Err(error)) if is_unwanted(&error) => return Passed::ClientGone("client_reset"),
                Ok(Ok(0)) if left_bytes.is_some() => {
                    return Passed::UpstreamBroke("upstream_closed");
                }
                Ok(Ok(0)) if self.is_framed => return self.end_frames(means, client, timer).await,
                Ok(Ok(0)) => return Passed::WholeAndDone,
                Ok(Ok(count)) => upstream.took(&mut window, count as u64),
                Ok(Err(_)) => return Passed::UpstreamBroke("upstream_reset"),
                Err(_) => return Passed::UpstreamBroke(IDLE_TIMEOUT),
            }
        }
    }

    /// The last chunk.
    async fn end_frames(
        &mut self,
        means: Means<'_>,
        client: &Transport,
        timer: &mut Timer,
    ) -> Passed {
        let written = timer
            .within(means.idle, write_all(client, LAST_CHUNK))
            .await;
        match written {
            Ok(Ok(())) => Passed::WholeAndDone,
            Ok(Err(_)) => Passed::ClientGone("client_reset"),
            Err(_) => Passed::ClientGone(IDLE_TIMEOUT),
        }
    }

    async fn splice(
        &mut self,
        means: Means<'_>,
        legs: [&TcpStream; 2],
        client: &Transport,
        end: End,
    ) -> Passed {
        let here = self.buffer.get(self.head.head_bytes..).unwrap_or_default();
        self.out.extend_from_slice(here);
        self.body_bytes += here.len() as u64;
        let mut order = Order::new(end);
        order.choice = means.engine_to(client);
        order.prefix = self.out;
        order.idle = means.idle;
        order.rate_min = means.rate_min;
        order.pace = means.pace[1];
        order.unread = means.unread;
        let mut show;
        if let Some(tap) = self.tap.as_deref_mut()
            && tap.wanted_bytes() > 0
        {
            show = |bytes: &[u8]| tap.take(bytes);
            order.local_copy = LocalCopy::To(&mut show);
        }
        let mut counted = Counted {
            transfer: means.splicer.transfer(legs[0], legs[1], order),
            body_bytes: &mut self.body_bytes,
        };
        let transfer = &mut counted.transfer;
        let result = run(transfer, client).await;
        self.engine = transfer.engine();
        client.note_sunk(self.out.len() as u64 + transfer.bytes());
        match (result, end) {
            // What may have come behind the body is surplus.
            (Ok(Ended::Bytes), _) if transfer.has_surplus() => Passed::WholeAndDone,
            (Ok(Ended::Bytes), _) | (Ok(Ended::EndOfStream), End::EndOfStream) => Passed::Whole,
            (result, _) => cut_off(&result, client),
        }
    }

    async fn pass_chunked(
        &mut self,
        means: Means<'_>,
        upstream: &Transport,
        client: &Transport,
        timer: &mut Timer,
    ) -> Passed {
        let keeps_framing = self.client_version == Version::Http11;
        let mut chunked = means.trailers_from(upstream, Chunked::lenient());
        let mut has_begun = false;
        let mut pace = ReceiverPace::new(means.rate_min);
        let mut throttle = Throttle::new(means.pace[1], means.splicer.pacer());
        let mut window = UnreadWindow::new(means.unread);
        self.buffer.drain(..self.head.head_bytes);
        loop {
            let followed = if keeps_framing {
                chunked.tidy(self.buffer, 0, &mut self.body_bytes)
            } else {
                self.decode(&mut chunked)
            };
            let (used, ended) = match followed {
                Ok(followed) => (followed.bytes, followed.is_over),
                Err(refusal) if !has_begun => {
                    self.body_bytes = 0;
                    return Passed::Refused(refusal.from_upstream());
                }
                Err(refusal) => {
                    tracing::debug!("response cut off: {}", refusal.reason);
                    return Passed::UpstreamBroke("bad_chunk");
                }
            };
            has_begun = true;
            if let Some(tee) = &mut self.tee {
                tee.keep_chunks(self.buffer.get(..used).unwrap_or_default());
            }
            if let Some(tap) = &mut self.tap {
                tap.take_chunks(self.buffer.get(..used).unwrap_or_default());
            }
            let out = std::mem::take(self.out);
            let bytes = if keeps_framing {
                self.buffer.get(..used).unwrap_or_default()
            } else {
                &[]
            };
            let out_bytes = (out.len() + bytes.len()) as u64;
            client.wait_for(&mut throttle, out_bytes).await;
            let (patience, pieces) = ((&mut *timer, means.idle), (&out[..], bytes));
            let written = write_while_taken(patience, client, pieces, &mut 0, &mut pace).await;
            *self.out = out;
            self.out.clear();
            match written {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Passed::ClientGone("client_reset"),
                Err(how) => return Passed::ClientGone(how),
            }
            self.buffer.drain(..used);
            if ended {
                return if self.buffer.is_empty() {
                    Passed::Whole
                } else {
                    Passed::WholeAndDone
                };
            }
            let is_read =
                self.tee.is_some() || self.tap.as_ref().is_some_and(|tap| tap.wanted_bytes() > 0);
            if chunked.data_left() >= SPLICED_CHUNK_BYTES_MIN
                && !is_read
                && let length = chunked.data_left()
                && let Some([from, to]) = Transport::spliceable(upstream, client, length)
            {
                let mut order = Order::new(End::AfterBytes(length));
                order.choice = means.engine_before_more();
                order.idle = means.idle;
                order.rate_min = means.rate_min;
                order.pace = means.pace[1];
                order.unread = means.unread;
                let mut counted = Counted {
                    transfer: means.splicer.transfer(from, to, order),
                    body_bytes: &mut self.body_bytes,
                };
                let result = run(&mut counted.transfer, client).await;
                self.engine = counted.transfer.engine();
                client.note_sunk(counted.transfer.bytes());
                drop(counted);
                match result {
                    Ok(Ended::Bytes) => chunked.skip_data(length),
                    result => return cut_off(&result, client),
                }
            }
            self.buffer.reserve(READ_BYTES_MIN);
            match means
                .read(timer, read_for(client, upstream, self.buffer))
                .await
            {
                Ok(Err(error)) if is_unwanted(&error) => return Passed::ClientGone("client_reset"),
                Ok(Ok(0)) => return Passed::UpstreamBroke("upstream_closed"),
                Ok(Ok(count)) => upstream.took(&mut window, count as u64),
                Ok(Err(_)) => return Passed::UpstreamBroke("upstream_reset"),
                Err(_) => return Passed::UpstreamBroke(IDLE_TIMEOUT),
            }
        }
    }

    /// Appends the content to `out` without its framing.
    fn decode(&mut self, chunked: &mut Chunked) -> Result<Followed, Refusal> {
        let mut used = 0;
        loop {
            match chunked.next(self.buffer.get(used..).unwrap_or_default())? {
                Piece::Framing(count) => used += count,
                Piece::Data(count) => {
                    self.out
                        .extend_from_slice(self.buffer.get(used..used + count).unwrap_or_default());
                    self.body_bytes += count as u64;
                    used += count;
                }
                Piece::End(count) => {
                    return Ok(Followed {
                        bytes: used + count,
                        is_over: true,
                    });
                }
                Piece::NeedMore => {
                    return Ok(Followed {
                        bytes: used,
                        is_over: false,
                    });
                }
            }
        }
    }

    /// Writes the head, if it is not sent, and the first `body` bytes of the body, which are in the buffer.
    async fn write(
        &mut self,
        means: Means<'_>,
        client: &Transport,
        timer: &mut Timer,
        body: usize,
    ) -> Result<(), Passed> {
        let start = self.head.head_bytes;
        let body = self.buffer.get(start..start + body).unwrap_or_default();
        self.body_bytes += body.len() as u64;
        let is_short = body.len() <= COPIED_BODY_BYTES_MAX && !self.out.is_empty();
        if is_short {
            self.out.extend_from_slice(body);
        }
        let ends_stream = self.is_last
            && self.head.body != ResponseBody::Tunnel
            && !matches!(client, Transport::Http2(_));
        let written = if is_short && ends_stream {
            (timer.within(means.idle, write_last(client, self.out)).await)
                .map_err(|TimedOut| IDLE_TIMEOUT)
        } else {
            let pieces = (&self.out[..], if is_short { &[] } else { body });
            let pace = &mut ReceiverPace::new(means.rate_min);
            write_while_taken((timer, means.idle), client, pieces, &mut 0, pace).await
        };
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Passed::ClientGone("client_reset")),
            Err(how) => Err(Passed::ClientGone(how)),
        }
    }
}

/// Runs a splice to its end. The least rate is asked of clients; upstreams have the idle time-out.
async fn run(transfer: &mut Transfer<'_>, client: &Transport) -> Result<Ended, Fault> {
    loop {
        match transfer.run().await {
            Ok(Ended::TooSlow) if client.has_room() => {}
            result => return result,
        }
    }
}

/// Whose fault it is that a splice ended before the body did.
fn cut_off(result: &Result<Ended, Fault>, client: &Transport) -> Passed {
    match result {
        Ok(Ended::Idle) if client.has_room() => Passed::UpstreamBroke(IDLE_TIMEOUT),
        Ok(Ended::Idle) => Passed::ClientGone(IDLE_TIMEOUT),
        Ok(Ended::TooSlow) => Passed::ClientGone(TOO_SLOW),
        Ok(Ended::Stalled) => Passed::ClientGone(STALLED),
        Ok(Ended::Input) => Passed::ClientGone("input"),
        Ok(Ended::Bytes | Ended::EndOfStream) => Passed::UpstreamBroke("upstream_closed"),
        Err(fault) if fault.side == Side::To => Passed::ClientGone("client_reset"),
        Err(_) => Passed::UpstreamBroke("upstream_reset"),
    }
}
