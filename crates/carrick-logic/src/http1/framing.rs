//! What the fields say of the message itself: body length (RFC 9112 section 6), connection (section 9), host, expectations.
use super::{Field, FieldName, Form, Refusal, Span, syntax};

/// The fields that decide where a message ends and what becomes of its connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Framing {
    pub(super) content_length: Option<u64>,
    /// `Content-Length` was given more than once, always with the same number ([`Form::Lenient`]).
    pub(super) repeats_length: bool,
    /// `Transfer-Encoding: chunked`, and nothing else.
    pub(super) chunked: bool,
    /// `Content-Length` was there as well, which then counts for nothing ([`Form::Lenient`]).
    pub(super) has_both_lengths: bool,
    pub(super) connection: ConnectionOptions,
    /// The same of `Proxy-Connection`, which never was a standard; only HTTP/1.0 clients are listened to.
    pub(super) proxy_connection: ConnectionOptions,
    /// The value of `Host`.
    pub(super) host: Option<Span>,
    pub(super) expect: Expect,
    /// A protocol to upgrade to that a proxy can pass on blindly.
    pub(super) upgrade: bool,
}

/// What `Connection` says (RFC 9110 section 7.6.1).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConnectionOptions {
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) upgrade: bool,
    /// Names of other fields, which are for this hop only.
    pub(super) names_fields: bool,
    /// How many elements there are, empty ones included.
    elements: usize,
    /// How long the values are together.
    value_bytes: usize,
}

/// Most elements of `Connection`. Each field of a head is compared with all of them.
const CONNECTION_ELEMENTS_MAX: usize = 64;

/// Most bytes of all values of `Connection`, which are searched for each field of a head.
const CONNECTION_BYTES_MAX: usize = 4096;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Expect {
    #[default]
    Nothing,
    Continue,
    Unknown,
}

impl Framing {
    /// Collects the facts from all field lines, and refuses what could be read in two ways.
    pub(super) fn read(bytes: &[u8], fields: &[Field], form: Form) -> Result<Self, Refusal> {
        let mut framing = Self::default();
        let mut upgrade_is_safe = true;
        for field in fields {
            let value = || field.value.of(bytes);
            match field.known {
                FieldName::ContentLength => framing.add_content_lengths(value(), form)?,
                FieldName::TransferEncoding => framing.add_transfer_encoding(value())?,
                FieldName::Connection => framing.connection.add(value())?,
                FieldName::ProxyConnection => framing.proxy_connection.add(value())?,
                FieldName::Host => framing.add_host(field.value)?,
                FieldName::Expect => framing.expect = expectation(framing.expect, value()),
                FieldName::Upgrade => {
                    framing.upgrade |= !value().is_empty();
                    upgrade_is_safe &= syntax::elements(value()).all(is_safe_upgrade);
                }
                FieldName::Odd => refuse_lookalike(field.name.of(bytes))?,
                _ => {}
            }
        }
        framing.upgrade &= upgrade_is_safe;
        framing.has_both_lengths = framing.chunked && framing.content_length.is_some();
        if framing.has_both_lengths && form == Form::Strict {
            // RFC 9112 section 6.3 lets Transfer-Encoding win, and says that it ought to be handled as an error: it is the classic
            // smuggling attempt.
            return Err(Refusal::bad(
                "both_lengths",
                "Content-Length and Transfer-Encoding exclude each other",
            ));
        }
        Ok(framing)
    }

    /// RFC 9110 section 8.6 allows `5, 5` to be taken for 5, and so for repeated fields. Whoever does not write the length anew refuses
    /// it: a next hop may see it otherwise.
    fn add_content_lengths(&mut self, value: &[u8], form: Form) -> Result<(), Refusal> {
        match form {
            Form::Strict => self.add_content_length(value, form),
            Form::Lenient => value
                .split(|&byte| byte == b',')
                .try_for_each(|length| self.add_content_length(syntax::trim(length), form)),
        }
    }

    fn add_content_length(&mut self, value: &[u8], form: Form) -> Result<(), Refusal> {
        // A next hop may take `010` for 8.
        let is_padded = matches!(value, [b'0', _, ..]);
        let length = || {
            syntax::decimal(value)
                .filter(|_| !is_padded)
                .ok_or(BAD_LENGTH)
        };
        let Some(before) = self.content_length else {
            self.content_length = Some(length()?);
            return Ok(());
        };
        match form {
            Form::Strict => Err(Refusal::bad(
                "repeated_content_length",
                "Content-Length is given more than once",
            )),
            Form::Lenient if length()? == before => {
                self.repeats_length = true;
                Ok(())
            }
            Form::Lenient => Err(Refusal::bad(
                "repeated_content_length",
                "Content-Length is given more than once, with different numbers",
            )),
        }
    }

    fn add_transfer_encoding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.chunked {
            return Err(Refusal::bad(
                "repeated_transfer_encoding",
                "Transfer-Encoding is given more than once",
            ));
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(mistake_in_transfer_encoding(value));
        }
        self.chunked = true;
        Ok(())
    }

    fn add_host(&mut self, value: Span) -> Result<(), Refusal> {
        if self.host.is_some() {
            return Err(Refusal::bad(
                "repeated_host",
                "Host is given more than once",
            ));
        }
        self.host = Some(value);
        Ok(())
    }
}

const BAD_LENGTH: Refusal = Refusal::bad(
    "bad_content_length",
    "Content-Length is not one decimal number of at most 18 digits",
);

/// Which rule a value other than `chunked` breaks (RFC 9112 section 6.1).
#[cold]
fn mistake_in_transfer_encoding(value: &[u8]) -> Refusal {
    let mut codings = value.split(|&byte| byte == b',').map(syntax::trim);
    if !codings.clone().all(syntax::is_token) {
        return Refusal::bad(
            "bad_transfer_encoding",
            "Transfer-Encoding is malformed; `chunked` is the one that is known",
        );
    }
    if codings.any(|coding| coding.eq_ignore_ascii_case(b"chunked"))
        && !is_chunked_last_and_once(value)
    {
        return Refusal::bad(
            "chunked_not_last",
            "`chunked` is not the last transfer coding, or is there twice",
        );
    }
    Refusal::new(
        501,
        "unknown_transfer_coding",
        "a transfer coding other than `chunked` is not known here",
    )
}

fn is_chunked_last_and_once(value: &[u8]) -> bool {
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let count = syntax::elements(value)
        .filter(|coding| is_chunked(coding))
        .count();
    count == 1 && syntax::elements(value).last().is_some_and(is_chunked)
}

/// Gateways to CGI and WSGI read `_`, and some of them other bytes, as `-`, and would see framing that no
/// proxy before them saw.
fn refuse_lookalike(name: &[u8]) -> Result<(), Refusal> {
    let framing: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];
    if framing
        .iter()
        .any(|meant| syntax::may_pass_for(name, meant))
    {
        return Err(Refusal::bad(
            "lookalike_field",
            "a framing field is written with `_`, or another byte, in place of `-`",
        ));
    }
    Ok(())
}

fn expectation(before: Expect, value: &[u8]) -> Expect {
    match before {
        Expect::Nothing | Expect::Continue if value.eq_ignore_ascii_case(b"100-continue") => {
            Expect::Continue
        }
        _ => Expect::Unknown,
    }
}

/// An upgrade to another version of HTTP would carry requests that are not judged; TLS inside (RFC 2817) likewise. Servers that strip
/// more than carrick does may read what is no name (RFC 9110 section 7.8) as one of these.
fn is_safe_upgrade(protocol: &[u8]) -> bool {
    let mut parts = protocol.splitn(2, |&byte| byte == b'/');
    let name = parts.next().unwrap_or_default();
    syntax::is_token(name)
        && parts.next().is_none_or(syntax::is_token)
        && ![&b"h2c"[..], b"h2", b"http", b"tls"]
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other))
}

impl ConnectionOptions {
    fn add(&mut self, value: &[u8]) -> Result<(), Refusal> {
        self.value_bytes = self.value_bytes.saturating_add(value.len());
        let commas = memchr::memchr_iter(b',', value).take(CONNECTION_ELEMENTS_MAX);
        self.elements = self.elements.saturating_add(commas.count() + 1);
        if self.elements > CONNECTION_ELEMENTS_MAX || self.value_bytes > CONNECTION_BYTES_MAX {
            return Err(Refusal::bad(
                "long_connection",
                "Connection names more than 64 fields, or is longer than 4 KB",
            ));
        }
        for option in syntax::elements(value) {
            if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else if syntax::is_token(option) {
                self.names_fields = true;
            } else {
                return Err(Refusal::bad(
                    "bad_connection",
                    "Connection is not a list of names",
                ));
            }
        }
        Ok(())
    }
}
