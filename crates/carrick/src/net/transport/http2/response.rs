//! The response of a stream, from bytes of HTTP/1.1.
use super::content::{Content, Framing, Sending, fields_bytes};
use super::head::{FIELD_BYTES, HeadText, LIMITS};
use super::{Http2Connection, Piece, RESET};
use bytes::Bytes;
use carrick_logic::http1::{
    Field, FieldName, Method, Progress, ResponseBody, ResponseHead, ResponseRewrite, Version,
    kept_fields,
};
use h2::Reason;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use rustix::io::Errno;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// 1xx responses that a client gets with one response. No window limits them: the rest is left out.
const INTERIM_MAX: u8 = 16;

/// What is sent of a response.
#[derive(Debug)]
pub struct Outgoing {
    respond: SendResponse<Piece>,
    method: Method,
    /// The `Sec-WebSocket-Accept` that makes a WebSocket of the stream, if the request asks for one.
    websocket: Option<Box<str>>,
    /// 1xx responses that may follow.
    interim_left: u8,
    /// What the client is told, should not all of it be sent.
    reset_code: Reason,
    pub(super) state: Sending,
}

impl Outgoing {
    /// The response to a request with this method; `websocket`: see the member.
    #[must_use]
    pub fn new(respond: SendResponse<Piece>, method: Method, websocket: Option<Box<str>>) -> Self {
        let reset_code = match (method, &websocket) {
            (Method::Connect, _) => Reason::CONNECT_ERROR,
            // RFC 8441 section 5.
            (_, Some(_)) => Reason::CANCEL,
            (_, None) => Reason::INTERNAL_ERROR,
        };
        Self {
            respond,
            method,
            websocket,
            interim_left: INTERIM_MAX,
            reset_code,
            state: Sending::Head(HeadText::default()),
        }
    }

    /// Ready when the client has reset the stream, or is gone.
    pub(super) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            Sending::Head(_) => {
                let _ = ready!(self.respond.poll_reset(cx));
                self.state = Sending::Lost;
            }
            Sending::Content(content) => ready!(content.poll_reset(cx)),
            Sending::Lost => {}
        }
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
            let rest = &bytes[taken..];
            let count = match &mut self.state {
                Sending::Head(head) => {
                    let (count, text) = head.take(rest)?;
                    if let Some(text) = text {
                        self.send_head(&text, connection)?;
                    }
                    count
                }
                Sending::Content(content) => content.write(rest, connection)?,
                Sending::Lost => return Err(RESET),
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

    /// See [`Http2Stream::poll_room`](super::Http2Stream::poll_room).
    pub(super) fn poll_room(
        &mut self,
        connection: &Http2Connection,
        wanted: u64,
        cx: &mut Context<'_>,
    ) -> Poll<rustix::io::Result<usize>> {
        match &mut self.state {
            Sending::Content(content) => content.poll_room(connection, wanted, cx),
            Sending::Head(_) | Sending::Lost => Poll::Ready(Err(RESET)),
        }
    }

    /// See [`Http2Stream::keep_room`](super::Http2Stream::keep_room).
    pub(super) fn keep_room(&mut self, bytes: usize) {
        if let Sending::Content(content) = &mut self.state {
            content.keep_room(bytes);
        }
    }

    /// See [`Http2Stream::send`](super::Http2Stream::send).
    pub(super) fn send(
        &mut self,
        bytes: Vec<u8>,
        connection: &Rc<Http2Connection>,
    ) -> rustix::io::Result<()> {
        match &mut self.state {
            Sending::Content(content) => content.send(bytes, connection),
            Sending::Head(_) | Sending::Lost => Err(RESET),
        }
    }

    /// See [`Http2Stream::send_head`](super::Http2Stream::send_head).
    pub(super) fn send_parsed(
        &mut self,
        connection: &Http2Connection,
        (head, bytes): (&ResponseHead, &[u8]),
        how: &ResponseRewrite<'_>,
        add: impl FnOnce(&mut HeaderMap),
    ) -> bool {
        let framing = match head.body {
            ResponseBody::None => Framing::Over,
            ResponseBody::Bytes(length) => Framing::Bytes(length),
            ResponseBody::Chunked | ResponseBody::UntilClose | ResponseBody::Tunnel => {
                return false;
            }
        };
        let is_first = matches!(&self.state, Sending::Head(before) if before.is_empty());
        let (true, Some(text), Some(status), Some(kept)) = (
            is_first,
            bytes.get(..head.head_bytes),
            self.status(head, bytes),
            kept_fields(bytes, head, how),
        ) else {
            return false;
        };
        let text = Bytes::copy_from_slice(text);
        let mut response = plain(status);
        let fields = response.headers_mut();
        fields.reserve(head.fields.len() + usize::from(!how.via.is_empty()));
        for field in kept {
            append(fields, &text, field);
        }
        if !how.via.is_empty() {
            let version = match head.version {
                Version::Http10 => "1.0",
                Version::Http11 => "1.1",
            };
            if let Ok(via) = HeaderValue::try_from(format!("{version} {}", how.via)) {
                fields.append(header::VIA, via);
            }
        }
        add(fields);
        if !takes(connection, &response) {
            return false;
        }
        // Otherwise the library wakes the session, which has waited for a reset, when it gives the body room.
        let _ = (self.respond).poll_reset(&mut Context::from_waker(Waker::noop()));
        self.send_response(response, framing).is_ok()
    }

    fn send_head(&mut self, text: &Bytes, connection: &Http2Connection) -> rustix::io::Result<()> {
        let mut head = connection.head.borrow_mut();
        head.restart();
        match head.parse(text, self.method, &LIMITS) {
            Ok(Progress::Complete) => {}
            Ok(Progress::Partial) | Err(_) => return Err(Errno::PROTO),
        }
        if head.is_interim() {
            let Some(left) = self.interim_left.checked_sub(1) else {
                return Ok(());
            };
            self.interim_left = left;
            let interim = translate(&head, text, head.status);
            if !takes(connection, &interim) {
                return Ok(());
            }
            let sent = self.respond.send_informational(interim);
            return self.note(sent);
        }
        let Some(status) = self.status(&head, text) else {
            self.websocket = None;
            self.send_response(plain(502), Framing::Over)?;
            return Err(Errno::PROTO);
        };
        let framing = match head.body {
            ResponseBody::None => Framing::Over,
            ResponseBody::Bytes(length) => Framing::Bytes(length),
            ResponseBody::Chunked => Framing::chunked(),
            ResponseBody::UntilClose | ResponseBody::Tunnel => Framing::UntilEnd,
        };
        let response = translate(&head, text, status);
        if !takes(connection, &response) {
            tracing::debug!(
                "HTTP/2: the client takes no response head of {} bytes; it gets 502 instead",
                head.head_bytes
            );
            self.send_response(plain(502), Framing::Over)?;
            return Err(Errno::PROTO);
        }
        self.send_response(response, framing)
    }

    /// The status that the client gets; `None`: there is none for this response. Of an upgrade, only what the server has
    /// agreed to in its word is a success (RFC 8441 section 5).
    pub(super) fn status(&self, head: &ResponseHead, bytes: &[u8]) -> Option<u16> {
        match (&self.websocket, head.status) {
            (Some(accept), 101) => {
                let agreed = head.field(bytes, "sec-websocket-accept");
                (agreed == Some(accept.as_bytes())).then_some(200)
            }
            (Some(_), 200..300) | (None, 101) => None,
            (_, status) => Some(status),
        }
    }

    fn send_response(&mut self, head: Response<()>, framing: Framing) -> rustix::io::Result<()> {
        let is_whole = matches!(framing, Framing::Over);
        let sent = self.respond.send_response(head, is_whole);
        let sent = sent.map(|stream| self.state = Sending::Content(Content::new(stream, framing)));
        self.note(sent)
    }

    /// If a head could not be sent, the stream is lost.
    fn note(&mut self, sent: Result<(), h2::Error>) -> rustix::io::Result<()> {
        sent.map_err(|_| {
            self.state = Sending::Lost;
            RESET
        })
    }

    /// Sets the code of a reset.
    pub(super) fn set_reset_code(&mut self, code: Reason) {
        self.reset_code = code;
    }

    pub(super) fn reset(&mut self) {
        let is_tunnel = self.method == Method::Connect || self.websocket.is_some();
        match &mut self.state {
            // All of the response is on its way.
            Sending::Content(content) if content.is_over() && !is_tunnel => return,
            Sending::Content(content) => content.reset(self.reset_code),
            Sending::Head(_) => self.respond.send_reset(self.reset_code),
            Sending::Lost => {}
        }
        self.state = Sending::Lost;
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        // What is not whole must not look as if it were.
        let is_whole = match &self.state {
            Sending::Content(content) => content.is_over() || content.is_lost(),
            Sending::Head(_) | Sending::Lost => false,
        };
        if !is_whole {
            self.reset();
        }
    }
}

/// Whether the client takes so long a head: libraries end the connection, with the streams of others, for a much longer one.
fn takes(connection: &Http2Connection, response: &Response<()>) -> bool {
    /// `:status` and its value.
    const STATUS_BYTES: usize = 10 + FIELD_BYTES;
    connection.takes_list(STATUS_BYTES + fields_bytes(response.headers()))
}

fn plain(status: u16) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    response
}

/// The head without what HTTP/2 does not have.
fn translate(head: &ResponseHead, text: &Bytes, status: u16) -> Response<()> {
    let mut response = plain(status);
    let fields = response.headers_mut();
    fields.reserve(head.fields.len());
    let is_of_upgrade = |field: &Field| {
        field.known == FieldName::ContentLength
            || (field.name.of(text)).eq_ignore_ascii_case(b"sec-websocket-accept")
    };
    for field in &head.fields {
        if head.status != 101 || !is_of_upgrade(field) {
            append(fields, text, field);
        }
    }
    response
}

/// Adds a field of the head in `text`, unless it is about a connection of HTTP/1.1 (RFC 9113 section 8.2.2).
fn append(fields: &mut HeaderMap, text: &Bytes, field: &Field) {
    let name = match field.known {
        FieldName::Connection
        | FieldName::KeepAlive
        | FieldName::ProxyConnection
        | FieldName::TransferEncoding
        | FieldName::Upgrade => return,
        // Found already.
        FieldName::ContentLength => Ok(header::CONTENT_LENGTH),
        FieldName::Date => Ok(header::DATE),
        FieldName::Via => Ok(header::VIA),
        _ => HeaderName::from_bytes(field.name.of(text)),
    };
    let (start, end) = (field.value.start as usize, field.value.end as usize);
    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_maybe_shared(text.slice(start..end))) {
        fields.append(name, value);
    }
}

#[cfg(test)]
mod tests;
