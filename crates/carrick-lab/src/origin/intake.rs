//! What comes from a client, taken apart: handshake, heads and bodies of requests. It touches no socket.
//!
//! The answers depend on the bytes, never on how they were split on their way; a property test holds it to that.

use super::answer::{Answer, answer, refuse};
use super::date::Date;
use super::handshake::{Beginning, Handshake, recognise};
use super::request::{self, FIELDS_MAX, FieldStorage, HEAD_BYTES_MAX, Refusal};
use super::upload::{Decoder, Received};

/// Room for the first read of a connection: more than most heads need, and little for a connection that idles.
const BUFFER_BYTES: usize = 2 * 1024;
/// Room while the body of a request is read, and the most that there is: a head may fill half of it.
const BUFFER_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// What there is to do for a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// To read into [`Intake::room`] and say so by [`Intake::filled`].
    More,
    /// To send `100 Continue`.
    Continue,
    /// To go through a handshake, as the server, with [`Intake::pending`] and [`Intake::consume`].
    Handshake(Handshake),
    /// To answer a request.
    Answer(Answer),
    /// To answer something that is no request, and to close.
    Malformed(Answer),
}

/// Where in the stream the next byte belongs.
#[derive(Debug)]
enum Place {
    Beginning,
    Head,
    /// In a body, whose head is kept.
    Body(Box<Decoder>),
}

/// The bytes of one connection on their way to being requests.
#[derive(Debug)]
pub struct Intake {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    place: Place,
    /// The head of the request whose body is being read.
    head: Vec<u8>,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            buffer: vec![0; BUFFER_BYTES],
            begin: 0,
            end: 0,
            place: Place::Beginning,
            head: Vec::new(),
        }
    }
}

impl Intake {
    /// Where to read into; never empty when [`Intake::next`] said [`Next::More`].
    pub fn room(&mut self) -> &mut [u8] {
        if self.begin > 0 {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let is_body = matches!(self.place, Place::Body(_));
        if (is_body || self.end == self.buffer.len()) && self.buffer.len() < BUFFER_BYTES_MAX {
            let bytes = if is_body {
                BUFFER_BYTES_MAX
            } else {
                self.buffer.len() * 2
            };
            self.buffer.resize(bytes, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// So many bytes were read into [`Intake::room`].
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// What was read and not yet taken.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Takes so many bytes of [`Intake::pending`].
    pub fn consume(&mut self, bytes: usize) {
        self.begin = (self.begin + bytes).min(self.end);
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
    }

    /// Whether the client is in the middle of nothing: the end of its stream is no fault now.
    #[must_use]
    pub fn is_between_requests(&self) -> bool {
        !matches!(self.place, Place::Body(_)) && self.begin == self.end
    }

    /// What there is to do; for an answer, `head` becomes the head of the response.
    ///
    /// `is_last`: the connection may carry only one more request.
    pub fn next(&mut self, date: &Date, is_last: bool, head: &mut Vec<u8>) -> Next {
        let next = match self.place {
            Place::Beginning => match recognise(self.pending()) {
                Beginning::Unknown => Ok(Next::More),
                Beginning::Handshake(handshake) => {
                    self.place = Place::Head;
                    Ok(Next::Handshake(handshake))
                }
                Beginning::Http => {
                    self.place = Place::Head;
                    self.request(date, is_last, head)
                }
                Beginning::Neither => Err(Refusal::new(
                    400,
                    "it begins like TLS, and is not the emulated handshake",
                )),
            },
            Place::Head => self.request(date, is_last, head),
            Place::Body(_) => self.body(date, is_last, head),
        };
        next.unwrap_or_else(|refusal| Next::Malformed(refuse(&refusal, date, head)))
    }

    fn request(&mut self, date: &Date, is_last: bool, head: &mut Vec<u8>) -> Result<Next, Refusal> {
        if self.begin == self.end {
            return Ok(Next::More);
        }
        let mut storage: FieldStorage<'_> = [const { std::mem::MaybeUninit::uninit() }; FIELDS_MAX];
        let Some((length, request)) =
            request::parse(&self.buffer[self.begin..self.end], &mut storage)?
        else {
            return Ok(Next::More);
        };
        if request.upload.is_done() {
            let received = Received::new(false);
            let answer = answer(&request, received, date, is_last, head);
            drop(request);
            self.consume(length);
            return Ok(Next::Answer(answer));
        }
        let wants_checksum = request.wishes.as_ref().is_ok_and(|wishes| wishes.echo);
        let decoder = Box::new(Decoder::new(request.upload.clone(), wants_checksum));
        // A server may leave 100 out when some of the body is here already; always sending it is right too (RFC 9110,
        // section 10.1.1), and does not depend on how the stream was split.
        let expects_continue = request.expects_continue;
        drop(request);
        self.head.clear();
        self.head
            .extend_from_slice(&self.buffer[self.begin..self.begin + length]);
        self.consume(length);
        self.place = Place::Body(decoder);
        if expects_continue {
            return Ok(Next::Continue);
        }
        self.body(date, is_last, head)
    }

    fn body(&mut self, date: &Date, is_last: bool, head: &mut Vec<u8>) -> Result<Next, Refusal> {
        let Place::Body(decoder) = &mut self.place else {
            return Ok(Next::More);
        };
        let used = decoder.take(&self.buffer[self.begin..self.end])?;
        let finished = decoder.finished();
        self.consume(used);
        let Some(received) = finished else {
            return Ok(Next::More);
        };
        self.place = Place::Head;
        let mut storage: FieldStorage<'_> = [const { std::mem::MaybeUninit::uninit() }; FIELDS_MAX];
        match request::parse(&self.head, &mut storage)? {
            Some((_, request)) => Ok(Next::Answer(answer(
                &request, received, date, is_last, head,
            ))),
            // It was complete before: this cannot happen, and would be our fault.
            None => Err(Refusal::new(500, "the head of this request was lost")),
        }
    }
}

#[cfg(test)]
mod tests;
