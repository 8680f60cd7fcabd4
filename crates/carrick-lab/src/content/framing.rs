//! Where messages of HTTP/1 end (RFC 9112, sections 6 and 7): the fields that say so, and bodies taken out of their framing.
//!
//! Not carrick's own parser on purpose: the judge does not share the mistakes of the judged.

mod chunks;

use std::fmt;
use std::mem::MaybeUninit;

use chunks::Chunks;
use httparse::{Header, Status};

/// Longest head of a response, and longest trailers, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most fields of a response's head.
const FIELDS_MAX: usize = 128;

/// What is no HTTP/1, or could be read in two ways, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Garbled(pub String);

impl fmt::Display for Garbled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Garbled {}

/// The head of a response at the beginning of `input`: its length in bytes, and what `read` makes of it; `None` if it is not
/// complete.
///
/// # Errors
/// When it is no head or too long, or what `read` says.
pub fn response<T, E: From<Garbled>>(
    input: &[u8],
    read: impl FnOnce(&httparse::Response<'_, '_>) -> Result<T, E>,
) -> Result<Option<(usize, T)>, E> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut head = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let why = match config.parse_response_with_uninit_headers(&mut head, input, &mut fields) {
        Ok(Status::Complete(bytes)) => return Ok(Some((bytes, read(&head)?))),
        Ok(Status::Partial) if input.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(Status::Partial) => format!("the head is longer than {HEAD_BYTES_MAX} bytes"),
        Err(error) => format!(
            "no head ({error}), but `{}`",
            input[..input.len().min(60)].escape_ascii()
        ),
    };
    Err(Garbled(why).into())
}

/// The fields of a head that say where its message ends, and whether the connection goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `Content-Length`.
    pub length: Option<u64>,
    /// `Transfer-Encoding: chunked`.
    pub is_chunked: bool,
    /// `Connection: close`.
    pub closes: bool,
    /// `Connection: keep-alive`.
    pub keeps_alive: bool,
}

impl Fields {
    /// Reads a head's fields.
    ///
    /// # Errors
    /// When they could be read in two ways.
    pub fn read(headers: &[Header<'_>]) -> Result<Self, Garbled> {
        let mut fields = Self::default();
        for header in headers {
            fields.take(header)?;
        }
        fields.check()?;
        Ok(fields)
    }

    /// Takes a field; whether it is one of these.
    ///
    /// # Errors
    /// When it could be read in two ways.
    pub fn take(&mut self, field: &Header<'_>) -> Result<bool, Garbled> {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        // By length first: this is done for each field of each message.
        match field.name.len() {
            10 if is("Connection") => {
                for option in field.value.split(|&byte| byte == b',') {
                    let option = option.trim_ascii();
                    self.closes |= option.eq_ignore_ascii_case(b"close");
                    self.keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if is("Content-Length") => {
                let length = str::from_utf8(field.value.trim_ascii());
                let length = length.ok().and_then(digits).ok_or_else(|| {
                    Garbled(format!(
                        "Content-Length is `{}` instead of a number",
                        field.value.escape_ascii()
                    ))
                })?;
                if self.length.replace(length).is_some() {
                    return Err(Garbled(String::from("Content-Length comes twice")));
                }
            }
            17 if is("Transfer-Encoding") => {
                if self.is_chunked || !field.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(Garbled(format!(
                        "Transfer-Encoding is `{}` instead of `chunked`",
                        field.value.escape_ascii()
                    )));
                }
                self.is_chunked = true;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// To be called after the last field.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn check(&self) -> Result<(), Garbled> {
        if self.is_chunked && self.length.is_some() {
            let why = "both Content-Length and Transfer-Encoding";
            return Err(Garbled(String::from(why)));
        }
        Ok(())
    }

    /// Whether the connection may carry another message (RFC 9112, section 9.3).
    #[must_use]
    pub fn goes_on(&self, is_1_1: bool) -> bool {
        !self.closes && (is_1_1 || self.keeps_alive)
    }
}

/// A number of digits only: `parse` would take a sign too.
#[must_use]
pub fn digits(value: &str) -> Option<u64> {
    value
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| value.parse().ok())?
}

/// Takes a body out of its framing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoder {
    /// So many bytes are missing.
    Length(u64),
    /// Chunks.
    Chunked(Chunks),
    /// Up to the connection's end.
    UntilClose,
}

impl Decoder {
    /// For a response with these fields.
    #[must_use]
    pub fn of(fields: &Fields, has_body: bool) -> Self {
        match (has_body, fields.is_chunked, fields.length) {
            (false, _, _) => Self::Length(0),
            (true, true, _) => Self::Chunked(Chunks::default()),
            (true, false, Some(bytes)) => Self::Length(bytes),
            (true, false, None) => Self::UntilClose,
        }
    }

    /// Whether the message is over without the connection's end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match self {
            Self::Length(missing) => *missing == 0,
            Self::Chunked(chunks) => chunks.is_done(),
            Self::UntilClose => false,
        }
    }

    /// Gives the body's bytes in `input` to `body`, and says how much of `input` belongs to the message: all, unless it is
    /// now done.
    ///
    /// # Errors
    /// When the framing is broken, or what `body` says.
    pub fn take<E: From<Garbled>>(
        &mut self,
        input: &[u8],
        mut body: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        match self {
            Self::Length(missing) => {
                let most = usize::try_from(*missing).unwrap_or(usize::MAX);
                let now = &input[..input.len().min(most)];
                *missing -= now.len() as u64;
                body(now)?;
                Ok(now.len())
            }
            Self::Chunked(chunks) => chunks.take(input, body),
            Self::UntilClose => {
                body(input)?;
                Ok(input.len())
            }
        }
    }
}
