//! Basic credentials (RFC 7617) as clients send them; checking them against a password file is the caller's.

/// A user's name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name, UTF-8.
    pub user: String,
    /// The password.
    pub password: String,
}

/// Reads the value of an `Authorization` or `Proxy-Authorization` field; `None` if it is not the Basic scheme or malformed.
#[must_use]
pub fn read_basic(value: &[u8]) -> Option<Credentials> {
    let _ = value;
    todo!()
}
