//! The request of a stream to a server, from bytes of HTTP/1.1.
use super::super::content::{Content, Framing, Sending, fields_bytes};
use super::super::head::{FIELD_BYTES, HeadText, LIMITS};
use super::super::websocket::websocket_accept;
use super::super::{Http2Connection, Piece};
use bytes::Bytes;
use carrick_logic::http1::{BodyLength, FieldName, Method, Progress, Refusal, RequestHead, Target};
use h2::Reason;
use h2::client::{ResponseFuture, SendRequest};
use h2::ext::Protocol;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Request, Uri};
use rustix::io::Errno;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What is sent of a request.
#[derive(Debug)]
pub(super) struct Outgoing {
    send: SendRequest<Piece>,
    scheme: Scheme,
    pub(super) state: Sending,
    refusal: Option<Refusal>,
}

/// A request that HTTP/2 has no form for.
const UNTRANSLATABLE: Refusal = Refusal {
    status: 400,
    label: "not_for_http2",
    reason: "the request cannot be sent by HTTP/2, which its server speaks: its target is too long",
};

/// Some servers would end the connection, which others' requests are on.
const TOO_LONG: Refusal = Refusal {
    status: 431,
    label: "head_too_long_for_server",
    reason: "the request's head, or its trailer section, is longer than its server takes (SETTINGS_MAX_HEADER_LIST_SIZE)",
};

/// What was asked for, when the head has been sent.
#[derive(Debug)]
pub(super) struct Asked {
    pub response: ResponseFuture,
    pub is_for_head: bool,
    /// The `Sec-WebSocket-Accept` of an upgrade.
    pub websocket_accept: Option<Box<str>>,
}

impl Outgoing {
    pub(super) fn new(send: SendRequest<Piece>, scheme: Scheme) -> Self {
        Self {
            send,
            scheme,
            state: Sending::Head(HeadText::default()),
            refusal: None,
        }
    }

    /// Ready when the server needs no more of the body.
    pub(super) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            Sending::Content(content) => content.poll_reset(cx),
            Sending::Head(_) | Sending::Lost => Poll::Pending,
        }
    }

    /// Why the request was not sent, if no connection to its server would take it.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Whether the server gets the whole request.
    pub(super) fn is_whole(&self) -> bool {
        match &self.state {
            Sending::Content(content) => content.is_over() && !content.is_lost(),
            Sending::Head(_) | Sending::Lost => false,
        }
    }

    /// Whether the server expects more of the request. Nobody may wait for a reset.
    pub(super) fn is_unfinished(&mut self) -> bool {
        match &mut self.state {
            Sending::Content(content) => {
                let mut cx = Context::from_waker(Waker::noop());
                !content.is_over() && content.poll_reset(&mut cx).is_pending()
            }
            Sending::Head(_) | Sending::Lost => false,
        }
    }

    /// Takes a part of `bytes`; `asked` is told when they complete the head.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        connection: &Rc<Http2Connection>,
        asked: impl FnOnce(Asked),
    ) -> rustix::io::Result<usize> {
        let mut asked = Some(asked);
        let mut taken = 0;
        while taken < bytes.len() {
            let rest = &bytes[taken..];
            let count = match &mut self.state {
                Sending::Head(_) => {
                    let (count, sent) = self.write_head(rest, connection)?;
                    if let (Some(sent), Some(asked)) = (sent, asked.take()) {
                        connection.asked();
                        asked(sent);
                    }
                    count
                }
                Sending::Content(content) => {
                    let written = content.write(rest, connection);
                    if written == Err(Errno::MSGSIZE) {
                        self.refusal = Some(TOO_LONG);
                    }
                    match written {
                        Err(_) if taken > 0 => break,
                        result => result?,
                    }
                }
                Sending::Lost => return Err(Errno::CONNRESET),
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

    /// Takes bytes of the head, and sends it when it is whole. On an error nothing was sent.
    fn write_head(
        &mut self,
        bytes: &[u8],
        connection: &Http2Connection,
    ) -> rustix::io::Result<(usize, Option<Asked>)> {
        let Sending::Head(head) = &mut self.state else {
            return Ok((0, None));
        };
        let (count, text) = head.take(bytes)?;
        let Some(text) = text else {
            return Ok((count, None));
        };
        self.state = Sending::Lost;
        Ok((count, Some(self.send_head(&text, connection)?)))
    }

    fn send_head(
        &mut self,
        text: &Bytes,
        connection: &Http2Connection,
    ) -> rustix::io::Result<Asked> {
        let mut head = RequestHead::new();
        if head.parse(text, &LIMITS) != Ok(Progress::Complete) {
            return Err(Errno::PROTO);
        }
        let accept = head.websocket_key(text).map(websocket_accept);
        let Some(request) = self.translate(&head, text, accept.is_some()) else {
            self.refusal = Some(UNTRANSLATABLE);
            return Err(Errno::PROTO);
        };
        if !connection.takes_list(list_bytes(&request)) {
            self.refusal = Some(TOO_LONG);
            return Err(Errno::PROTO);
        }
        let framing = match head.body {
            _ if accept.is_some() => Framing::UntilEnd,
            BodyLength::None => Framing::Over,
            BodyLength::Bytes(length) => Framing::Bytes(length),
            BodyLength::Chunked => Framing::chunked(),
        };
        let is_whole = matches!(framing, Framing::Over);
        let mut cx = Context::from_waker(Waker::noop());
        // The handle has sent nothing, so it is ready, or its connection takes no further requests.
        let Poll::Ready(Ok(())) = self.send.poll_ready(&mut cx) else {
            return Err(Errno::CONNRESET);
        };
        let sent = self.send.send_request(request, is_whole);
        let (response, stream) = sent.map_err(|error| {
            tracing::debug!("HTTP/2: request not sent: {error}");
            Errno::CONNRESET
        })?;
        self.state = Sending::Content(Content::new(stream, framing));
        Ok(Asked {
            response,
            is_for_head: head.method == Method::Head,
            websocket_accept: accept,
        })
    }

    /// The head as HTTP/2 has it (RFC 9113 section 8.3.1). `None`: a part of it has bytes that the library does not take.
    fn translate(
        &self,
        head: &RequestHead,
        text: &Bytes,
        is_websocket: bool,
    ) -> Option<Request<()>> {
        let path = match head.target {
            Target::Origin { path_and_query } | Target::Absolute { path_and_query, .. } => {
                let (start, end) = (path_and_query.start as usize, path_and_query.end as usize);
                PathAndQuery::from_maybe_shared(encoded(text.slice(start..end))).ok()?
            }
            Target::Asterisk => PathAndQuery::from_static("*"),
            // CONNECT is not for servers.
            Target::Authority { .. } => return None,
        };
        let host = head.host_and_port;
        let host = text.slice(host.start as usize..host.end as usize);
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(Authority::from_maybe_shared(host).ok()?)
            .path_and_query(path)
            .build()
            .ok()?;
        let mut request = Request::new(());
        *request.uri_mut() = uri;
        *request.method_mut() = match is_websocket {
            true => http::Method::CONNECT,
            false => http::Method::from_bytes(head.method_text.of(text)).ok()?,
        };
        if is_websocket {
            (request.extensions_mut()).insert(Protocol::from_static("websocket"));
        }
        let fields = request.headers_mut();
        fields.reserve(head.fields.len());
        for field in &head.fields {
            let name = field.name.of(text);
            let is_kept = match field.known {
                FieldName::Host
                | FieldName::Connection
                | FieldName::KeepAlive
                | FieldName::ProxyConnection
                | FieldName::TransferEncoding
                | FieldName::Upgrade => false,
                FieldName::Te => field.value.of(text).eq_ignore_ascii_case(b"trailers"),
                _ if is_websocket => !name.eq_ignore_ascii_case(b"sec-websocket-key"),
                _ => !name.eq_ignore_ascii_case(b"http2-settings"),
            };
            if is_kept {
                let (start, end) = (field.value.start as usize, field.value.end as usize);
                let value = HeaderValue::from_maybe_shared(text.slice(start..end)).ok()?;
                fields.append(HeaderName::from_bytes(name).ok()?, value);
            }
        }
        Some(request)
    }

    pub(super) fn reset(&mut self) {
        if let Sending::Content(content) = &mut self.state {
            content.reset(Reason::CANCEL);
        }
    }
}

/// The size of its list of fields (RFC 9113 section 6.5.2), and a little more.
fn list_bytes(request: &Request<()>) -> usize {
    /// Names and costs of `:method`, `:scheme`, `:authority`, `:path` and `:protocol`, and the value of the last.
    const PSEUDO_BYTES: usize = 5 * FIELD_BYTES + 47;
    let uri = request.uri();
    let pseudo = [
        Some(request.method().as_str()),
        uri.scheme_str(),
        uri.authority().map(Authority::as_str),
        uri.path_and_query().map(PathAndQuery::as_str),
    ];
    let pseudo: usize = pseudo.into_iter().flatten().map(str::len).sum();
    PSEUDO_BYTES + pseudo + fields_bytes(request.headers())
}

/// The target without the bytes that the library takes in none: encoded they mean the same (RFC 3986 section 2.1).
fn encoded(target: Bytes) -> Bytes {
    let is_refused = |byte: &u8| matches!(byte, b'"' | b'<' | b'>' | b'`');
    if !target.iter().any(is_refused) {
        return target;
    }
    let mut encoded = Vec::with_capacity(target.len() + 32);
    for &byte in &target {
        match byte {
            b'"' => encoded.extend_from_slice(b"%22"),
            b'<' => encoded.extend_from_slice(b"%3C"),
            b'>' => encoded.extend_from_slice(b"%3E"),
            b'`' => encoded.extend_from_slice(b"%60"),
            _ => encoded.push(byte),
        }
    }
    encoded.into()
}
