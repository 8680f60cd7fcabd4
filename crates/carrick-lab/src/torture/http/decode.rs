//! A response as its client reads it: the head's fields that matter, and the body's bytes out of their framing.
//!
//! Not carrick's own parser on purpose: who judges does not share the mistakes of whom it judges.

use crate::load::fault::Fault;
use crate::load::response::chunks::Chunks;

/// Most fields of a head.
const FIELDS_MAX: usize = 64;
/// Longest head, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// What a head says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// `Content-Length`.
    pub length: Option<u64>,
    /// Whether the body is in chunks.
    pub is_chunked: bool,
    /// Whether it says `Connection: close`.
    pub closes: bool,
    /// `X-Exchange`, `ETag`, `Content-Range` and `Via`.
    pub exchange: Option<String>,
    /// See `exchange`.
    pub etag: Option<String>,
    /// See `exchange`.
    pub content_range: Option<String>,
    /// See `exchange`.
    pub via: Option<String>,
}

impl Head {
    /// The head at the beginning of `input`, and its length in bytes; none if it is not whole.
    ///
    /// # Errors
    /// In words, when it is no head, or says something twice that may be said once.
    pub fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut fields);
        let bytes = match response.parse(input) {
            Ok(httparse::Status::Complete(bytes)) => bytes,
            Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => return Ok(None),
            Ok(httparse::Status::Partial) => {
                return Err(format!("a head of more than {HEAD_BYTES_MAX} bytes"));
            }
            Err(error) => {
                return Err(format!(
                    "no head ({error}), but `{}`",
                    input[..input.len().min(60)].escape_ascii()
                ));
            }
        };
        let mut head = Self {
            status: response.code.unwrap_or(0),
            ..Self::default()
        };
        for field in response.headers.iter() {
            head.take(field)?;
        }
        if head.is_chunked && head.length.is_some() {
            return Err(String::from("both Content-Length and Transfer-Encoding"));
        }
        Ok(Some((head, bytes)))
    }

    fn take(&mut self, field: &httparse::Header<'_>) -> Result<(), String> {
        let value = String::from_utf8_lossy(field.value).into_owned();
        let place = match field.name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length = value
                    .parse()
                    .map_err(|_| format!("Content-Length is `{value}`"))?;
                if self.length.replace(length).is_some() {
                    return Err(String::from("Content-Length comes twice"));
                }
                return Ok(());
            }
            "transfer-encoding" => {
                if self.is_chunked || !value.eq_ignore_ascii_case("chunked") {
                    return Err(format!("Transfer-Encoding is `{value}`"));
                }
                self.is_chunked = true;
                return Ok(());
            }
            "connection" => {
                self.closes |= value
                    .split(',')
                    .any(|option| option.trim().eq_ignore_ascii_case("close"));
                return Ok(());
            }
            "x-exchange" => &mut self.exchange,
            "etag" => &mut self.etag,
            "content-range" => &mut self.content_range,
            "via" => &mut self.via,
            _ => return Ok(()),
        };
        match place.replace(value) {
            Some(_) => Err(format!("{} comes twice", field.name)),
            None => Ok(()),
        }
    }
}

/// Takes a body out of its framing.
#[derive(Debug)]
pub(crate) enum Decoder {
    /// So many bytes are missing.
    Length(u64),
    /// Chunks.
    Chunked(Chunks),
    /// Up to the connection's end.
    UntilClose,
}

impl Decoder {
    /// For a response with this head.
    #[must_use]
    pub fn of(head: &Head, has_body: bool) -> Self {
        match (has_body, head.is_chunked, head.length) {
            (false, _, _) => Self::Length(0),
            (true, true, _) => Self::Chunked(Chunks::default()),
            (true, false, Some(bytes)) => Self::Length(bytes),
            (true, false, None) => Self::UntilClose,
        }
    }

    /// Whether the response is over without the connection's end.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match self {
            Self::Length(missing) => *missing == 0,
            Self::Chunked(chunks) => chunks.is_done(),
            Self::UntilClose => false,
        }
    }

    /// Gives the body's bytes in `input` to `body`, and says how much of `input` belonged to the response.
    ///
    /// # Errors
    /// When the framing is broken, or what `body` says.
    pub fn take(
        &mut self,
        input: &[u8],
        mut body: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<usize, Fault> {
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
