//! A response's head.
use super::{Field, HeadLimits, Method, Progress, Refusal, Span, Version};

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
#[derive(Debug, Clone)]
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
}

impl ResponseHead {
    /// An empty head, to be filled by [`parse`](Self::parse).
    #[must_use]
    pub fn new() -> Self {
        todo!()
    }

    /// Parses the head at the start of `bytes`, the answer to a request with `method`.
    ///
    /// # Errors
    /// A [`Refusal`] when the head must not be passed on: the client gets 502 (`status` says so), the upstream's connection is closed.
    pub fn parse(&mut self, bytes: &[u8], method: Method, limits: &HeadLimits) -> Result<Progress, Refusal> {
        let _ = (bytes, method, limits);
        todo!()
    }

    /// 1xx other than 101: another head follows (RFC 9110 section 15.2).
    #[must_use]
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// The value of the first field with this name (lower-case), if any.
    #[must_use]
    pub fn field<'b>(&self, bytes: &'b [u8], name_lower: &str) -> Option<&'b [u8]> {
        let _ = (bytes, name_lower);
        todo!()
    }
}
