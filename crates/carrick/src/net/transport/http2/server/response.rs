//! The response of a stream to a server, as bytes of HTTP/1.1.
use super::super::{Incoming, RESET};
use super::request::Asked;
use bytes::{Buf, Bytes};
use carrick_logic::http1::Refusal;
use carrick_logic::http2::{Malformed, RequestBody, ResponseTranslation, write_response};
use h2::{Reason, RecvStream};
use http::{HeaderMap, StatusCode};
use rustix::io::Errno;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// 1xx responses that are passed on before one response. No window limits them: the rest is left out.
const INTERIM_MAX: u8 = 16;

/// What the library refuses, without a reason.
const NOT_HTTP2: Refusal = Refusal {
    status: 502,
    reason: "its stream breaks a rule of HTTP/2",
    label: "malformed",
};

/// What is to be read of a response.
#[derive(Debug)]
pub(super) struct Response {
    state: State,
    /// 1xx responses that may follow.
    interim_left: u8,
}

#[derive(Debug)]
enum State {
    /// Nothing was asked.
    Unasked,
    /// The head is to come; a part of an interim one may be unread.
    Head(Box<Asked>, Bytes),
    /// The head has come.
    Content(Box<Incoming>),
    Failed(Lost),
}

/// Why there will be no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// The server has not begun with the request, and says so (RFC 9113 section 8.7).
    Refused,
    /// The server has reset the stream.
    Reset(Reason),
    /// It must not be passed on.
    Malformed(Refusal),
    /// The connection is lost.
    Connection,
}

impl Lost {
    fn by(error: &h2::Error) -> Self {
        match error.reason() {
            Some(Reason::REFUSED_STREAM) if error.is_remote() => Self::Refused,
            // Of a connection that is closed the library tells this only of streams that the server has not seen.
            Some(_) if error.is_go_away() && error.is_remote() => Self::Refused,
            Some(reason) if error.is_remote() => Self::Reset(reason),
            Some(_) if error.is_reset() => Self::Malformed(NOT_HTTP2),
            // Whose fault ended the connection is not known.
            _ => Self::Connection,
        }
    }
}

impl Response {
    pub(super) fn new() -> Self {
        Self {
            state: State::Unasked,
            interim_left: INTERIM_MAX,
        }
    }

    /// The request's head was sent.
    pub(super) fn asked(&mut self, asked: Asked) {
        self.state = State::Head(Box::new(asked), Bytes::new());
    }

    /// Why there will be none.
    pub(super) fn lost(&self) -> Option<Lost> {
        match self.state {
            State::Failed(lost) => Some(lost),
            _ => None,
        }
    }

    /// The code of the server's reset, unless that says that it has not begun.
    pub(super) fn reset(&self) -> Option<Reason> {
        match &self.state {
            State::Failed(Lost::Reset(reason)) => Some(*reason),
            State::Content(content) => content.reset(),
            _ => None,
        }
    }

    /// See [`Incoming::into_unended`]. Nothing more can be read.
    pub(super) fn take_unended(&mut self) -> Option<RecvStream> {
        match std::mem::replace(&mut self.state, State::Unasked) {
            State::Content(content) => content.into_unended(),
            _ => None,
        }
    }

    /// See [`Incoming::gather`].
    pub(super) fn gather(&mut self) {
        if let State::Content(content) = &mut self.state {
            content.gather();
        }
    }

    /// Whether no byte of the response has come.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self.state, State::Head(..))
    }

    /// Whether the server has more to send.
    pub(super) fn is_under_way(&self) -> bool {
        match &self.state {
            State::Head(..) => true,
            State::Content(content) => content.is_under_way(),
            State::Unasked | State::Failed(_) => false,
        }
    }

    /// Whether the head has come.
    pub(super) fn has_come(&self) -> bool {
        matches!(self.state, State::Content(_))
    }

    /// Ready when there are bytes, the end of a tunnel, or an error.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.state {
                State::Unasked => return Poll::Pending,
                State::Failed(_) => return Poll::Ready(()),
                State::Content(content) => return content.poll_ready(cx),
                State::Head(_, text) if !text.is_empty() => return Poll::Ready(()),
                State::Head(asked, _) => match asked.response.poll_informational(cx) {
                    Poll::Ready(Some(Ok(interim))) => {
                        let (head, ()) = interim.into_parts();
                        self.take_interim(head.status, &head.headers);
                    }
                    Poll::Ready(Some(Err(error))) => self.fail(Lost::by(&error)),
                    Poll::Ready(None) | Poll::Pending => {
                        match ready!(Pin::new(&mut asked.response).poll(cx)) {
                            Ok(response) => self.take_head(response),
                            Err(error) => self.fail(Lost::by(&error)),
                        }
                    }
                },
            }
        }
    }

    fn take_interim(&mut self, status: StatusCode, fields: &HeaderMap) {
        let Some(left) = self.interim_left.checked_sub(1) else {
            return;
        };
        self.interim_left = left;
        let mut head = Vec::with_capacity(256);
        let how = ResponseTranslation {
            is_for_head: false,
            is_whole: false,
            websocket_accept: None,
        };
        match (write(&mut head, status, fields, &how), &mut self.state) {
            (Ok(_), State::Head(_, text)) => *text = head.into(),
            (Ok(_), _) => {}
            (Err(malformed), _) => self.refuse(malformed),
        }
    }

    fn take_head(&mut self, response: http::Response<RecvStream>) {
        let State::Head(asked, _) = &self.state else {
            return;
        };
        let (head, body) = response.into_parts();
        let how = ResponseTranslation {
            is_for_head: asked.is_for_head,
            is_whole: body.is_end_stream(),
            websocket_accept: asked.websocket_accept.as_deref(),
        };
        let mut text = Vec::with_capacity(512);
        match write(&mut text, head.status, &head.headers, &how) {
            Ok(framing) => {
                let content = Incoming::of_response(text, framing, body);
                self.state = State::Content(Box::new(content));
            }
            Err(malformed) => self.refuse(malformed),
        }
    }

    fn refuse(&mut self, malformed: Malformed) {
        self.fail(Lost::Malformed(malformed.of_response()));
    }

    /// The rest will not come.
    pub(super) fn fail(&mut self, lost: Lost) {
        self.state = State::Failed(lost);
    }

    pub(super) fn peek(&self) -> rustix::io::Result<bool> {
        match &self.state {
            State::Unasked => Err(Errno::AGAIN),
            State::Head(_, text) if text.is_empty() => Err(Errno::AGAIN),
            State::Head(..) => Ok(true),
            State::Content(content) => content.peek(),
            State::Failed(_) => Err(RESET),
        }
    }

    /// Reads what is there, and opens the server's window by as much.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, room: usize) -> rustix::io::Result<usize> {
        match &mut self.state {
            State::Content(content) => content.read(buffer, room),
            State::Head(_, text) if !text.is_empty() => {
                let count = text.len().min(room);
                buffer.extend_from_slice(&text[..count]);
                text.advance(count);
                Ok(count)
            }
            _ => self.peek().map(|_| 0),
        }
    }
}

fn write(
    out: &mut Vec<u8>,
    status: StatusCode,
    fields: &HeaderMap,
    how: &ResponseTranslation<'_>,
) -> Result<RequestBody, Malformed> {
    let fields = || {
        let fields = fields.iter();
        fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
    };
    write_response(out, status.as_u16(), fields, how)
}
