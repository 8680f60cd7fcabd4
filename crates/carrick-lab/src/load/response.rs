//! One response, read in whatever pieces it comes, and checked: head, framing, length, and every byte of the body.

use crate::content::Body;
use crate::content::framing::{self, Decoder, Fields, Garbled};
use crate::load::fault::{Fault, Progress};

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
    /// Of the body, as soon as there is a head.
    decoder: Option<Decoder>,
    /// The beginning of a head that came in pieces.
    head: Vec<u8>,
    body_bytes: u64,
    keeps_alive: bool,
}

impl Response {
    /// Forgets what was, for the next response.
    pub fn begin(&mut self) {
        self.decoder = None;
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
        loop {
            if let Some(decoder) = &mut self.decoder {
                let body_bytes = &mut self.body_bytes;
                taken += decoder.take(&input[taken..], |piece| {
                    take_body(body_bytes, piece, expected)
                })?;
                if decoder.is_done() {
                    self.check_length(expected)?;
                }
                return Ok(taken);
            }
            if taken == input.len() {
                return Ok(taken);
            }
            taken += self.take_head(&input[taken..], expected)?;
        }
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// When that is not the response's proper end.
    pub fn end(&mut self, expected: &Expected) -> Result<(), Fault> {
        match &self.decoder {
            Some(Decoder::UntilClose) => {
                self.check_length(expected)?;
                self.decoder = Some(Decoder::Length(0));
                Ok(())
            }
            Some(decoder) if decoder.is_done() => Ok(()),
            _ => Err(Fault::ClosedEarly(self.progress())),
        }
    }

    /// Whether all has come.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.decoder.as_ref().is_some_and(Decoder::is_done)
    }

    /// Whether the head has come.
    #[must_use]
    pub fn has_head(&self) -> bool {
        self.decoder.is_some()
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
        Ok(input.len())
    }

    fn enter(&mut self, head: Head) {
        self.keeps_alive = head.keeps_alive && head.decoder != Some(Decoder::UntilClose);
        self.decoder = head.decoder;
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
    /// None for a 1xx: another head follows (RFC 9110, section 15.2).
    decoder: Option<Decoder>,
}

/// The head at the beginning of `input` and its length; `None` if it is not whole yet.
fn parse_head(input: &[u8], expected: &Expected) -> Result<Option<(usize, Head)>, Fault> {
    framing::response(input, |head| {
        let status = head.code.unwrap_or(0);
        if (100..200).contains(&status) && status != 101 {
            return Ok(Head {
                keeps_alive: true,
                decoder: None,
            });
        }
        let fields = Fields::read(head.headers)?;
        let is_right = if expected.to_connect {
            (200..300).contains(&status)
        } else {
            status == 200
        };
        if !is_right {
            return Err(Fault::Status(status));
        }
        let decoder = Decoder::of(&fields, !expected.to_connect);
        match (&decoder, expected.body_bytes) {
            (&Decoder::Length(received), Some(expected)) if received != expected => {
                Err(Fault::WrongLength {
                    received,
                    expected,
                    announced: true,
                })
            }
            _ => Ok(Head {
                keeps_alive: fields.goes_on(head.version == Some(1)),
                decoder: Some(decoder),
            }),
        }
    })
}

impl From<Garbled> for Fault {
    fn from(Garbled(why): Garbled) -> Self {
        Self::Garbled(why)
    }
}

#[cfg(test)]
mod tests;
