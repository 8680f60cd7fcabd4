//! Trailer fields after a chunked body (RFC 9112 section 7.1.2), checked byte by byte.
use super::{Refusal, syntax};

/// Most bytes of a trailer section, its empty line included.
const TRAILERS_BYTES_MAX: u16 = 8 * 1024;

/// Fields that have no place in a trailer: they decide on framing, routing, authentication, or how the content is to be taken
/// (RFC 9110 section 6.5.1). A next hop that merges trailers into the head would take them for the sender's word.
const FORBIDDEN: [&[u8]; 30] = [
    b"authorization",
    b"cache-control",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"forwarded",
    b"host",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"keep-alive",
    b"location",
    b"max-forwards",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"range",
    b"set-cookie",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"www-authenticate",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
];

/// Where in a trailer section a connection stands. Of a name only this is kept: which of [`FORBIDDEN`] it can still become.
#[derive(Debug, Clone, Default)]
pub(super) struct Trailers {
    state: State,
    total_bytes: u16,
    name_bytes: u16,
    candidates: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    LineStart,
    Name,
    Value,
    LineFeed,
    LastLineFeed,
}

impl Trailers {
    /// Moves past one byte; says whether it was the section's last.
    pub(super) fn step(&mut self, byte: u8) -> Result<bool, Refusal> {
        self.total_bytes += 1;
        if self.total_bytes > TRAILERS_BYTES_MAX {
            return Err(Refusal::bad(
                "trailers_too_long",
                "the trailer section is too long",
            ));
        }
        self.state = match self.state {
            State::LineStart if byte == b'\r' => State::LastLineFeed,
            State::LineStart | State::Name if syntax::is_token_byte(byte) => {
                self.add_name_byte(byte);
                State::Name
            }
            State::Name if byte == b':' => {
                self.check_name()?;
                State::Value
            }
            State::Value if byte == b'\r' => State::LineFeed,
            State::Value if syntax::is_text_byte(byte) => State::Value,
            State::LineFeed if byte == b'\n' => State::LineStart,
            State::LastLineFeed if byte == b'\n' => return Ok(true),
            _ => {
                return Err(Refusal::bad(
                    "bad_trailer",
                    "a trailer field is malformed; it is `name: value`",
                ));
            }
        };
        Ok(false)
    }

    fn add_name_byte(&mut self, byte: u8) {
        if self.state == State::LineStart {
            self.name_bytes = 0;
            self.candidates = u32::MAX;
        }
        let position = usize::from(self.name_bytes);
        for (index, name) in FORBIDDEN.iter().enumerate() {
            if name.get(position) != Some(&byte.to_ascii_lowercase()) {
                self.candidates &= !(1 << index);
            }
        }
        self.name_bytes += 1;
    }

    fn check_name(&self) -> Result<(), Refusal> {
        let is_forbidden = FORBIDDEN.iter().enumerate().any(|(index, name)| {
            self.candidates & 1 << index != 0 && name.len() == usize::from(self.name_bytes)
        });
        if is_forbidden {
            return Err(Refusal::bad(
                "forbidden_trailer",
                "a trailer field has no place after the content",
            ));
        }
        Ok(())
    }
}
