//! The server name in a TLS ClientHello (RFC 8446 section 4.1.2, RFC 6066 section 3), read and never changed.

/// What the first bytes of a connection say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// A whole ClientHello; its server name in lower case, if it has one.
    Complete(Option<Vec<u8>>),
    /// A ClientHello so far; more bytes are needed.
    Partial,
    /// Not TLS, or not a ClientHello that can be read: route without a name.
    NotTls,
}

/// Most bytes of a ClientHello that are waited for (several records are joined).
pub const CLIENT_HELLO_BYTES_MAX: usize = 16 * 1024;

/// Looks at the first bytes of a connection.
#[must_use]
pub fn read(bytes: &[u8]) -> Hello {
    let _ = bytes;
    todo!()
}
