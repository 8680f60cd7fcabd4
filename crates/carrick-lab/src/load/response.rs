//! One response, read in whatever pieces it comes, and checked: head, framing, length, and every byte of the body.
//!
//! Not carrick's own parser on purpose: who judges does not share the mistakes of whom it judges.

pub(crate) mod chunks;

use std::mem::MaybeUninit;

use crate::content::Body;
use crate::load::fault::{Fault, Progress};

use chunks::Chunks;

/// Longest head, and longest trailers, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most fields of a head.
const FIELDS_MAX: usize = 128;

/// What is asked for, as far as the response has to show it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// Length of the body; none: whatever comes.
    pub body_bytes: Option<u64>,
    /// The body's bytes; none: not compared.
    pub body: Option<Body>,
    /// The answer to `CONNECT`: any 2xx, and no body (RFC 9110, section 9.3.6).
    pub to_connect: bool,
}

/// A response as far as it has come. To be used again by [`Response::begin`].
#[derive(Debug, Default)]
pub struct Response {
    state: State,
    /// The beginning of a head that came in pieces.
    head: Vec<u8>,
    body_bytes: u64,
    keeps_alive: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Length {
        missing: u64,
    },
    Chunked(Chunks),
    UntilClose,
    Done,
}

impl Response {
    /// Forgets what was, for the next response.
    pub fn begin(&mut self) {
        self.state = State::Head;
        self.head.clear();
        self.body_bytes = 0;
        self.keeps_alive = false;
    }

    /// Takes `input`, and says how much of it belonged to this response: all, unless it is now done.
    ///
    /// # Errors
    /// At the first thing that is not as expected.
    pub fn take(&mut self, input: &[u8], expected: &Expected) -> Result<usize, Fault> {
        let mut taken = 0;
        while matches!(self.state, State::Head) {
            if taken == input.len() {
                return Ok(taken);
            }
            taken += self.take_head(&input[taken..], expected)?;
        }
        let input = &input[taken..];
        match &mut self.state {
            State::Head | State::Done => {}
            State::Length { missing } => {
                let most = usize::try_from(*missing).unwrap_or(usize::MAX);
                let now = &input[..input.len().min(most)];
                *missing -= now.len() as u64;
                let is_done = *missing == 0;
                take_body(&mut self.body_bytes, now, expected)?;
                taken += now.len();
                if is_done {
                    self.state = State::Done;
                }
            }
            State::UntilClose => {
                take_body(&mut self.body_bytes, input, expected)?;
                taken += input.len();
            }
            State::Chunked(chunks) => {
                let body_bytes = &mut self.body_bytes;
                taken += chunks.take(input, |piece| take_body(body_bytes, piece, expected))?;
                if chunks.is_done() {
                    self.check_length(expected)?;
                    self.state = State::Done;
                }
            }
        }
        Ok(taken)
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// When that is not the response's proper end.
    pub fn end(&mut self, expected: &Expected) -> Result<(), Fault> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.check_length(expected)?;
                self.state = State::Done;
                Ok(())
            }
            _ => Err(Fault::ClosedEarly(self.progress())),
        }
    }

    /// Whether all has come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether the head has come.
    #[must_use]
    pub fn has_head(&self) -> bool {
        !matches!(self.state, State::Head)
    }

    /// Whether the connection may carry another request (RFC 9112, section 9.3).
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }

    /// Bytes of the body until now.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            head: self.has_head(),
            head_bytes: self.head.len() as u64,
            body_bytes: self.body_bytes,
            reused: false,
        }
    }

    /// Takes a part of a head, or the whole; says how much of `input` belonged to it.
    fn take_head(&mut self, input: &[u8], expected: &Expected) -> Result<usize, Fault> {
        if self.head.is_empty() {
            if let Some((bytes, next)) = parse_head(input, expected)? {
                self.enter(next);
                return Ok(bytes);
            }
            self.head.extend_from_slice(input);
        } else {
            let before = self.head.len();
            self.head.extend_from_slice(input);
            if let Some((bytes, next)) = parse_head(&self.head, expected)? {
                self.head.clear();
                self.enter(next);
                return Ok(bytes - before);
            }
        }
        if self.head.len() > HEAD_BYTES_MAX {
            return Err(Fault::Garbled(format!(
                "the head is longer than {HEAD_BYTES_MAX} bytes"
            )));
        }
        Ok(input.len())
    }

    fn enter(&mut self, head: Head) {
        self.keeps_alive = head.keeps_alive;
        self.state = match head.framing {
            Framing::Interim => State::Head,
            Framing::Length(0) => State::Done,
            Framing::Length(missing) => State::Length { missing },
            Framing::Chunked => State::Chunked(Chunks::default()),
            Framing::UntilClose => {
                self.keeps_alive = false;
                State::UntilClose
            }
        };
    }

    fn check_length(&self, expected: &Expected) -> Result<(), Fault> {
        match expected.body_bytes {
            Some(bytes) if bytes != self.body_bytes => Err(Fault::WrongLength {
                received: self.body_bytes,
                expected: bytes,
                announced: false,
            }),
            _ => Ok(()),
        }
    }
}

/// Checks a piece of the body: its length so far, and its bytes.
fn take_body(body_bytes: &mut u64, piece: &[u8], expected: &Expected) -> Result<(), Fault> {
    let offset = *body_bytes;
    *body_bytes += piece.len() as u64;
    if let Some(body) = expected.body
        && let Some(at) = body.first_difference(offset, piece)
    {
        let within = usize::try_from(at - offset).unwrap_or(0);
        // A body that is too long, as without framing it may be, has no right bytes there.
        if expected.body_bytes.is_none_or(|bytes| at < bytes) {
            return Err(Fault::WrongByte {
                at,
                received: piece[within],
                expected: body.piece(at, 1)[0],
            });
        }
    }
    match expected.body_bytes {
        Some(bytes) if *body_bytes > bytes => Err(Fault::WrongLength {
            received: *body_bytes,
            expected: bytes,
            announced: false,
        }),
        _ => Ok(()),
    }
}

/// What a head says.
struct Head {
    keeps_alive: bool,
    framing: Framing,
}

enum Framing {
    /// A 1xx: another head follows (RFC 9110, section 15.2).
    Interim,
    Length(u64),
    Chunked,
    UntilClose,
}

/// The head at the beginning of `input` and its length; `None` if it is not whole yet.
fn parse_head(input: &[u8], expected: &Expected) -> Result<Option<(usize, Head)>, Fault> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut head, input, &mut fields);
    let bytes = match parsed {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => {
            return Err(Fault::Garbled(format!(
                "{error}, in a head that begins with `{}`",
                input[..input.len().min(40)].escape_ascii()
            )));
        }
    };
    let status = head.code.unwrap_or(0);
    if (100..200).contains(&status) && status != 101 {
        let head = Head {
            keeps_alive: true,
            framing: Framing::Interim,
        };
        return Ok(Some((bytes, head)));
    }
    let fields = Fields::read(head.headers)?;
    let keeps_alive = if head.version == Some(1) {
        !fields.close
    } else {
        fields.keep_alive && !fields.close
    };
    let framing = if expected.to_connect {
        if !(200..300).contains(&status) {
            return Err(Fault::Status(status));
        }
        Framing::Length(0)
    } else if status != 200 {
        return Err(Fault::Status(status));
    } else if fields.chunked {
        Framing::Chunked
    } else if let Some(received) = fields.length {
        if let Some(bytes) = expected.body_bytes
            && bytes != received
        {
            return Err(Fault::WrongLength {
                received,
                expected: bytes,
                announced: true,
            });
        }
        Framing::Length(received)
    } else {
        Framing::UntilClose
    };
    let head = Head {
        keeps_alive,
        framing,
    };
    Ok(Some((bytes, head)))
}

/// The fields that say where a message ends (RFC 9112, section 6).
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Self, Fault> {
        let mut fields = Self::default();
        for header in headers {
            let name = header.name;
            if name.eq_ignore_ascii_case("content-length") {
                let length = parse_length(header.value)?;
                if fields.length.is_some() {
                    return Err(Fault::Garbled(String::from("Content-Length comes twice")));
                }
                fields.length = Some(length);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                if fields.chunked || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(Fault::Garbled(format!(
                        "Transfer-Encoding is `{}` instead of `chunked`",
                        header.value.escape_ascii()
                    )));
                }
                fields.chunked = true;
            } else if name.eq_ignore_ascii_case("connection") {
                for option in header.value.split(|byte| *byte == b',') {
                    let option = option.trim_ascii();
                    fields.close |= option.eq_ignore_ascii_case(b"close");
                    fields.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
        if fields.chunked && fields.length.is_some() {
            return Err(Fault::Garbled(String::from(
                "both Content-Length and Transfer-Encoding",
            )));
        }
        Ok(fields)
    }
}

fn parse_length(value: &[u8]) -> Result<u64, Fault> {
    let digits = value.trim_ascii();
    std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| {
            Fault::Garbled(format!(
                "Content-Length is `{}` instead of a number",
                value.escape_ascii()
            ))
        })
}

#[cfg(test)]
mod tests;
