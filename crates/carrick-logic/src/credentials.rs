//! Basic credentials (RFC 7617) as clients send them; checking them against a password file is the caller's.

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// A user's name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name, UTF-8.
    pub user: String,
    /// The password.
    pub password: String,
}

/// The password is left out: it must not reach a log.
impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Reads the value of an `Authorization` or `Proxy-Authorization` field; `None` if it is not the Basic scheme or malformed.
///
/// The user's name ends at the first colon, so it has none; the password may have some (RFC 7617 section 2). Either may be
/// empty. Control characters and what is not UTF-8 are refused.
#[must_use]
pub fn read_basic(value: &[u8]) -> Option<Credentials> {
    let (scheme, rest) = value.split_at_checked(b"Basic".len())?;
    let token = rest.trim_ascii_start();
    let is_basic = scheme.eq_ignore_ascii_case(b"Basic");
    let spaces = &rest[..rest.len() - token.len()];
    if !is_basic || spaces.is_empty() || spaces.iter().any(|&byte| byte != b' ') {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(token).ok()?).ok()?;
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    let (user, password) = text.split_once(':')?;
    Some(Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}
