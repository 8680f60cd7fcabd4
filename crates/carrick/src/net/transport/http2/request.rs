//! What follows the head of a request, or a whole response of a server, as bytes of HTTP/1.1.
use super::RESET;
use bytes::{Buf, Bytes, BytesMut};
use carrick_logic::http1::{may_trail_response, write_chunk_size};
use carrick_logic::http2::{RequestBody, is_trailer};
use h2::{Reason, RecvStream};
use http::HeaderMap;
use rustix::io::Errno;
use std::task::{Context, Poll, Waker, ready};

/// What is to be read of a message.
#[derive(Debug)]
pub struct Incoming {
    /// The head, or framing; comes before `piece`.
    text: Bytes,
    /// Content.
    piece: Bytes,
    /// Content that follows it, of many small frames.
    gathered: BytesMut,
    body: RecvStream,
    /// Of a known length, what is still to be read.
    framing: RequestBody,
    is_response: bool,
    state: State,
    /// The code of the other end's reset.
    reset: Option<Reason>,
    /// Who waits for content.
    reader: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Content,
    Trailers,
    Ended,
    Failed,
}

impl Incoming {
    /// What follows a head.
    #[must_use]
    pub fn new(framing: RequestBody, body: RecvStream) -> Self {
        Self {
            text: Bytes::new(),
            piece: Bytes::new(),
            gathered: BytesMut::new(),
            body,
            framing,
            is_response: false,
            state: State::Content,
            reset: None,
            reader: None,
        }
    }

    /// The same of a response, with its head: trailers that have no place behind its content are left out, as they may be (RFC 9110 section 6.5.1).
    #[must_use]
    pub fn of_response(head: Vec<u8>, framing: RequestBody, body: RecvStream) -> Self {
        Self {
            text: head.into(),
            is_response: true,
            ..Self::new(framing, body)
        }
    }

    /// Of a request that has ended with its head, of which nothing is to be read.
    #[must_use]
    pub fn ended(framing: RequestBody, body: RecvStream) -> Self {
        Self {
            state: State::Ended,
            ..Self::new(framing, body)
        }
    }

    /// A tunnel ends with its stream; requests end before it.
    fn is_tunnel(&self) -> bool {
        matches!(self.framing, RequestBody::Tunnel | RequestBody::WebSocket)
    }

    fn has_bytes(&self) -> bool {
        !self.text.is_empty() || !self.piece.is_empty()
    }

    /// Ready when there are bytes, the end of a tunnel, or an error.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.has_bytes() {
                return Poll::Ready(());
            }
            match self.state {
                State::Failed => return Poll::Ready(()),
                State::Ended if self.is_tunnel() => return Poll::Ready(()),
                State::Ended => return Poll::Pending,
                State::Content | State::Trailers => ready!(self.poll_content(cx)),
            }
        }
    }

    /// Takes the next bytes, if they have come. The reader asks to be woken when it finds none.
    fn take_what_has_come(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        while !self.has_bytes()
            && matches!(self.state, State::Content | State::Trailers)
            && self.poll_content(&mut cx).is_ready()
        {}
    }

    /// Takes what comes next.
    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.state {
            State::Content if !self.gathered.is_empty() => {
                let bytes = self.gathered.split().freeze();
                self.take_content(Some(Ok(bytes)));
            }
            State::Content => {
                let polled = self.body.poll_data(cx);
                if polled.is_pending() {
                    match &mut self.reader {
                        Some(reader) => reader.clone_from(cx.waker()),
                        None => self.reader = Some(cx.waker().clone()),
                    }
                }
                self.take_content(ready!(polled));
            }
            State::Trailers => {
                let trailers = ready!(self.body.poll_trailers(cx));
                self.take_trailers(trailers);
            }
            State::Ended | State::Failed => {}
        }
        Poll::Ready(())
    }

    /// Takes what the library has of content, whose frames cost it more than small ones carry. The other end's window is opened by it when
    /// it is read.
    pub(super) fn gather(&mut self) {
        let waker = self.reader.clone();
        let mut cx = Context::from_waker(waker.as_ref().unwrap_or(Waker::noop()));
        while self.state == State::Content
            && let Poll::Ready(Some(Ok(bytes))) = self.body.poll_data(&mut cx)
        {
            self.gathered.extend_from_slice(&bytes);
        }
    }

    fn take_content(&mut self, data: Option<Result<Bytes, h2::Error>>) {
        match data {
            Some(Ok(bytes)) => {
                if self.framing == RequestBody::Chunked && !bytes.is_empty() {
                    let mut size = Vec::with_capacity(20);
                    write_chunk_size(&mut size, bytes.len() as u64);
                    self.text = size.into();
                }
                self.piece = bytes;
            }
            Some(Err(error)) => self.fail_by(&error),
            None if self.framing == RequestBody::Chunked => self.state = State::Trailers,
            None => self.state = State::Ended,
        }
    }

    fn take_trailers(&mut self, trailers: Result<Option<HeaderMap>, h2::Error>) {
        let trailers = match trailers {
            Ok(trailers) => trailers,
            Err(error) => return self.fail_by(&error),
        };
        let mut text = b"0\r\n".to_vec();
        for (name, value) in trailers.iter().flatten() {
            let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
            let has_place = !self.is_response || may_trail_response(name);
            if has_place && is_trailer(name, value) {
                for part in [name, b": ", value, b"\r\n"] {
                    text.extend_from_slice(part);
                }
            }
        }
        text.extend_from_slice(b"\r\n");
        self.text = text.into();
        self.state = State::Ended;
    }

    fn fail_by(&mut self, error: &h2::Error) {
        self.reset = error
            .reason()
            .filter(|_| error.is_reset() && error.is_remote());
        self.fail();
    }

    /// The code of the reset, if the other end has reset the stream before its end.
    pub(super) fn reset(&self) -> Option<Reason> {
        self.reset
    }

    /// The rest will not come.
    pub(super) fn fail(&mut self) {
        (self.text, self.piece) = (Bytes::new(), Bytes::new());
        self.gathered = BytesMut::new();
        self.state = State::Failed;
    }

    /// Ready when nothing more comes. What comes before is discarded, and the other end's window opened by as much.
    pub(super) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.text = Bytes::new();
            let content = std::mem::take(&mut self.piece);
            if !content.is_empty() {
                let _ = self.body.flow_control().release_capacity(content.len());
            }
            match self.state {
                State::Content | State::Trailers => ready!(self.poll_content(cx)),
                State::Ended | State::Failed => return Poll::Ready(()),
            }
        }
    }

    /// The stream, if all the content that the head announces has been read, and the stream's end is still to come.
    pub(super) fn into_unended(self) -> Option<RecvStream> {
        let is_complete = matches!(self.framing, RequestBody::None | RequestBody::Bytes(0));
        let is_read = self.state == State::Content && !self.has_bytes() && self.gathered.is_empty();
        (is_complete && is_read && !self.body.is_end_stream()).then_some(self.body)
    }

    /// Whether the peer has more to send.
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.state, State::Ended | State::Failed) && !self.body.is_end_stream()
    }

    pub(super) fn peek(&self) -> rustix::io::Result<bool> {
        match self.state {
            _ if self.has_bytes() => Ok(true),
            State::Failed => Err(RESET),
            State::Ended if self.is_tunnel() => Ok(false),
            _ => Err(Errno::AGAIN),
        }
    }

    /// Reads what is there, of as many frames as have come, and opens the client's window by as much.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, room: usize) -> rustix::io::Result<usize> {
        if !self.peek()? {
            return Ok(0);
        }
        let mut left = room;
        while left > 0 && self.has_bytes() {
            let is_text = !self.text.is_empty();
            let source = if is_text {
                &mut self.text
            } else {
                &mut self.piece
            };
            let count = source.len().min(left);
            buffer.extend_from_slice(&source[..count]);
            source.advance(count);
            left -= count;
            if is_text {
                continue;
            }
            // Fails only if the stream is lost, which the next read finds.
            let _ = self.body.flow_control().release_capacity(count);
            if let RequestBody::Bytes(left) = &mut self.framing {
                *left = left.saturating_sub(count as u64);
            }
            if self.piece.is_empty() {
                let ends_chunk = self.framing == RequestBody::Chunked;
                self.take_what_has_come();
                if ends_chunk {
                    self.text = [b"\r\n", &*self.text].concat().into();
                }
            }
        }
        Ok(room - left)
    }
}

#[cfg(test)]
mod tests;
