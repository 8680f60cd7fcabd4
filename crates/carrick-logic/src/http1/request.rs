//! A request's head.
use super::framing::{Expect, Framing};
use super::scan::{self, Scan};
use super::{
    Field, FieldName, Form, HeadLimits, Progress, Refusal, Span, fields, request_line, syntax,
};

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
        matches!(
            self,
            Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace
        )
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
    Absolute {
        scheme: Span,
        authority: Span,
        path_and_query: Span,
    },
    /// `host:port`, only with `CONNECT`.
    Authority { authority: Span },
    /// `*`, only with `OPTIONS`.
    Asterisk,
}

/// How a resource is got (RFC 9110 section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    /// Over TCP.
    #[default]
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// Its name in URLs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of URLs that have none.
    #[must_use]
    pub fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
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

/// What becomes of request fields whose names have other bytes than letters, digits and hyphens. Gateways to CGI, WSGI and the like
/// read `_`, and some of them other bytes, as `-`: `X_Forwarded_For` would be the field that a proxy has just replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OddNames {
    /// The request goes on without them.
    #[default]
    Drop,
    /// The request is refused.
    Refuse,
    /// They are fields as others, but those that may pass for one that tells of the client, or for framing.
    Pass,
}

/// A parsed request head; made once per connection and filled again for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// Length of the head in the buffer, its empty line included.
    pub head_bytes: usize,
    /// The scheme of what is asked for on this connection; set by the caller, and kept from request to request.
    pub scheme: Scheme,
    /// Whether it was one of HTTP/2; set by the caller, and kept likewise.
    pub is_http2: bool,
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
    /// Whether the client keeps the connection open (RFC 9112 section 9.3); `Proxy-Connection` counts for
    /// HTTP/1.0 clients only.
    pub keep_alive: bool,
    /// `Expect: 100-continue` of an HTTP/1.1 client with a body.
    pub expects_continue: bool,
    /// `Connection: upgrade` with an `Upgrade` field, HTTP/1.1 only.
    pub wants_upgrade: bool,
    /// `Connection` names fields that are for this hop only.
    pub(super) connection_names_fields: bool,
    /// What `Host` says to the next hop: the target's authority, else the value of `Host`.
    pub host_and_port: Span,
    scan: Scan,
}

impl RequestHead {
    /// Most empty lines before a request line that are skipped, in however many reads they come.
    pub const EMPTY_LINES_MAX: usize = 4;

    /// An empty head, to be filled by [`parse`](Self::parse).
    #[must_use]
    pub fn new() -> Self {
        Self {
            head_bytes: 0,
            scheme: Scheme::Http,
            is_http2: false,
            method: Method::Other,
            method_text: Span::default(),
            target: Target::Asterisk,
            path: Span::default(),
            query: None,
            version: Version::Http11,
            host: Span::default(),
            port: None,
            fields: Vec::new(),
            body: BodyLength::None,
            keep_alive: false,
            expects_continue: false,
            wants_upgrade: false,
            connection_names_fields: false,
            host_and_port: Span::default(),
            scan: Scan::default(),
        }
    }

    /// Parses the head at the start of `bytes`. Empty lines before it must have been skipped with [`leading_empty_lines`](Self::leading_empty_lines).
    ///
    /// `bytes` always begins at the head's first byte. After [`Progress::Partial`] the next call has the same bytes and more;
    /// no byte is searched twice, however small the reads. After [`Progress::Complete`] or a refusal the next call begins a
    /// new head; to give up a partial head before that, call [`restart`](Self::restart). The other members are only
    /// meaningful after [`Progress::Complete`], and their spans only with the buffer that was parsed.
    ///
    /// # Errors
    /// A [`Refusal`] as soon as what is there cannot become a head that carrick passes on; the connection is to be closed.
    pub fn parse(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<Progress, Refusal> {
        if self.scan.is_new_for(bytes) {
            self.restart();
        }
        let result = self.advance(bytes, limits);
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

    fn advance(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<Progress, Refusal> {
        let (window, full) = scan::window(bytes, limits);
        if !self.scan.has_first_line() {
            if window == b"\r" && !full {
                // Perhaps an empty line, which the caller skips when it is whole.
                return Ok(Progress::Partial);
            }
            let method_bytes = request_line::method_bytes(window)?;
            match (self.scan.first_line(window, Form::Strict)?, method_bytes) {
                (Some(line_bytes), Some(method_bytes)) => {
                    self.read_first_line(&window[..line_bytes], method_bytes)?
                }
                _ if full => {
                    return Err(Refusal::new(
                        414,
                        "request_line_too_long",
                        "the request line is too long",
                    ));
                }
                _ => return Ok(Progress::Partial),
            }
        }
        match self.scan.fields(window, limits.fields_max, Form::Strict)? {
            Some(head_bytes) => self
                .read_fields(bytes, head_bytes)
                .map(|()| Progress::Complete),
            None if full => Err(Refusal::new(
                431,
                "head_too_long",
                "the request's head is too long",
            )),
            None => Ok(Progress::Partial),
        }
    }

    fn read_first_line(&mut self, line: &[u8], method_bytes: usize) -> Result<(), Refusal> {
        self.method_text = Span::new(0, method_bytes);
        self.method = request_line::method(&line[..method_bytes])?;
        let parts = request_line::parse(line, method_bytes, self.method, self.scheme)?;
        self.target = parts.target;
        self.path = parts.path;
        self.query = parts.query;
        self.version = parts.version;
        let authority = parts.authority.unwrap_or_default();
        self.host = authority.host;
        self.port = authority.port;
        self.head_bytes = line.len() + 2;
        Ok(())
    }

    fn read_fields(&mut self, bytes: &[u8], head_bytes: usize) -> Result<(), Refusal> {
        // Until here `head_bytes` was the length of the request line.
        let block = self.head_bytes..head_bytes;
        self.head_bytes = head_bytes;
        fields::parse(bytes, block, self.scan.field_lines(), &mut self.fields)?;
        let framing = Framing::read(bytes, &self.fields, Form::Strict)?;
        self.read_host(bytes, framing.host)?;
        self.body = self.body_length(&framing)?;
        let is_http11 = self.version == Version::Http11;
        self.keep_alive = wants_keep_alive(self.version, &framing);
        self.wants_upgrade = is_http11 && framing.connection.upgrade && framing.upgrade;
        self.connection_names_fields = framing.connection.names_fields;
        // RFC 9110 section 10.1.1: expectations of HTTP/1.0 clients are ignored, and so are those of requests without a body.
        if is_http11 && framing.expect == Expect::Unknown {
            return Err(Refusal::new(
                417,
                "unknown_expectation",
                "the only expectation that is known is `100-continue`",
            ));
        }
        self.expects_continue =
            is_http11 && framing.expect == Expect::Continue && self.body != BodyLength::None;
        Ok(())
    }

    /// RFC 9112 section 3.2: one valid `Host`; section 3.2.2: the target's authority goes before it.
    fn read_host(&mut self, bytes: &[u8], value: Option<Span>) -> Result<(), Refusal> {
        let needed = self.version == Version::Http11;
        let value = value.map(|value| request_line::without_empty_port(bytes, value));
        let from_field = match value {
            None if needed => {
                return Err(Refusal::bad(
                    "no_host",
                    "the request has no Host; HTTP/1.1 requires it",
                ));
            }
            None => request_line::Authority::default(),
            Some(value) if value.is_empty() && !needed => request_line::Authority::default(),
            Some(value) => request_line::authority(bytes, value)?,
        };
        self.host_and_port = match self.target {
            Target::Absolute { authority, .. } | Target::Authority { authority } => authority,
            Target::Origin { .. } | Target::Asterisk => {
                self.host = from_field.host;
                self.port = from_field.port;
                value.unwrap_or_default()
            }
        };
        Ok(())
    }

    /// RFC 9112 section 6.3, for requests.
    fn body_length(&self, framing: &Framing) -> Result<BodyLength, Refusal> {
        let body = match (framing.chunked, framing.content_length) {
            (true, _) if self.version == Version::Http10 => {
                // RFC 9112 section 6.1: treated as faulty framing.
                return Err(Refusal::bad(
                    "chunked_http10",
                    "Transfer-Encoding is unknown to HTTP/1.0",
                ));
            }
            (true, _) => BodyLength::Chunked,
            (false, None | Some(0)) => BodyLength::None,
            (false, Some(bytes)) => BodyLength::Bytes(bytes),
        };
        // RFC 9110 sections 9.3.6 and 9.3.8: content has no meaning there, and after CONNECT it looks like the tunnel's bytes.
        if body != BodyLength::None && matches!(self.method, Method::Connect | Method::Trace) {
            return Err(Refusal::bad(
                "unexpected_body",
                "a request with this method has no body",
            ));
        }
        Ok(body)
    }

    /// How many bytes of empty lines stand before a request line (RFC 9112 section 2.2: at least one is to be ignored; at most 4 are here).
    ///
    /// Only whole empty lines count; of a lone CR nothing is known yet, and [`parse`](Self::parse) waits for more.
    #[must_use]
    pub fn leading_empty_lines(bytes: &[u8]) -> usize {
        let lines = bytes
            .chunks_exact(2)
            .take(Self::EMPTY_LINES_MAX)
            .take_while(|&line| line == b"\r\n");
        2 * lines.count()
    }

    /// Does with fields whose names are not plain as `policy` says; those that are dropped are gone for routes, the cache and
    /// the next hop alike. To be called once after [`parse`](Self::parse).
    ///
    /// # Errors
    /// There is one, and `policy` refuses it.
    pub fn apply_name_policy(&mut self, policy: OddNames) -> Result<(), Refusal> {
        let is_odd = |field: &Field| field.known == FieldName::Odd;
        match policy {
            OddNames::Pass => {}
            OddNames::Drop => self.fields.retain(|field| !is_odd(field)),
            OddNames::Refuse if self.fields.iter().any(is_odd) => {
                return Err(Refusal::bad(
                    "odd_field_name",
                    "a field's name has another byte than letters, digits and hyphens; gateways may take it for another field",
                ));
            }
            OddNames::Refuse => {}
        }
        Ok(())
    }

    /// Forgets all fields that tell of the client, also those that only a gateway takes for such: whoever sent them is not believed, and they
    /// are gone for routes, the cache and the next hop alike. To be called after [`apply_name_policy`](Self::apply_name_policy).
    pub fn forget_claims(&mut self, bytes: &[u8]) {
        self.fields.retain(|field| match field.known {
            FieldName::Forwarded
            | FieldName::XForwardedFor
            | FieldName::XForwardedHost
            | FieldName::XForwardedProto
            | FieldName::XOther => false,
            FieldName::Odd => !fields::tells_of_client(field.name.of(bytes)),
            _ => true,
        });
    }

    /// Forgets all fields with this name (lower-case), or that a gateway takes for it.
    pub fn forget_field(&mut self, bytes: &[u8], name_lower: &[u8]) {
        self.fields
            .retain(|field| !syntax::may_pass_for(field.name.of(bytes), name_lower));
    }

    /// The value of the first field with this name (lower-case), if any.
    #[must_use]
    pub fn field<'b>(&self, bytes: &'b [u8], name_lower: &str) -> Option<&'b [u8]> {
        fields::first(&self.fields, bytes, name_lower)
    }

    /// The value of the cookie with this name, from any `Cookie` field (RFC 6265 section 5.4). Quotes around it are kept.
    #[must_use]
    pub fn cookie<'b>(&self, bytes: &'b [u8], name: &str) -> Option<&'b [u8]> {
        let cookies = self
            .fields
            .iter()
            .filter(|field| field.known == FieldName::Cookie);
        let mut pairs = cookies.flat_map(|field| field.value.of(bytes).split(|&byte| byte == b';'));
        pairs.find_map(|pair| {
            let equals = memchr::memchr(b'=', pair)?;
            (syntax::trim(&pair[..equals]) == name.as_bytes())
                .then(|| syntax::trim(&pair[equals + 1..]))
        })
    }

    /// Whether its credentials authenticate the connection rather than the request, as those of NTLM and Negotiate do (RFC 4559
    /// section 6): what follows on that connection to the server is the same client's.
    #[must_use]
    pub fn authenticates_connection(&self, bytes: &[u8]) -> bool {
        let credentials = self.fields.iter().filter(|field| {
            matches!(
                field.known,
                FieldName::Authorization | FieldName::ProxyAuthorization
            )
        });
        let mut schemes = credentials.map(|field| {
            let value = field.value.of(bytes);
            value.split(|byte| matches!(byte, b' ' | b'\t')).next()
        });
        schemes.any(|scheme| {
            scheme.is_some_and(|scheme| {
                scheme.eq_ignore_ascii_case(b"NTLM") || scheme.eq_ignore_ascii_case(b"Negotiate")
            })
        })
    }

    /// The key of a WebSocket's opening handshake (RFC 6455 section 4.1), if the request is one: a GET without a body.
    #[must_use]
    pub fn websocket_key<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let protocol = self.field(bytes, "upgrade")?;
        let is_handshake = self.wants_upgrade
            && self.method == Method::Get
            && self.body == BodyLength::None
            && protocol.eq_ignore_ascii_case(b"websocket");
        self.field(bytes, "sec-websocket-key")
            .filter(|_| is_handshake)
    }

    /// `Max-Forwards` of `TRACE` or `OPTIONS` (RFC 9110 section 7.6.2): at 0 the proxy answers itself; else
    /// [`write_request`](super::write_request) writes one less. Other methods, and what is no number, have none.
    #[must_use]
    pub fn max_forwards(&self, bytes: &[u8]) -> Option<u64> {
        if !matches!(self.method, Method::Trace | Method::Options) {
            return None;
        }
        let field = self
            .fields
            .iter()
            .find(|field| field.known == FieldName::MaxForwards)?;
        syntax::decimal(field.value.of(bytes))
    }
}

impl Default for RequestHead {
    fn default() -> Self {
        Self::new()
    }
}

/// RFC 9112 section 9.3. `close` wins over everything.
fn wants_keep_alive(version: Version, framing: &Framing) -> bool {
    let (connection, proxy_connection) = (framing.connection, framing.proxy_connection);
    match version {
        Version::Http11 => !connection.close,
        Version::Http10 => {
            !connection.close
                && !proxy_connection.close
                && (connection.keep_alive || proxy_connection.keep_alive)
        }
    }
}

#[cfg(test)]
mod tests;
