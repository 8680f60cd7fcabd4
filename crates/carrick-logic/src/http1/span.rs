//! Places in a head buffer, so that a parsed head borrows nothing.

/// A range of bytes in the buffer that the head was parsed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// The span from `start` to `end`; head buffers are far smaller than 4 GB.
    #[inline]
    pub(super) fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && u32::try_from(end).is_ok());
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// The bytes of this span in `buffer`; empty when the span does not fit (never the case for the buffer it was made from).
    #[inline]
    #[must_use]
    pub fn of<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        buffer
            .get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }

    /// Whether the span has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }
}

/// One field line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The name as it was written.
    pub name: Span,
    /// The value without the white space around it.
    pub value: Span,
    /// Which of the names that carrick acts on this is.
    pub known: FieldName,
}

/// The field names that carrick acts on; everything else is `Other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is the field of that name in RFC 9110, 9112, 7239 or RFC 6265"
)]
pub enum FieldName {
    Authorization,
    CdnLoop,
    Connection,
    ContentLength,
    Cookie,
    Date,
    Expect,
    Forwarded,
    Host,
    KeepAlive,
    MaxForwards,
    /// Has a byte that is neither letter, digit nor hyphen.
    Odd,
    /// CGI makes the variable `HTTP_PROXY` of it, which programs take for their own configuration (CVE-2016-5385).
    Proxy,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyConnection,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    Via,
    XForwardedFor,
    XForwardedHost,
    XForwardedProto,
    /// Another field that describes the client, such as `X-Real-IP`.
    XOther,
    Other,
}
