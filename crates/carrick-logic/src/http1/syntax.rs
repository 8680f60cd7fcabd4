//! Character classes of RFC 9110 section 5.6 and RFC 9112.

/// `token` bytes of RFC 9110 section 5.6.2.
const TOKEN_BYTES: [bool; 256] = table(b"!#$%&'*+-.^_`|~");

/// Bytes of a host name. Narrower than `reg-name` of RFC 3986: escapes, commas and other delimiters are in no host name
/// that resolves, and parsers disagree on them.
const HOST_NAME_BYTES: [bool; 256] = table(b"-._");

/// Bytes of field names that gateways do not change: CGI has letters, digits and `_` in place of `-`, and some gateways put
/// `_` in place of every other byte, too (RFC 3875 section 4.1.18).
const PLAIN_NAME_BYTES: [bool; 256] = table(b"-");

/// Letters, digits, and `extra`.
const fn table(extra: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < extra.len() {
        table[extra[index] as usize] = true;
        index += 1;
    }
    table
}

#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    TOKEN_BYTES[byte as usize]
}

/// Whether `text` is a token: at least one byte, all of them token bytes.
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| is_token_byte(byte))
}

/// Whether a field's name has letters, digits and hyphens only.
#[must_use]
pub fn is_plain_name(name: &[u8]) -> bool {
    name.iter()
        .fold(true, |plain, &byte| plain & PLAIN_NAME_BYTES[byte as usize])
}

/// Whether a gateway may take a field with the name `written` for one with the name `meant` (lower-case): `X_Real.IP` for
/// `x-real-ip`.
pub(crate) fn may_pass_for(written: &[u8], meant: &[u8]) -> bool {
    written.len() == meant.len()
        && written
            .iter()
            .zip(meant)
            .all(|(&byte, &other)| folded(byte) == other)
}

/// The same for the beginning of the name.
pub(crate) fn may_begin_as(written: &[u8], meant: &[u8]) -> bool {
    let begin = written.get(..meant.len());
    begin.is_some_and(|begin| may_pass_for(begin, meant))
}

/// A byte of a field's name as gateways see it: in small letters, `-` for all that is neither letter nor digit.
pub(super) fn folded(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() {
        byte.to_ascii_lowercase()
    } else {
        b'-'
    }
}

pub(super) fn is_host_name(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| HOST_NAME_BYTES[byte as usize])
}

/// Whether `text` could be a host with or without port, and is nothing else: it goes into a quoted string.
pub(super) fn is_host_and_port(text: &[u8]) -> bool {
    let is_meant = |&byte: &u8| HOST_NAME_BYTES[byte as usize] || b":[]".contains(&byte);
    !text.is_empty() && text.iter().all(is_meant)
}

/// Whether all of `text` may stand in a request target: visible ASCII. No early exit, so that it is vectorised.
pub(crate) fn is_visible_text(text: &[u8]) -> bool {
    text.iter()
        .fold(true, |good, &byte| good & (byte > b' ') & (byte < 0x7f))
}

/// Whether `byte` may stand in a field value or a reason phrase (RFC 9110 section 5.5): HTAB, SP, visible, obs-text.
#[inline]
pub(super) fn is_text_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

pub(crate) fn is_text(text: &[u8]) -> bool {
    text.iter()
        .fold(true, |good, &byte| good & is_text_byte(byte))
}

/// `text` without the SP and HTAB around it (OWS, RFC 9110 section 5.6.3).
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// The elements of a comma-separated list of tokens (RFC 9110 section 5.6.1); empty ones are left out.
pub(crate) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',')
        .map(trim)
        .filter(|element| !element.is_empty())
}

/// A decimal number of at most 18 digits, which always fits; only digits.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0_u64, |number, &byte| {
        byte.is_ascii_digit()
            .then(|| number * 10 + u64::from(byte - b'0'))
    })
}

/// Whether every quoted string in `text` (RFC 9110 section 5.6.4) ends in it.
pub(super) fn has_closed_quotes(text: &[u8]) -> bool {
    let mut in_quotes = false;
    let mut escaped = false;
    for &byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_quotes => escaped = true,
            b'"' => in_quotes = !in_quotes,
            _ => {}
        }
    }
    !in_quotes
}

#[cfg(test)]
mod tests;
