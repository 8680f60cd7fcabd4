//! A response's head.
use super::framing::Framing;
use super::scan::{self, Scan};
use super::{
    Field, FieldName, Form, HeadLimits, Method, Progress, Refusal, Span, Version, fields, syntax,
};

/// How long a response's body is (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseBody {
    /// No body: HEAD, 1xx, 204, 304, or a length of zero.
    None,
    /// This many bytes, at least one.
    Bytes(u64),
    /// Chunked transfer coding, alone.
    Chunked,
    /// Until the upstream closes.
    UntilClose,
    /// 2xx to CONNECT, or 101: the connection is a tunnel from here on.
    Tunnel,
}

/// A parsed response head; made once per connection and filled again for each response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// Length of the head in the buffer, its empty line included.
    pub head_bytes: usize,
    /// Three digits, 100 to 999.
    pub status: u16,
    /// What follows the status code; may be empty.
    pub reason: Span,
    /// The version of the status line.
    pub version: Version,
    /// All field lines in order.
    pub fields: Vec<Field>,
    /// How long the body is, given the request's method.
    pub body: ResponseBody,
    /// Whether the upstream's connection can be used again after this response.
    pub keep_alive: bool,
    /// `Transfer-Encoding: chunked` was there, whether or not there is a body.
    pub(super) is_chunked: bool,
    /// `Connection` names fields that are for this hop only.
    pub(super) connection_names_fields: bool,
    /// What `Content-Length` says where it says it more than once.
    pub(super) repeated_length: Option<u64>,
    scan: Scan,
}

impl ResponseHead {
    /// An empty head, to be filled by [`parse`](Self::parse).
    #[must_use]
    pub fn new() -> Self {
        Self {
            head_bytes: 0,
            status: 0,
            reason: Span::default(),
            version: Version::Http11,
            fields: Vec::new(),
            body: ResponseBody::None,
            keep_alive: false,
            is_chunked: false,
            connection_names_fields: false,
            repeated_length: None,
            scan: Scan::default(),
        }
    }

    /// Parses the head at the start of `bytes`, the answer to a request with `method`. The contract on `bytes` and on calling
    /// again is that of [`RequestHead::parse`](super::RequestHead::parse).
    ///
    /// For heads that go on as [`write_response`](super::write_response) writes them: lines may end with LF alone, white space may stand before a
    /// colon, `Content-Length` may say the same number more than once, and may stand beside `Transfer-Encoding`, as may HTTP/1.0. Nobody
    /// behind carrick sees these.
    ///
    /// # Errors
    /// A [`Refusal`] when the head must not be passed on: the client gets 502 (`status` says so), the upstream's connection is closed.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        method: Method,
        limits: &HeadLimits,
    ) -> Result<Progress, Refusal> {
        self.parse_as(bytes, method, limits, Form::Lenient)
    }

    /// Parses a head that goes on, or has gone on, as it came: [`parse`](Self::parse) without its leniency, which would be carrick's word on what
    /// another reads otherwise.
    ///
    /// # Errors
    /// Likewise.
    pub fn parse_strictly(
        &mut self,
        bytes: &[u8],
        method: Method,
        limits: &HeadLimits,
    ) -> Result<Progress, Refusal> {
        self.parse_as(bytes, method, limits, Form::Strict)
    }

    fn parse_as(
        &mut self,
        bytes: &[u8],
        method: Method,
        limits: &HeadLimits,
        form: Form,
    ) -> Result<Progress, Refusal> {
        if self.scan.is_new_for(bytes) {
            self.restart();
        }
        let result = self
            .advance(bytes, method, limits, form)
            .map_err(Refusal::from_upstream);
        if result != Ok(Progress::Partial) {
            self.scan = Scan::default();
        }
        result
    }

    /// Forgets a partial head: the next [`parse`](Self::parse) begins a new one.
    pub fn restart(&mut self) {
        self.scan = Scan::default();
        self.fields.clear();
    }

    fn advance(
        &mut self,
        bytes: &[u8],
        method: Method,
        limits: &HeadLimits,
        form: Form,
    ) -> Result<Progress, Refusal> {
        let (window, full) = scan::window(bytes, limits);
        if !self.scan.has_first_line() {
            check_beginning(window)?;
            match self.scan.first_line(window, form)? {
                Some(line_bytes) => {
                    self.read_first_line(&window[..line_bytes])?;
                    self.head_bytes = self.scan.line_start();
                }
                None if full => return Err(TOO_LONG),
                None => return Ok(Progress::Partial),
            }
        }
        match self.scan.fields(window, limits.fields_max, form)? {
            Some(head_bytes) => self
                .read_fields(bytes, head_bytes, method, form)
                .map(|()| Progress::Complete),
            None if full => Err(TOO_LONG),
            None => Ok(Progress::Partial),
        }
    }

    /// `HTTP/1.x SP 3DIGIT [SP reason]` (RFC 9112 section 4). The second space is often missing when there is no reason.
    fn read_first_line(&mut self, line: &[u8]) -> Result<(), Refusal> {
        const REASON_START: usize = b"HTTP/1.1 200 ".len();
        let [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            minor @ b'0'..=b'9',
            b' ',
            code @ ..,
        ] = line
        else {
            return Err(MALFORMED);
        };
        let (digits, rest) = code.split_at_checked(3).ok_or(MALFORMED)?;
        if !matches!(rest, [] | [b' ', ..]) || !syntax::is_text(rest) {
            return Err(MALFORMED);
        }
        let status = syntax::decimal(digits).and_then(|status| u16::try_from(status).ok());
        self.status = status.filter(|&status| status >= 100).ok_or(MALFORMED)?;
        self.reason = Span::new(REASON_START.min(line.len()), line.len());
        self.version = if *minor == b'0' {
            Version::Http10
        } else {
            Version::Http11
        };
        Ok(())
    }

    fn read_fields(
        &mut self,
        bytes: &[u8],
        head_bytes: usize,
        method: Method,
        form: Form,
    ) -> Result<(), Refusal> {
        // Until here `head_bytes` was the length of the status line, with its end.
        let block = self.head_bytes..head_bytes;
        self.head_bytes = head_bytes;
        let lines = self.scan.field_lines();
        match form {
            Form::Strict => fields::parse(bytes, block, lines, &mut self.fields)?,
            Form::Lenient => {
                let lines = (lines, self.scan.has_bare_lf());
                fields::parse_leniently(bytes, block, lines, &mut self.fields)?;
            }
        }
        let framing = Framing::read(bytes, &self.fields, form)?;
        if framing.has_both_lengths {
            self.fields
                .retain(|field| field.known != FieldName::ContentLength);
        }
        let repeats_length = framing.repeats_length && !framing.has_both_lengths;
        self.repeated_length = framing.content_length.filter(|_| repeats_length);
        self.is_chunked = framing.chunked;
        self.connection_names_fields = framing.connection.names_fields;
        if form == Form::Strict && framing.chunked && self.version == Version::Http10 {
            return Err(Refusal::bad(
                "chunked_http10",
                "Transfer-Encoding is unknown to HTTP/1.0",
            ));
        }
        self.body = self.body_length(&framing, method);
        self.keep_alive = self.can_be_used_again(&framing);
        Ok(())
    }

    /// RFC 9112 section 6.3, for responses, with one difference: every transfer coding but `chunked` alone is refused. The RFC reads
    /// an unknown coding until close; whoever does not know the coding could take the response for one without a length, or for one
    /// with another length.
    fn body_length(&self, framing: &Framing, method: Method) -> ResponseBody {
        match (self.status, method) {
            (101, _) => ResponseBody::Tunnel,
            (200..300, Method::Connect) => ResponseBody::Tunnel,
            (100..200 | 204 | 304, _) => ResponseBody::None,
            (_, Method::Head) => ResponseBody::None,
            _ if framing.chunked => ResponseBody::Chunked,
            _ => match framing.content_length {
                Some(0) => ResponseBody::None,
                Some(bytes) => ResponseBody::Bytes(bytes),
                None => ResponseBody::UntilClose,
            },
        }
    }

    /// RFC 9112 section 9.3. Not to be trusted again: a 204 that announces content nevertheless may be followed by it; and where the
    /// response is in chunks although it says its length or is one of HTTP/1.0, the server may see another end (sections 6.1 and 6.3).
    fn can_be_used_again(&self, framing: &Framing) -> bool {
        let persists = match self.version {
            Version::Http11 => !framing.connection.close,
            Version::Http10 => framing.connection.keep_alive && !framing.connection.close,
        };
        let announces_content =
            framing.chunked || framing.content_length.is_some_and(|bytes| bytes > 0);
        let is_doubtful = match self.status {
            204 => announces_content,
            _ => framing.chunked && (framing.has_both_lengths || self.version == Version::Http10),
        };
        persists
            && !is_doubtful
            && !matches!(self.body, ResponseBody::UntilClose | ResponseBody::Tunnel)
    }

    /// 1xx other than 101: another head follows (RFC 9110 section 15.2).
    #[must_use]
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// Whether the client can tell the end of this response's body only by the connection's end: the body has no length that a
    /// client of this version understands. `add_chunked` as in [`ResponseRewrite`](super::ResponseRewrite).
    #[must_use]
    pub fn ends_at_close(&self, client_version: Version, add_chunked: bool) -> bool {
        match self.body {
            ResponseBody::None | ResponseBody::Bytes(_) => false,
            ResponseBody::Chunked => client_version == Version::Http10,
            ResponseBody::UntilClose => client_version == Version::Http10 || !add_chunked,
            ResponseBody::Tunnel => true,
        }
    }

    /// Whether the response says when it was made (RFC 9110 section 6.6.1: who passes on one that does not, adds it).
    #[must_use]
    pub fn has_date(&self) -> bool {
        self.fields
            .iter()
            .any(|field| field.known == FieldName::Date)
    }

    /// The value of the first field with this name (lower-case), if any.
    #[must_use]
    pub fn field<'b>(&self, bytes: &'b [u8], name_lower: &str) -> Option<&'b [u8]> {
        fields::first(&self.fields, bytes, name_lower)
    }
}

impl Default for ResponseHead {
    fn default() -> Self {
        Self::new()
    }
}

const MALFORMED: Refusal = Refusal::bad(
    "malformed_status_line",
    "the status line is malformed; it is `HTTP/1.1 200 reason`",
);

const TOO_LONG: Refusal = Refusal::bad("head_too_long", "the response's head is too long");

/// Whether what is there can become a status line; said before the line has ended.
fn check_beginning(bytes: &[u8]) -> Result<(), Refusal> {
    const NAME: &[u8] = b"HTTP/";
    let length = NAME.len().min(bytes.len());
    if bytes[..length] != NAME[..length] {
        return Err(Refusal::bad(
            "not_http",
            "the response does not begin with `HTTP/`",
        ));
    }
    match bytes.get(NAME.len()) {
        None | Some(b'1') => Ok(()),
        Some(_) => Err(Refusal::bad(
            "unsupported_version",
            "the response has another version of HTTP than 1.x",
        )),
    }
}

#[cfg(test)]
mod tests;
