//! The server name in a TLS ClientHello (RFC 8446 section 4.1.2, RFC 6066 section 3), read and never changed.
//!
//! What two readers could understand differently (two names, lengths that do not add up) is not read at all. With
//! Encrypted Client Hello the name is the outer one, which is the one meant for routing.
//!
//! Parsers from the registry want the whole message in one record or in one piece; finding it is most of the work here.

#[cfg(test)]
mod tests;

use crate::access::{Literal, parse_ip_literal};
use crate::cursor::Cursor;
use std::borrow::Cow;

/// What the first bytes of a connection say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// A whole ClientHello; its server name in lower case, without a final dot, if it has one that is a host name.
    /// One that is longer than is waited for counts as one without a name.
    Complete(Option<Vec<u8>>),
    /// A ClientHello so far; more bytes are needed.
    Partial,
    /// Not TLS, or not a ClientHello that can be read: route without a name.
    NotTls,
}

/// Most bytes of a ClientHello that are waited for (several records are joined).
pub const CLIENT_HELLO_BYTES_MAX: usize = 16 * 1024;

/// Type, version and length in front of each record (RFC 8446 section 5.1).
const RECORD_HEADER_BYTES: usize = 5;

/// Most bytes in a plaintext record (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 1 << 14;

/// Type and length in front of each handshake message (RFC 8446 section 4).
const HANDSHAKE_HEADER_BYTES: usize = 4;

const RECORD_HANDSHAKE: u8 = 22;
const HANDSHAKE_CLIENT_HELLO: u8 = 1;
const EXTENSION_SERVER_NAME: u16 = 0;
const NAME_HOST: u8 = 0;

/// Looks at the first bytes of a connection. More bytes never change an answer other than [`Hello::Partial`].
#[must_use]
pub fn read(bytes: &[u8]) -> Hello {
    let looked_at = &bytes[..bytes.len().min(CLIENT_HELLO_BYTES_MAX)];
    match join_records(looked_at) {
        Ok(Some(hello)) => server_name(&hello).map_or(Hello::NotTls, Hello::Complete),
        Ok(None) if looked_at.len() == CLIENT_HELLO_BYTES_MAX => Hello::Complete(None),
        Ok(None) => Hello::Partial,
        Err(Unread::TooLong) => Hello::Complete(None),
        Err(Unread::NotTls) => Hello::NotTls,
    }
}

/// Why a ClientHello is not read.
enum Unread {
    /// It is none.
    NotTls,
    /// It is longer than is waited for.
    TooLong,
}

/// The first handshake message without its header, from as many records as it takes; `None`: more bytes are needed.
fn join_records(bytes: &[u8]) -> Result<Option<Cow<'_, [u8]>>, Unread> {
    let mut message: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    let mut rest = bytes;
    loop {
        check_record_header(rest)?;
        let Some((header, after)) = rest.split_at_checked(RECORD_HEADER_BYTES) else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let fragment = &after[..length.min(after.len())];
        if message.is_empty() {
            message = Cow::Borrowed(fragment);
        } else {
            message.to_mut().extend_from_slice(fragment);
        }
        if let Some(end) = message_end(&message)? {
            return Ok(Some(match message {
                Cow::Borrowed(whole) => Cow::Borrowed(&whole[HANDSHAKE_HEADER_BYTES..end]),
                Cow::Owned(whole) => Cow::Owned(whole[HANDSHAKE_HEADER_BYTES..end].to_vec()),
            }));
        }
        rest = &after[fragment.len()..];
        if fragment.len() < length {
            return Ok(None);
        }
    }
}

/// Checks what is there of a record's header: a handshake record of some SSL 3 or TLS version (the minor number is to
/// be ignored) with something in it. The first byte of an SSL 2 hello is none of this.
fn check_record_header(bytes: &[u8]) -> Result<(), Unread> {
    let is_right = match *bytes {
        [] => true,
        [kind] => kind == RECORD_HANDSHAKE,
        [kind, major] | [kind, major, _] | [kind, major, _, _] => {
            kind == RECORD_HANDSHAKE && major == 3
        }
        [kind, major, _, high, low, ..] => {
            let length = usize::from(u16::from_be_bytes([high, low]));
            kind == RECORD_HANDSHAKE && major == 3 && (1..=RECORD_BYTES_MAX).contains(&length)
        }
    };
    if is_right {
        Ok(())
    } else {
        Err(Unread::NotTls)
    }
}

/// Where the first handshake message ends, if it does; it must be a ClientHello that is not longer than is waited for.
fn message_end(message: &[u8]) -> Result<Option<usize>, Unread> {
    if message
        .first()
        .is_some_and(|&kind| kind != HANDSHAKE_CLIENT_HELLO)
    {
        return Err(Unread::NotTls);
    }
    let Some(&[_, high, middle, low]) = message.first_chunk::<HANDSHAKE_HEADER_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([0, high, middle, low]) as usize;
    let end = HANDSHAKE_HEADER_BYTES + length;
    if RECORD_HEADER_BYTES + end > CLIENT_HELLO_BYTES_MAX {
        return Err(Unread::TooLong);
    }
    Ok((message.len() >= end).then_some(end))
}

/// The server name of a ClientHello; `None` if it is malformed.
#[expect(
    clippy::option_option,
    reason = "malformed, without a name, with a name"
)]
fn server_name(hello: &[u8]) -> Option<Option<Vec<u8>>> {
    let mut hello = Cursor::new(hello);
    let [major, _minor] = hello.take_array()?;
    let _random: [u8; 32] = hello.take_array()?;
    let session = hello.take_short_block()?;
    let cipher_suites = hello.take_block()?;
    let compression = hello.take_short_block()?;
    if major != 3
        || session.len() > 32
        || cipher_suites.is_empty()
        || cipher_suites.len() % 2 != 0
        || compression.is_empty()
    {
        return None;
    }
    if hello.is_empty() {
        // TLS 1.2 and older: extensions may be missing.
        return Some(None);
    }
    let mut extensions = Cursor::new(hello.take_block()?);
    if !hello.is_empty() {
        return None;
    }
    let mut name = None;
    while !extensions.is_empty() {
        let kind = extensions.take_u16()?;
        let content = extensions.take_block()?;
        if kind == EXTENSION_SERVER_NAME {
            let host = host_name(content)?;
            if name.replace(host).is_some() {
                return None;
            }
        }
    }
    Some(name.and_then(routable))
}

/// The host name in a `ServerNameList` (RFC 6066 section 3); `None` if the list is malformed or has not just one.
fn host_name(extension: &[u8]) -> Option<&[u8]> {
    let mut extension = Cursor::new(extension);
    let mut list = Cursor::new(extension.take_block()?);
    if !extension.is_empty() {
        return None;
    }
    let mut host = None;
    while !list.is_empty() {
        let kind = list.take_u8()?;
        let name = list.take_block()?;
        if kind == NAME_HOST && (name.is_empty() || host.replace(name).is_some()) {
            return None;
        }
    }
    host
}

/// The name as it is compared with routes; addresses are not allowed there (RFC 6066 section 3) and count as no name.
fn routable(name: &[u8]) -> Option<Vec<u8>> {
    if parse_ip_literal(name) != Literal::Name {
        return None;
    }
    Some(name.strip_suffix(b".").unwrap_or(name).to_ascii_lowercase())
}
