//! One request and its response, as planned: the bytes of both heads, and what has to come.

use std::fmt::Write as _;
use std::time::Duration;

use crate::content::Body;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The whole object.
    Get,
    /// Its head.
    Head,
    /// The object from `from` on: 206.
    Range {
        /// The first byte.
        from: u64,
    },
    /// With a condition that makes it 304.
    NotModified {
        /// Whether the head tells the length that the body would have (RFC 9110, section 8.6).
        tells_length: bool,
    },
    /// An answer without body: 204.
    NoContent,
    /// A request with a body of so many bytes.
    Post {
        /// Its length.
        upload_bytes: u64,
    },
}

/// How a body's end is told (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length`.
    Length,
    /// Chunks; with or without a trailer field.
    Chunked {
        /// Whether there is one.
        has_trailer: bool,
    },
    /// The connection's end.
    UntilClose,
}

/// The client or the origin ends the connection in the middle of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// After so many bytes of the body.
    pub at: u64,
    /// By RST instead of FIN (if bytes are left unread, a close is a reset, too).
    pub is_reset: bool,
}

/// The client or the origin pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// After so many bytes of the body.
    pub at: u64,
    /// For so long.
    pub time: Duration,
}

/// The plan of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The conversation, and the exchange in it, from 0.
    pub name: (usize, usize),
    /// Decides the object's bytes.
    pub seed: u64,
    /// What is asked for.
    pub kind: Kind,
    /// The object's length in bytes.
    pub object_bytes: u64,
    /// How the response's end is told.
    pub framing: Framing,
    /// Whether the request is sent together with the one before.
    pub is_pipelined: bool,
    /// Whether the request's head is sent in two pieces.
    pub is_split: bool,
    /// Whether the request says `Connection: close`.
    pub client_closes: bool,
    /// Whether the response says `Connection: close`, and the origin does so.
    pub origin_closes: bool,
    /// Whether the origin closes behind the response without having said so.
    pub closes_silently: bool,
    /// Whether a 103 comes first.
    pub has_interim: bool,
    /// Bytes of a field that makes the response's head long.
    pub padding_bytes: usize,
    /// Most bytes that the origin gives to its kernel at once.
    pub origin_piece_bytes: usize,
    /// The origin rests.
    pub origin_rest: Option<Rest>,
    /// The origin cuts the response.
    pub origin_cut: Option<Cut>,
    /// The client does not read for a while.
    pub client_rest: Option<Rest>,
    /// The client gives up in the response's body.
    pub client_cut: Option<Cut>,
    /// Between the end of this exchange and the next request.
    pub pause: Duration,
}

impl Exchange {
    /// A plain `GET`.
    #[must_use]
    pub fn plain(name: (usize, usize), seed: u64, object_bytes: u64) -> Self {
        Self {
            name,
            seed,
            kind: Kind::Get,
            object_bytes,
            framing: Framing::Length,
            is_pipelined: false,
            is_split: false,
            client_closes: false,
            origin_closes: false,
            closes_silently: false,
            has_interim: false,
            padding_bytes: 0,
            origin_piece_bytes: 64 * 1024,
            origin_rest: None,
            origin_cut: None,
            client_rest: None,
            client_cut: None,
            pause: Duration::ZERO,
        }
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self.kind {
            Kind::Head => "HEAD",
            Kind::Post { .. } => "POST",
            _ => "GET",
        }
    }

    /// The path, from which the origin knows the exchange.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/torture/{}/{}", self.name.0, self.name.1)
    }

    /// The exchange of a path.
    #[must_use]
    pub fn name_of(path: &str) -> Option<(usize, usize)> {
        let (conversation, exchange) = path.strip_prefix("/torture/")?.split_once('/')?;
        Some((conversation.parse().ok()?, exchange.parse().ok()?))
    }

    /// What the head of the response calls the exchange.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}.{}", self.name.0, self.name.1)
    }

    /// The request's head.
    #[must_use]
    pub fn request_head(&self) -> String {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: origin.test\r\nUser-Agent: torture\r\n",
            self.method(),
            self.path()
        );
        // Writing to memory cannot fail.
        let _ = match self.kind {
            Kind::Range { from } => write!(head, "Range: bytes={from}-\r\n"),
            Kind::NotModified { .. } => write!(head, "If-None-Match: {}\r\n", self.etag()),
            Kind::Post { upload_bytes } => write!(head, "Content-Length: {upload_bytes}\r\n"),
            _ => Ok(()),
        };
        if self.client_closes {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        head
    }

    /// The body of the request.
    #[must_use]
    pub fn upload(&self) -> (Body, u64) {
        let bytes = match self.kind {
            Kind::Post { upload_bytes } => upload_bytes,
            _ => 0,
        };
        (Body::of_seed(!self.seed), bytes)
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.kind {
            Kind::Range { .. } => 206,
            Kind::NotModified { .. } => 304,
            Kind::NoContent => 204,
            _ => 200,
        }
    }

    /// The object's name in its head.
    #[must_use]
    pub fn etag(&self) -> String {
        format!("\"{:016x}\"", self.seed)
    }

    /// The response's body: the object, where in it the body begins, and the body's length.
    #[must_use]
    pub fn body(&self) -> (Body, u64, u64) {
        let (from, bytes) = match self.kind {
            Kind::Range { from } => (from, self.object_bytes - from),
            Kind::Head | Kind::NotModified { .. } | Kind::NoContent => (0, 0),
            Kind::Get | Kind::Post { .. } => (0, self.object_bytes),
        };
        (Body::of_seed(self.seed), from, bytes)
    }

    /// `Content-Length`, if the response has one.
    #[must_use]
    pub fn announced_bytes(&self) -> Option<u64> {
        match self.kind {
            Kind::NoContent
            | Kind::NotModified {
                tells_length: false,
            } => None,
            Kind::NotModified { .. } | Kind::Head => Some(self.object_bytes),
            _ => (self.framing == Framing::Length).then(|| self.body().2),
        }
    }

    /// Whether the response may have a body.
    #[must_use]
    pub fn has_body(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Head | Kind::NotModified { .. } | Kind::NoContent
        )
    }

    /// `Content-Range`, if the response has one.
    #[must_use]
    pub fn content_range(&self) -> Option<String> {
        match self.kind {
            Kind::Range { from } => Some(format!(
                "bytes {from}-{}/{}",
                self.object_bytes - 1,
                self.object_bytes
            )),
            _ => None,
        }
    }

    /// Whether the connection ends with the response.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.client_closes
            || self.origin_closes
            || (self.has_body() && self.framing == Framing::UntilClose)
            || self.origin_cut.is_some()
            || self.client_cut.is_some()
    }

    /// Whether the origin's connection ends with the response.
    #[must_use]
    pub fn origin_ends(&self) -> bool {
        self.origin_closes
            || self.closes_silently
            || (self.has_body() && self.framing == Framing::UntilClose)
    }

    /// The response's head, after a 103 if there is to be one.
    #[must_use]
    pub fn response_head(&self) -> String {
        let mut head = String::new();
        if self.has_interim {
            head.push_str("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n");
        }
        let status = self.status();
        let reason = match status {
            204 => "No Content",
            206 => "Partial Content",
            304 => "Not Modified",
            _ => "OK",
        };
        let _ = write!(
            head,
            "HTTP/1.1 {status} {reason}\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Exchange: {}\r\nETag: {}\r\n",
            self.label(),
            self.etag()
        );
        if let Some(bytes) = self.announced_bytes() {
            let _ = write!(head, "Content-Length: {bytes}\r\n");
        }
        if let Some(range) = self.content_range() {
            let _ = write!(head, "Content-Range: {range}\r\n");
        }
        if self.has_body() && matches!(self.framing, Framing::Chunked { .. }) {
            head.push_str("Transfer-Encoding: chunked\r\n");
        }
        if self.origin_closes {
            head.push_str("Connection: close\r\n");
        }
        if self.padding_bytes > 0 {
            let _ = write!(head, "X-Padding: {}\r\n", "p".repeat(self.padding_bytes));
        }
        head.push_str("\r\n");
        head
    }
}
