//! A body on its way to the other end of a stream: content, taken out of its chunks where it has any, and trailers.
use super::buffers::{self, BUFFER_BYTES};
use super::head::{FIELD_BYTES, HeadText, LIMITS};
use super::{Http2Connection, Piece, RESET};
use carrick_logic::http1::{Chunked, Piece as Part};
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue};
use rustix::io::Errno;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// How far a message has been sent.
#[derive(Debug)]
pub(super) enum Sending {
    /// The beginning of a head.
    Head(HeadText),
    /// The head was sent.
    Content(Content),
    /// The stream is lost, or the head could not be sent.
    Lost,
}

/// A body that is being sent.
#[derive(Debug)]
pub(super) struct Content {
    stream: SendStream<Piece>,
    framing: Framing,
    /// Whether the stream is lost.
    is_lost: bool,
    /// Whether room was asked for that has not come.
    is_asking: bool,
}

/// What the next byte belongs to.
#[derive(Debug)]
pub(super) enum Framing {
    /// A body of which so much is to come.
    Bytes(u64),
    /// With the trailers so far.
    Chunked(Box<(Chunked, Vec<u8>)>),
    /// A body, or a tunnel, that ends with the stream.
    UntilEnd,
    /// Nothing: the stream has ended.
    Over,
}

impl Sending {
    pub(super) fn has_room(&mut self, connection: &Http2Connection) -> bool {
        match self {
            Self::Content(content) => content.has_room(connection),
            Self::Head(_) | Self::Lost => true,
        }
    }

    /// Ready when a write would be accepted, or fail.
    pub(super) fn poll_ready(
        &mut self,
        connection: &Http2Connection,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        match self {
            Self::Content(content) => content.poll_ready(connection, cx),
            Self::Head(_) | Self::Lost => Poll::Ready(()),
        }
    }

    pub(super) fn end(&mut self, connection: &Rc<Http2Connection>) -> rustix::io::Result<()> {
        match self {
            Self::Content(content) => content.end(connection),
            Self::Head(_) | Self::Lost => Ok(()),
        }
    }
}

impl Framing {
    /// Chunks of which nothing was sent.
    pub(super) fn chunked() -> Self {
        // What is sent has been read before, with a limit on trailers.
        let chunked = Chunked::lenient().with_trailers_of(LIMITS.head_bytes_max);
        Self::Chunked(Box::new((chunked, Vec::new())))
    }
}

impl Content {
    pub(super) fn new(stream: SendStream<Piece>, framing: Framing) -> Self {
        Self {
            stream,
            framing,
            is_lost: false,
            is_asking: false,
        }
    }

    /// Whether everything was sent.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.framing, Framing::Over)
    }

    /// Whether nothing can be sent any more.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub(super) fn has_room(&mut self, connection: &Http2Connection) -> bool {
        self.is_over() || self.is_lost || self.room(connection, 1) > 0
    }

    /// How many of so many bytes may be queued now: at most a buffer, so that streams take turns.
    fn room(&mut self, connection: &Http2Connection, wanted: usize) -> usize {
        let wanted = wanted.min(connection.room()).min(BUFFER_BYTES);
        if wanted == 0 {
            return 0;
        }
        let mut capacity = self.stream.capacity();
        if capacity < wanted {
            // No more than is there: what one stream has is kept from the others.
            self.stream.reserve_capacity(wanted);
            capacity = self.stream.capacity();
        }
        self.is_asking = capacity == 0;
        capacity.min(wanted)
    }

    /// Ready when a write would be accepted, or fail.
    pub(super) fn poll_ready(
        &mut self,
        connection: &Http2Connection,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if self.is_over() || self.is_lost {
            return Poll::Ready(());
        }
        if self.poll_reset(cx).is_ready() {
            return Poll::Ready(());
        }
        if connection.room() == 0 {
            connection.wait(cx);
            return Poll::Pending;
        }
        if !self.is_asking && self.room(connection, 1) > 0 || self.stream.capacity() > 0 {
            return Poll::Ready(());
        }
        let is_open = matches!(ready!(self.stream.poll_capacity(cx)), Some(Ok(_)));
        self.is_lost = !is_open;
        self.is_asking = false;
        Poll::Ready(())
    }

    /// Ready with as many of `wanted` bytes as may be [sent](Self::send) now.
    pub(super) fn poll_room(
        &mut self,
        connection: &Http2Connection,
        wanted: u64,
        cx: &mut Context<'_>,
    ) -> Poll<rustix::io::Result<usize>> {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        loop {
            ready!(self.poll_ready(connection, cx));
            if self.is_lost || self.is_over() {
                return Poll::Ready(Err(RESET));
            }
            let room = self.room(connection, wanted);
            if room > 0 {
                return Poll::Ready(Ok(room));
            }
        }
    }

    /// Of the room that there [was](Self::poll_room), so many bytes will be sent: the rest is for other streams.
    pub(super) fn keep_room(&mut self, bytes: usize) {
        self.stream.reserve_capacity(bytes);
        self.is_asking = false;
    }

    /// Sends a part of a body of known length.
    pub(super) fn send(
        &mut self,
        bytes: Vec<u8>,
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<()> {
        let Framing::Bytes(left) = &mut self.framing else {
            return Err(Errno::PIPE);
        };
        *left = left.checked_sub(bytes.len() as u64).ok_or(Errno::PIPE)?;
        let ends = *left == 0;
        if bytes.len() >= bytes.capacity() / 2 {
            return self.queue(bytes, ends, connection);
        }
        // What waits is counted without unused room.
        let few = bytes.as_slice().to_vec();
        buffers::give(bytes);
        self.queue(few, ends, connection)
    }

    /// Ready when the other end has reset the stream, or is gone.
    pub(super) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = ready!(self.stream.poll_reset(cx));
        self.is_lost = true;
        Poll::Ready(())
    }

    /// Takes a part of `bytes`; 0: there is no room. `MSGSIZE`: the other end takes no trailers of this length.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<usize> {
        if self.is_lost {
            return Err(RESET);
        }
        match &self.framing {
            Framing::Bytes(left) => {
                let most = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                self.write_plain(&bytes[..most], connection)
            }
            Framing::UntilEnd => self.write_plain(bytes, connection),
            Framing::Chunked(_) => self.write_chunks(bytes, connection),
            // More than the body was to have.
            Framing::Over => Err(Errno::PIPE),
        }
    }

    fn write_plain(
        &mut self,
        bytes: &[u8],
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<usize> {
        let count = self.room(connection, bytes.len());
        if count == 0 {
            return Ok(0);
        }
        let ends = match &mut self.framing {
            Framing::Bytes(left) => {
                *left -= count as u64;
                *left == 0
            }
            _ => false,
        };
        self.queue(bytes[..count].to_vec(), ends, connection)?;
        Ok(count)
    }

    /// Takes the content out of its chunks.
    fn write_chunks(
        &mut self,
        bytes: &[u8],
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<usize> {
        let room = self.room(connection, bytes.len());
        let Framing::Chunked(chunks) = &mut self.framing else {
            return Ok(0);
        };
        let (chunked, trailers) = &mut **chunks;
        let (mut content, mut taken, mut is_over) = (Vec::new(), 0, false);
        while taken < bytes.len() {
            let mut rest = &bytes[taken..];
            if chunked.data_left() > 0 {
                rest = &rest[..rest.len().min(room - content.len())];
                if rest.is_empty() {
                    break;
                }
            }
            let is_in_trailers = chunked.is_in_trailers();
            match chunked.next(rest).map_err(|_| Errno::PROTO)? {
                Part::Framing(count) => {
                    if is_in_trailers {
                        trailers.extend_from_slice(&rest[..count]);
                    }
                    taken += count;
                }
                Part::Data(count) => {
                    content.extend_from_slice(&rest[..count]);
                    taken += count;
                }
                Part::End(count) => {
                    taken += count;
                    is_over = true;
                    break;
                }
                Part::NeedMore => break,
            }
        }
        let trailers = match is_over {
            true => read_trailers(trailers),
            false => HeaderMap::new(),
        };
        let ends = is_over && trailers.is_empty();
        if taken > 0 {
            self.keep_room(content.len());
        }
        if !content.is_empty() || ends {
            self.queue(content, ends, connection)?;
        }
        if is_over && !ends {
            self.framing = Framing::Over;
            if !connection.takes_list(fields_bytes(&trailers)) {
                // Many libraries end the connection for it, with the streams of others.
                self.reset(Reason::INTERNAL_ERROR);
                return Err(Errno::MSGSIZE);
            }
            let sent = self.stream.send_trailers(trailers);
            self.note(sent)?;
        }
        Ok(taken)
    }

    /// Queues content; `ends`: the stream ends with it.
    fn queue(
        &mut self,
        content: Vec<u8>,
        ends: bool,
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<()> {
        if ends {
            self.framing = Framing::Over;
        }
        let sent = self.stream.send_data(connection.piece(content), ends);
        self.note(sent)
    }

    /// If something could not be sent, the stream is lost.
    fn note(&mut self, sent: Result<(), h2::Error>) -> rustix::io::Result<()> {
        sent.map_err(|_| {
            self.is_lost = true;
            RESET
        })
    }

    /// Ends what ends with the stream.
    pub(super) fn end(&mut self, connection: &Rc<Http2Connection>) -> rustix::io::Result<()> {
        match self.framing {
            Framing::UntilEnd if !self.is_lost => self.queue(Vec::new(), true, connection),
            _ => Ok(()),
        }
    }

    /// The other end is told, unless it knows, that nothing is needed any more.
    pub(super) fn reset(&mut self, reason: Reason) {
        self.stream.send_reset(reason);
        self.is_lost = true;
    }
}

/// The size of a list of fields (RFC 9113 section 6.5.2).
pub(super) fn fields_bytes(fields: &HeaderMap) -> usize {
    let fields = fields.iter();
    fields
        .map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES)
        .sum()
}

/// The trailer section's lines, which have been checked one by one.
fn read_trailers(lines: &[u8]) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    for line in lines.split(|&byte| byte == b'\n') {
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        if let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(&line[..colon]),
            HeaderValue::from_bytes(line[colon + 1..].trim_ascii()),
        ) {
            trailers.append(name, value);
        }
    }
    trailers
}
