//! The chunked transfer coding (RFC 9112 section 7.1), followed strictly while it is passed on; that of responses is tidied.
mod tidy;

pub use tidy::Followed;

use super::trailers::Trailers;
use super::{Form, OddNames, Refusal, syntax};

/// What the next bytes of a chunked body are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes of framing: chunk sizes, extensions, line ends, trailers.
    Framing(usize),
    /// So many bytes of content, all in the buffer.
    Data(usize),
    /// So many bytes of framing, and the body is over with the last of them.
    End(usize),
    /// Nothing can be said before more bytes are there (the buffer was empty).
    NeedMore,
}

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends the size line of a chunk of so many bytes, at least one; its content and CR LF are to follow.
pub fn write_chunk_size(out: &mut Vec<u8>, bytes: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    debug_assert!(bytes > 0, "an empty chunk ends the body");
    let digits = (u64::BITS - bytes.leading_zeros()).div_ceil(4).max(1);
    out.extend(
        (0..digits)
            .rev()
            .map(|digit| DIGITS[(bytes >> (4 * digit) & 15) as usize]),
    );
    out.extend_from_slice(b"\r\n");
}

/// Larger chunks than any that is sent; sums of sizes stay far from overflowing.
const CHUNK_BYTES_MAX: u64 = 1 << 60;

/// Leading zeros included, but for [`Form::Lenient`]: there the line's length is their limit.
const SIZE_DIGITS_MAX: u8 = 16;

/// Extensions included; they have no known use but to waste the next hop's time.
const SIZE_LINE_BYTES_MAX: u16 = 256;

/// The position of a connection in a chunked body. It keeps no bytes: every byte is consumed as it is parsed.
#[derive(Debug, Clone)]
pub struct Chunked {
    state: State,
    /// While a size line is read, the size so far; then what is left of the content.
    chunk_bytes: u64,
    line_bytes: u16,
    size_digits: u8,
    form: Form,
    /// The size line so far is one that only [`Form::Lenient`] has.
    is_untidy: bool,
    trailers: Trailers,
}

/// What the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    /// White space, `;` or the line's end, after an extension's name or value; white space only before `;` or `=`.
    AfterExtension {
        name: bool,
        white_space: bool,
    },
    ExtensionName {
        begun: bool,
    },
    ExtensionValue {
        begun: bool,
    },
    Quoted {
        escaped: bool,
    },
    SizeLineFeed,
    Data,
    DataCarriageReturn,
    DataLineFeed,
    Trailers,
    Over,
    Refused,
}

impl Chunked {
    /// At the start of a body. Limits: chunk size at most 2^60, a size line at most 256 bytes, trailers at most 8 KB unless
    /// [more](Self::with_trailers_of) are allowed.
    #[must_use]
    pub fn new() -> Self {
        Self::of_form(Form::Strict)
    }

    /// The same for a response whose body goes on as [`tidy`](Self::tidy) leaves it, or without its framing: sizes may have any number of
    /// leading zeros that their lines have room for, and white space before the lines' ends.
    #[must_use]
    pub fn lenient() -> Self {
        Self::of_form(Form::Lenient)
    }

    /// At the start of the same body, whose trailers may have so many bytes. Only for senders that send them in one piece: with each
    /// that comes, a line that is not whole is [read again](Self::tidy).
    #[must_use]
    pub fn with_trailers_of(mut self, bytes_max: usize) -> Self {
        self.trailers.allow(bytes_max);
        self
    }

    fn of_form(form: Form) -> Self {
        Self {
            state: State::Size,
            chunk_bytes: 0,
            line_bytes: 0,
            size_digits: 0,
            form,
            is_untidy: false,
            trailers: Trailers::default(),
        }
    }

    /// At the start of a request's body. [`tidy`](Self::tidy) takes out the trailers that are a proxy's to write, and, unless such names pass or
    /// are refused, those whose names are odd.
    #[must_use]
    pub fn of_request(odd_names: OddNames) -> Self {
        Self {
            trailers: Trailers::of_request(odd_names),
            ..Self::new()
        }
    }

    /// Says what the first bytes of `bytes` are, and moves past them.
    ///
    /// After [`Piece::End`], or a refusal, the body is over and a new one needs [`Chunked::new`]; asked again, it says `End(0)`
    /// or refuses again.
    ///
    /// # Errors
    /// Refuses bad sizes, bare LF, odd extensions, and trailers that would change framing or routing (RFC 9110 section 6.5.1).
    pub fn next(&mut self, bytes: &[u8]) -> Result<Piece, Refusal> {
        match self.state {
            State::Over => return Ok(Piece::End(0)),
            State::Refused => {
                return Err(Refusal::bad(
                    "refused_before",
                    "the body was refused before",
                ));
            }
            _ if bytes.is_empty() => return Ok(Piece::NeedMore),
            State::Data => {
                let available = usize::try_from(self.chunk_bytes)
                    .map_or(bytes.len(), |left| left.min(bytes.len()));
                self.skip_data(available as u64);
                return Ok(Piece::Data(available));
            }
            _ => {}
        }
        for (index, &byte) in bytes.iter().enumerate() {
            let before = self.state;
            if let Err(refusal) = self.step(byte) {
                self.state = State::Refused;
                return Err(refusal);
            }
            match before {
                // A size line has ended, or begins.
                State::SizeLineFeed | State::DataLineFeed => return Ok(Piece::Framing(index + 1)),
                _ if self.state == State::Over => return Ok(Piece::End(index + 1)),
                State::Trailers if !self.trailers.is_in_line() => {
                    return Ok(Piece::Framing(index + 1));
                }
                _ => {}
            }
        }
        Ok(Piece::Framing(bytes.len()))
    }

    /// Bytes of the current chunk's content that have not come yet: they can be spliced without being looked at.
    #[must_use]
    pub fn data_left(&self) -> u64 {
        if self.state == State::Data {
            self.chunk_bytes
        } else {
            0
        }
    }

    /// Whether the next byte belongs to the trailer section, its empty line included.
    #[must_use]
    pub fn is_in_trailers(&self) -> bool {
        self.state == State::Trailers
    }

    /// Counts content that went by without being looked at; at most [`data_left`](Self::data_left).
    pub fn skip_data(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.data_left());
        if self.state == State::Data {
            self.chunk_bytes = self.chunk_bytes.saturating_sub(bytes);
            if self.chunk_bytes == 0 {
                self.state = State::DataCarriageReturn;
            }
        }
    }

    /// Moves past one byte of framing.
    fn step(&mut self, byte: u8) -> Result<(), Refusal> {
        self.state = match self.state {
            State::DataCarriageReturn if byte == b'\r' => State::DataLineFeed,
            State::DataLineFeed if byte == b'\n' => {
                self.chunk_bytes = 0;
                self.size_digits = 0;
                self.line_bytes = 0;
                self.is_untidy = false;
                State::Size
            }
            State::DataCarriageReturn | State::DataLineFeed => {
                return Err(Refusal::bad(
                    "bad_chunk_end",
                    "a chunk's content is not followed by CR LF",
                ));
            }
            State::Trailers => {
                if self.trailers.step(byte)? {
                    State::Over
                } else {
                    State::Trailers
                }
            }
            in_size_line => {
                self.line_bytes += 1;
                // RFC 9112 section 7.1.1 has it for bad senders, which carrick is not.
                self.is_untidy |= self.form == Form::Lenient && matches!(byte, b' ' | b'\t');
                if self.line_bytes > SIZE_LINE_BYTES_MAX {
                    return Err(Refusal::bad(
                        "chunk_line_too_long",
                        "a chunk's size line is too long",
                    ));
                }
                self.step_in_size_line(in_size_line, byte)?
            }
        };
        Ok(())
    }

    /// `1*HEXDIG *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] ) CR LF` (RFC 9112 section 7.1.1).
    fn step_in_size_line(&mut self, state: State, byte: u8) -> Result<State, Refusal> {
        let is_white_space = matches!(byte, b' ' | b'\t');
        Ok(match state {
            State::Size if byte.is_ascii_hexdigit() => {
                self.add_size_digit(byte)?;
                State::Size
            }
            State::Size if self.size_digits == 0 => {
                return Err(Refusal::bad(
                    "bad_chunk_size",
                    "a chunk's size is not a hexadecimal number",
                ));
            }
            State::Size => match byte {
                b'\r' => State::SizeLineFeed,
                b';' => State::ExtensionName { begun: false },
                _ if is_white_space => State::AfterExtension {
                    name: false,
                    white_space: true,
                },
                _ => {
                    return Err(Refusal::bad(
                        "bad_chunk_size",
                        "a chunk's size is not a hexadecimal number",
                    ));
                }
            },
            State::ExtensionName { begun: false } if is_white_space => state,
            State::ExtensionName { .. } if syntax::is_token_byte(byte) => {
                State::ExtensionName { begun: true }
            }
            State::ExtensionName { begun: true } => self.after_extension(byte, true, false)?,
            State::ExtensionValue { begun: false } if is_white_space => state,
            State::ExtensionValue { begun: false } if byte == b'"' => {
                State::Quoted { escaped: false }
            }
            State::ExtensionValue { .. } if syntax::is_token_byte(byte) => {
                State::ExtensionValue { begun: true }
            }
            State::ExtensionValue { begun: true } => self.after_extension(byte, false, false)?,
            State::Quoted { .. } if !syntax::is_text_byte(byte) => return Err(BAD_EXTENSION),
            State::Quoted { escaped: true } => State::Quoted { escaped: false },
            State::Quoted { escaped: false } => match byte {
                b'"' => State::AfterExtension {
                    name: false,
                    white_space: false,
                },
                b'\\' => State::Quoted { escaped: true },
                _ => state,
            },
            State::AfterExtension { name, white_space } => {
                self.after_extension(byte, name, white_space)?
            }
            State::SizeLineFeed if byte == b'\n' => self.after_size_line(),
            State::SizeLineFeed => {
                return Err(Refusal::bad(
                    "bare_cr",
                    "a chunk's size line has CR without LF",
                ));
            }
            _ => return Err(BAD_EXTENSION),
        })
    }

    fn add_size_digit(&mut self, digit: u8) -> Result<(), Refusal> {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            _ => (digit | 0x20) - b'a' + 10,
        };
        if self.form == Form::Lenient && self.chunk_bytes == 0 && self.size_digits > 0 {
            // So far there were zeros only, which are not counted.
            self.is_untidy = true;
            self.size_digits = 0;
        }
        self.size_digits += 1;
        self.chunk_bytes = self.chunk_bytes << 4 | u64::from(value);
        // 2^60 has 16 digits: within 16 digits the number cannot overflow 64 bits.
        if self.size_digits > SIZE_DIGITS_MAX || self.chunk_bytes > CHUNK_BYTES_MAX {
            return Err(Refusal::bad(
                "chunk_size_too_large",
                "a chunk's size has too many digits",
            ));
        }
        Ok(())
    }

    fn after_size_line(&self) -> State {
        if self.chunk_bytes == 0 {
            State::Trailers
        } else {
            State::Data
        }
    }

    /// What follows a chunk's size with white space, or an extension's name or value. White space must lead to `;` or `=`.
    fn after_extension(
        &mut self,
        byte: u8,
        name: bool,
        white_space: bool,
    ) -> Result<State, Refusal> {
        match byte {
            b' ' | b'\t' => Ok(State::AfterExtension {
                name,
                white_space: true,
            }),
            b';' => Ok(State::ExtensionName { begun: false }),
            b'=' if name => Ok(State::ExtensionValue { begun: false }),
            b'\r' if !white_space => Ok(State::SizeLineFeed),
            b'\r' if self.form == Form::Lenient => {
                self.is_untidy = true;
                Ok(State::SizeLineFeed)
            }
            _ => Err(BAD_EXTENSION),
        }
    }
}

const BAD_EXTENSION: Refusal =
    Refusal::bad("bad_chunk_extension", "a chunk's extension is malformed");

impl Default for Chunked {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
