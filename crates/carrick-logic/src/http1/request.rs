//! A request's head.
use super::{Field, HeadLimits, Progress, Refusal, Span};

/// Methods that carrick treats differently (RFC 9110 section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the method of that name in RFC 9110")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    Other,
}

impl Method {
    /// RFC 9110 section 9.2.2: the effect of several such requests is that of one, so it may be sent again.
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace)
    }
}

/// HTTP versions that are spoken (RFC 9112 section 2.3). `HTTP/1.x` with x > 1 counts as 1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Version {
    Http10,
    Http11,
}

/// The request target (RFC 9112 section 3.2). Spans are into the head's buffer; `path_and_query` is what an origin gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the RFC's")]
pub enum Target {
    /// `/where?q=now`
    Origin { path_and_query: Span },
    /// `http://host:port/where?q=now`; an empty `path_and_query` stands for `/`.
    Absolute { scheme: Span, authority: Span, path_and_query: Span },
    /// `host:port`, only with `CONNECT`.
    Authority { authority: Span },
    /// `*`, only with `OPTIONS`.
    Asterisk,
}

/// How long a request's body is (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// No body.
    None,
    /// This many bytes, at least one.
    Bytes(u64),
    /// Chunked transfer coding, alone.
    Chunked,
}

/// A parsed request head; made once per connection and filled again for each request.
#[derive(Debug, Clone)]
pub struct RequestHead {
    /// Length of the head in the buffer, its empty line included.
    pub head_bytes: usize,
    /// The method, if it is one that matters here.
    pub method: Method,
    /// The method as it was written.
    pub method_text: Span,
    /// The target's form and parts.
    pub target: Target,
    /// Path without the query; `/` forms only, else empty.
    pub path: Span,
    /// Query without `?`, if there is a `?`.
    pub query: Option<Span>,
    /// The version of the request line.
    pub version: Version,
    /// Host name or address that the request is for, from the target, else from `Host`; without port; IPv6 addresses without brackets. Empty if there is none (HTTP/1.0).
    pub host: Span,
    /// The port that was written, if any.
    pub port: Option<u16>,
    /// All field lines in order.
    pub fields: Vec<Field>,
    /// How long the body is.
    pub body: BodyLength,
    /// Whether the client wants the connection kept (RFC 9112 section 9.3); `Proxy-Connection` counts for HTTP/1.0 clients only.
    pub keep_alive: bool,
    /// `Expect: 100-continue` of an HTTP/1.1 client with a body.
    pub expects_continue: bool,
    /// `Connection: upgrade` with an `Upgrade` field, HTTP/1.1 only.
    pub wants_upgrade: bool,
}

impl RequestHead {
    /// An empty head, to be filled by [`parse`](Self::parse).
    #[must_use]
    pub fn new() -> Self {
        todo!()
    }

    /// Parses the head at the start of `bytes`. Empty lines before it must have been skipped with [`leading_empty_lines`](Self::leading_empty_lines).
    ///
    /// # Errors
    /// A [`Refusal`] as soon as what is there cannot become a head that carrick passes on; the connection is to be closed.
    pub fn parse(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<Progress, Refusal> {
        let _ = (bytes, limits);
        todo!()
    }

    /// How many bytes of empty lines stand before a request line (RFC 9112 section 2.2: at least one is to be ignored; at most 4 are here).
    #[must_use]
    pub fn leading_empty_lines(bytes: &[u8]) -> usize {
        let _ = bytes;
        todo!()
    }

    /// The value of the first field with this name (lower-case), if any.
    #[must_use]
    pub fn field<'b>(&self, bytes: &'b [u8], name_lower: &str) -> Option<&'b [u8]> {
        let _ = (bytes, name_lower);
        todo!()
    }

    /// The value of the cookie with this name, from any `Cookie` field (RFC 6265 section 5.4).
    #[must_use]
    pub fn cookie<'b>(&self, bytes: &'b [u8], name: &str) -> Option<&'b [u8]> {
        let _ = (bytes, name);
        todo!()
    }
}
