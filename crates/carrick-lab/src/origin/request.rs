//! The head of a request: what of it decides the answer, and the rules of HTTP/1 for framing and keep-alive.

use std::mem::MaybeUninit;

use httparse::{Header, Status};

use crate::content::framing::{Decoder, Fields, Garbled};

use super::wishes::Wishes;

/// Most fields of a head.
pub const FIELDS_MAX: usize = 100;
/// Longest head in bytes.
pub const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Room for the fields of a head while it is looked at.
pub type FieldStorage<'a> = [MaybeUninit<Header<'a>>; FIELDS_MAX];

/// A request that cannot be answered as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status code of the answer.
    pub status: u16,
    /// Why, for the body of the answer.
    pub reason: String,
}

impl Refusal {
    pub(super) fn new(status: u16, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
        }
    }
}

impl From<Garbled> for Refusal {
    fn from(Garbled(why): Garbled) -> Self {
        Self::new(400, why)
    }
}

/// A head that keeps the rules.
#[derive(Debug)]
pub struct Head<'a> {
    /// The method.
    pub method: &'a str,
    /// The path of the target, without the query.
    pub path: &'a str,
    /// Whether it is HTTP/1.1.
    pub is_1_1: bool,
    /// Whether the client wants to go on with this connection (RFC 9112, section 9.3).
    pub keeps_alive: bool,
    /// Whether the client waits for `100 Continue`.
    pub expects_continue: bool,
    /// Whether there is a condition or a range among the fields.
    pub is_conditional: bool,
    /// Takes the body out of its framing.
    pub upload: Decoder,
    /// What the answer is to be. An error of the caller's, not of the protocol's: the connection can go on.
    pub wishes: Result<Wishes<'a>, String>,
    /// All fields.
    pub fields: &'a [Header<'a>],
}

impl<'a> Head<'a> {
    /// The values of all fields of a name.
    pub fn values(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.fields
            .iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }
}

/// Reads a head from the beginning of `bytes`; with it its length. `None`: it is not complete.
///
/// # Errors
/// When it breaks the rules so that the beginning of the next request is unknown.
pub fn parse<'a>(
    bytes: &'a [u8],
    storage: &'a mut FieldStorage<'a>,
) -> Result<Option<(usize, Head<'a>)>, Refusal> {
    let mut request = httparse::Request::new(&mut []);
    // What lies behind the longest head must not decide what is wrong with one that is too long.
    let looked_at = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    let length = match request.parse_with_uninit_headers(looked_at, storage) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(Status::Partial) => {
            return Err(Refusal::new(
                431,
                format!("the head is longer than {HEAD_BYTES_MAX} bytes"),
            ));
        }
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::new(431, format!("more than {FIELDS_MAX} fields")));
        }
        Err(error) => return Err(Refusal::new(400, format!("not an HTTP/1 request: {error}"))),
    };
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version)
    else {
        return Ok(None);
    };
    let fields: &'a [Header<'a>] = request.headers;
    let (path, query) = split_target(target);
    let mut wishes = Wishes::default();
    let mut wished = query.map_or(Ok(()), |query| wishes.read_query(query));
    let mut seen = Seen::default();
    for field in fields {
        seen.note(field)?;
        if wished.is_ok() {
            wished = wishes.read_field(field.name, field.value);
        }
    }
    let is_1_1 = minor == 1;
    if seen.hosts > 1 || (is_1_1 && seen.hosts == 0) {
        return Err(Refusal::new(400, "HTTP/1.1 needs one Host field"));
    }
    let head = Head {
        method,
        path,
        is_1_1,
        keeps_alive: seen.framing.goes_on(is_1_1),
        expects_continue: is_1_1 && seen.expects_continue,
        is_conditional: seen.conditional,
        upload: seen.upload(is_1_1)?,
        wishes: wished.map(|()| wishes),
        fields,
    };
    Ok(Some((length, head)))
}

/// Path and query of a target; of one in absolute form (RFC 9112, section 3.2.2), without scheme and authority.
fn split_target(target: &str) -> (&str, Option<&str>) {
    let origin_form = if target.starts_with('/') {
        target
    } else if let Some((_, rest)) = target.split_once("://") {
        let path = rest.find(['/', '?']).unwrap_or(rest.len());
        &rest[path..]
    } else {
        target
    };
    let (path, query) = origin_form
        .split_once('?')
        .map_or((origin_form, None), |(path, query)| (path, Some(query)));
    (if path.is_empty() { "/" } else { path }, query)
}

/// What the fields say about connection and framing.
#[derive(Default)]
struct Seen {
    framing: Fields,
    hosts: usize,
    expects_continue: bool,
    conditional: bool,
}

impl Seen {
    fn note(&mut self, field: &Header<'_>) -> Result<(), Refusal> {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        let taken = self.framing.take(field).map_err(|Garbled(why)| {
            let is_coding = is("Transfer-Encoding");
            Refusal::new(if is_coding { 501 } else { 400 }, why)
        })?;
        match field.name.len() {
            _ if taken => {}
            4 if is("Host") => self.hosts += 1,
            5 if is("Range") => self.conditional = true,
            6 if is("Expect") => {
                self.expects_continue |= field.value.eq_ignore_ascii_case(b"100-continue");
            }
            8 if is("If-Match") || is("If-Range") => self.conditional = true,
            13 if is("If-None-Match") => self.conditional = true,
            17 if is("If-Modified-Since") => self.conditional = true,
            19 if is("If-Unmodified-Since") => self.conditional = true,
            _ => {}
        }
        Ok(())
    }

    fn upload(&self, is_1_1: bool) -> Result<Decoder, Refusal> {
        self.framing.check()?;
        if self.framing.is_chunked && !is_1_1 {
            return Err(Refusal::new(400, "Transfer-Encoding in HTTP/1.0"));
        }
        let has_body = self.framing.is_chunked || self.framing.length.is_some();
        Ok(Decoder::of(&self.framing, has_body))
    }
}

#[cfg(test)]
mod tests;
