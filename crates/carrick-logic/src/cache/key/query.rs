//! The part of a key that the query makes.
use super::{KeyQuery, put};

/// Appends what `rule` takes of `query`, which begins with `?` or is empty. Without a rule it is what was sent; with one
/// it begins with a tab, so that no rule makes what another makes.
pub(super) fn write(out: &mut Vec<u8>, query: &[u8], rule: &KeyQuery) {
    let names = match rule {
        KeyQuery::All => return out.extend_from_slice(query),
        KeyQuery::None => return out.extend_from_slice(b"\t-"),
        KeyQuery::These(names) => names,
    };
    let parameters = query.strip_prefix(b"?").unwrap_or(query);
    if is_ambiguous(parameters, names) {
        return out.extend_from_slice(query);
    }
    for name in names {
        out.push(b'\t');
        put(out, name);
        for (other, value) in pairs(parameters) {
            if other == name.as_slice() {
                match value {
                    Some(value) => {
                        out.push(b'=');
                        put(out, value);
                    }
                    None => out.push(b'!'),
                }
            }
        }
    }
}

/// Whether a server could find one of `names` where it is not found here: behind a `;`, which some take for `&`; in a name
/// that is escaped, in other letters, or with brackets or dots, which some read as the plain name.
fn is_ambiguous(parameters: &[u8], names: &[Vec<u8>]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_like = |one: &[u8], other: &[u8]| {
        let fold = |byte: &u8| match byte.to_ascii_lowercase() {
            b'.' => b'_',
            byte => byte,
        };
        one.iter().map(fold).eq(other.iter().map(fold))
    };
    memchr::memchr(b';', parameters).is_some()
        || pairs(parameters).any(|(name, _)| {
            !names.iter().any(|chosen| chosen == name)
                && (!name.iter().all(is_plain) || names.iter().any(|chosen| is_like(chosen, name)))
        })
}

/// Names and values; a value is there if there is a `=`.
fn pairs(parameters: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    parameters
        .split(|&byte| byte == b'&')
        .filter(|piece| !piece.is_empty())
        .map(|piece| match memchr::memchr(b'=', piece) {
            Some(equals) => (&piece[..equals], Some(&piece[equals + 1..])),
            None => (piece, None),
        })
}
