//! The response of a stream, from bytes of HTTP/1.1.
use super::{Http2Connection, Piece, RESET};
use bytes::Bytes;
use carrick_logic::http1::{
    Chunked, FieldName, HeadLimits, Method, Piece as Part, Progress, ResponseBody, ResponseHead,
};
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use rustix::io::Errno;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// More than a head has that was within the limits on heads before carrick added its fields.
const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 4 << 20,
    fields_max: 1 << 14,
};

/// Most bytes that are taken of one write, so that streams take turns.
const TAKEN_BYTES_MAX: usize = 64 * 1024;

/// 1xx responses that a client gets with one response. No window limits them: the rest is left out.
const INTERIM_MAX: u8 = 16;

/// What is sent of a response.
#[derive(Debug)]
pub struct Outgoing {
    respond: SendResponse<Piece>,
    body: Option<SendStream<Piece>>,
    method: Method,
    /// The `Sec-WebSocket-Accept` that makes a WebSocket of the stream, if the request asks for one.
    websocket: Option<Box<str>>,
    /// The beginning of a head.
    head: Vec<u8>,
    state: State,
    /// 1xx responses that may follow.
    interim_left: u8,
    /// Whether the stream is lost.
    is_lost: bool,
    /// Whether room was asked for that has not come.
    is_asking: bool,
}

/// What the next byte belongs to.
#[derive(Debug)]
enum State {
    Head,
    /// A body of which so much is to come.
    Bytes(u64),
    /// With the trailers so far.
    Chunked(Box<(Chunked, Vec<u8>)>),
    /// A body, or a tunnel, that ends with the stream.
    UntilEnd,
    /// Nothing: the stream has ended.
    Over,
}

impl Outgoing {
    /// The response to a request with this method; `websocket`: see the member.
    #[must_use]
    pub fn new(respond: SendResponse<Piece>, method: Method, websocket: Option<Box<str>>) -> Self {
        Self {
            respond,
            body: None,
            method,
            websocket,
            head: Vec::new(),
            state: State::Head,
            interim_left: INTERIM_MAX,
            is_lost: false,
            is_asking: false,
        }
    }

    pub(super) fn has_room(&mut self, connection: &Http2Connection) -> bool {
        match self.state {
            State::Head | State::Over => true,
            _ => self.is_lost || self.room(connection, 1) > 0,
        }
    }

    /// How many of so many bytes may be queued now.
    fn room(&mut self, connection: &Http2Connection, wanted: usize) -> usize {
        let wanted = wanted.min(connection.room()).min(TAKEN_BYTES_MAX);
        let Some(body) = self.body.as_mut().filter(|_| wanted > 0) else {
            return 0;
        };
        if body.capacity() < wanted {
            // No more than is there: what one stream has is kept from the others.
            body.reserve_capacity(wanted);
            self.is_asking = body.capacity() == 0;
        }
        body.capacity().min(wanted)
    }

    /// Ready when a write would be accepted, or fail.
    pub(super) fn poll_ready(
        &mut self,
        connection: &Http2Connection,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if matches!(self.state, State::Head | State::Over) || self.is_lost {
            return Poll::Ready(());
        }
        if connection.room() == 0 {
            connection.wait(cx);
            return Poll::Pending;
        }
        if !self.is_asking && self.room(connection, 1) > 0 {
            return Poll::Ready(());
        }
        let Some(body) = self.body.as_mut().filter(|body| body.capacity() == 0) else {
            return Poll::Ready(());
        };
        let is_open = matches!(ready!(body.poll_capacity(cx)), Some(Ok(_)));
        self.is_lost = !is_open;
        self.is_asking = false;
        Poll::Ready(())
    }

    /// Ready when the client has reset the stream, or is gone.
    pub(super) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let reset = match &mut self.body {
            Some(body) => body.poll_reset(cx),
            None => self.respond.poll_reset(cx),
        };
        let _ = ready!(reset);
        self.is_lost = true;
        Poll::Ready(())
    }

    /// Takes a part of `bytes`.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<usize> {
        let mut taken = 0;
        while taken < bytes.len() {
            if self.is_lost {
                return Err(RESET);
            }
            let rest = &bytes[taken..];
            let count = match &mut self.state {
                State::Head => self.write_head(rest, connection)?,
                State::Bytes(left) => {
                    let most =
                        usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                    self.write_content(&rest[..most], connection)?
                }
                State::UntilEnd => self.write_content(rest, connection)?,
                State::Chunked(_) => self.write_chunks(rest, connection)?,
                // More than the response was to have.
                State::Over => return Err(Errno::PIPE),
            };
            if count == 0 {
                break;
            }
            taken += count;
        }
        match taken {
            0 if !bytes.is_empty() => Err(Errno::AGAIN),
            taken => Ok(taken),
        }
    }

    fn write_head(
        &mut self,
        bytes: &[u8],
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<usize> {
        const END: &[u8] = b"\r\n\r\n";
        // The end may be cut in two.
        let before = self.head.len();
        let from = before.saturating_sub(END.len() - 1);
        let owned;
        let (head, count) = if before == 0 {
            match memchr::memmem::find(bytes, END) {
                Some(at) => (&bytes[..at + END.len()], at + END.len()),
                None => {
                    self.head.extend_from_slice(bytes);
                    return Ok(bytes.len());
                }
            }
        } else {
            self.head.extend_from_slice(bytes);
            match memchr::memmem::find(&self.head[from..], END) {
                Some(at) => {
                    let end = from + at + END.len();
                    self.head.truncate(end);
                    owned = std::mem::take(&mut self.head);
                    (&owned[..], end - before)
                }
                None if self.head.len() > LIMITS.head_bytes_max => return Err(Errno::MSGSIZE),
                None => return Ok(bytes.len()),
            }
        };
        self.send_head(head, connection)?;
        Ok(count)
    }

    fn send_head(
        &mut self,
        bytes: &[u8],
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<()> {
        let mut head = connection.head.borrow_mut();
        head.restart();
        match head.parse(bytes, self.method, &LIMITS) {
            Ok(Progress::Complete) => {}
            Ok(Progress::Partial) | Err(_) => return Err(Errno::PROTO),
        }
        if head.is_interim() {
            let Some(left) = self.interim_left.checked_sub(1) else {
                return Ok(());
            };
            self.interim_left = left;
            return self.send(|outgoing| {
                outgoing
                    .respond
                    .send_informational(translate(&head, bytes, head.status))
            });
        }
        let Some(status) = self.status(&head, bytes) else {
            self.state = State::Over;
            self.websocket = None;
            self.send_response(plain(502), true)?;
            return Err(Errno::PROTO);
        };
        self.state = match head.body {
            ResponseBody::None => State::Over,
            ResponseBody::Bytes(length) => State::Bytes(length),
            ResponseBody::Chunked => State::Chunked(Box::new((Chunked::lenient(), Vec::new()))),
            ResponseBody::UntilClose | ResponseBody::Tunnel => State::UntilEnd,
        };
        let is_whole = matches!(self.state, State::Over);
        self.send_response(translate(&head, bytes, status), is_whole)
    }

    /// The status that the client gets; `None`: there is none for this response. Of an upgrade, only what the server has
    /// agreed to in its word is a success (RFC 8441 section 5).
    fn status(&self, head: &ResponseHead, bytes: &[u8]) -> Option<u16> {
        match (&self.websocket, head.status) {
            (Some(accept), 101) => {
                let agreed = head.field(bytes, "sec-websocket-accept");
                (agreed == Some(accept.as_bytes())).then_some(200)
            }
            (Some(_), 200..300) | (None, 101) => None,
            (_, status) => Some(status),
        }
    }

    fn send_response(&mut self, response: Response<()>, ends: bool) -> rustix::io::Result<()> {
        self.send(|outgoing| {
            outgoing.body = Some(outgoing.respond.send_response(response, ends)?);
            Ok(())
        })
    }

    /// Sends something; if that fails, the stream is lost.
    fn send(
        &mut self,
        does: impl FnOnce(&mut Self) -> Result<(), h2::Error>,
    ) -> rustix::io::Result<()> {
        does(self).map_err(|_| {
            self.is_lost = true;
            RESET
        })
    }

    /// Queues content; `ends`: the stream ends with it.
    fn queue(
        &mut self,
        content: &[u8],
        ends: bool,
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<()> {
        let piece = connection.piece(content);
        if ends {
            self.state = State::Over;
        }
        self.send(|outgoing| match &mut outgoing.body {
            Some(body) => body.send_data(piece, ends),
            None => Ok(()),
        })
    }

    fn write_content(
        &mut self,
        bytes: &[u8],
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<usize> {
        let count = self.room(connection, bytes.len());
        if count == 0 {
            return Ok(0);
        }
        let ends = match &mut self.state {
            State::Bytes(left) => {
                *left -= count as u64;
                *left == 0
            }
            _ => false,
        };
        self.queue(&bytes[..count], ends, connection)?;
        Ok(count)
    }

    /// Takes the content out of its chunks.
    fn write_chunks(
        &mut self,
        bytes: &[u8],
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<usize> {
        let room = self.room(connection, bytes.len());
        let State::Chunked(chunks) = &mut self.state else {
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
        if !content.is_empty() || ends {
            self.queue(&content, ends, connection)?;
        }
        if is_over && !ends {
            self.state = State::Over;
            self.send(|outgoing| match &mut outgoing.body {
                Some(body) => body.send_trailers(trailers),
                None => Ok(()),
            })?;
        }
        Ok(taken)
    }

    pub(super) fn end(&mut self, connection: &Rc<Http2Connection>) -> rustix::io::Result<()> {
        match self.state {
            State::UntilEnd if !self.is_lost => self.queue(&[], true, connection),
            _ => Ok(()),
        }
    }

    pub(super) fn reset(&mut self) {
        let is_tunnel = self.method == Method::Connect || self.websocket.is_some();
        if matches!(self.state, State::Over) && !is_tunnel {
            // All of the response is on its way.
            return;
        }
        let reason = match is_tunnel && self.body.is_some() {
            true => Reason::CONNECT_ERROR,
            false => Reason::INTERNAL_ERROR,
        };
        match &mut self.body {
            Some(body) => body.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
        self.is_lost = true;
        self.state = State::Over;
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // What is not whole must not look as if it were.
        if !matches!(self.state, State::Over) && !self.is_lost {
            self.reset();
        }
    }
}

fn plain(status: u16) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    response
}

/// The head without what HTTP/2 does not have (RFC 9113 section 8.2.2).
fn translate(head: &ResponseHead, bytes: &[u8], status: u16) -> Response<()> {
    let owned = Bytes::copy_from_slice(bytes);
    let mut response = plain(status);
    let fields = response.headers_mut();
    fields.reserve(head.fields.len());
    let is_upgrade = head.status == 101;
    for field in &head.fields {
        let name = field.name.of(bytes);
        let is_left_out = match field.known {
            FieldName::Connection
            | FieldName::KeepAlive
            | FieldName::ProxyConnection
            | FieldName::TransferEncoding
            | FieldName::Upgrade => true,
            FieldName::ContentLength => is_upgrade,
            _ => is_upgrade && name.eq_ignore_ascii_case(b"sec-websocket-accept"),
        };
        let (start, end) = (field.value.start as usize, field.value.end as usize);
        if let (false, Ok(name), Ok(value)) = (
            is_left_out,
            HeaderName::from_bytes(name),
            HeaderValue::from_maybe_shared(owned.slice(start..end)),
        ) {
            fields.append(name, value);
        }
    }
    response
}

/// The trailer section's lines, which have been checked one by one.
pub(super) fn read_trailers(lines: &[u8]) -> HeaderMap {
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
