//! Which objects of the store are meant by a URL, the beginning of one, or a tag.
use super::store::{Object, Purge, Store, Which};
use std::sync::Arc;

/// What is no URL, or not said clearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong;

/// Objects that are chosen, whoever's answers they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// Those for this URL: all variants, and for all values of fields that are in the key.
    Url(Box<[u8]>),
    /// Those whose URLs begin so.
    Prefix(Box<[u8]>),
    /// Those with this tag.
    Tag(Box<[u8]>),
    /// Those under this key: all variants, for one value of the fields that are in the key.
    Key(Box<[u8]>),
    /// All.
    All,
}

impl Chosen {
    /// By URL.
    ///
    /// # Errors
    /// It is none of `http`.
    pub fn url(text: &str) -> Result<Self, Wrong> {
        Ok(Self::Url(normal(text)?))
    }

    /// By the beginning of URLs. It has a whole host: `http://exam` is none for `http://example.org`.
    ///
    /// # Errors
    /// It is none of a URL of `http`.
    pub fn prefix(text: &str) -> Result<Self, Wrong> {
        Ok(Self::Prefix(normal(text)?))
    }

    /// Whether this object is one of them.
    #[must_use]
    pub fn has(&self, object: &Object) -> bool {
        match self {
            Self::Url(url) => url_of(object.key().bytes()) == Some(url),
            Self::Prefix(prefix) => {
                url_of(object.key().bytes()).is_some_and(|url| url.starts_with(prefix))
            }
            Self::Tag(tag) => object.has_tag(tag),
            Self::Key(key) => object.key().bytes() == &**key,
            Self::All => true,
        }
    }

    /// The URL, as keys have it, if it is one.
    #[must_use]
    pub fn one_url(&self) -> Option<&[u8]> {
        match self {
            Self::Url(url) => Some(url),
            Self::Key(key) => url_of(key),
            Self::Prefix(_) | Self::Tag(_) | Self::All => None,
        }
    }

    /// Takes them out, or has them validated; returns how many.
    pub fn purge(&self, store: &Store, how: Purge) -> u64 {
        let purge = |object: Arc<Object>| u64::from(store.purge_one(&object, how));
        match self {
            Self::Tag(tag) => store.purge(Which::Tag(tag), how),
            Self::Key(key) => store.purge(Which::Key(key), how),
            Self::All => store.purge(Which::All, how),
            Self::Url(_) | Self::Prefix(_) => store
                .objects()
                .filter(|object| self.has(object))
                .map(purge)
                .sum(),
        }
    }
}

/// A URL as keys have it (`carrick_logic::cache::write_key`): with the port, and the host in small letters.
fn normal(text: &str) -> Result<Box<[u8]>, Wrong> {
    let scheme = text.get(..7).ok_or(Wrong)?;
    if !scheme.eq_ignore_ascii_case("http://") {
        return Err(Wrong);
    }
    let rest = &text[7..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split('#').next().unwrap_or_default();
    let (host, port) = match authority.rfind(':') {
        Some(colon) if !authority.ends_with(']') => authority.split_at(colon),
        _ => (authority, ":80"),
    };
    let port: u16 = port[1..].parse().map_err(|_| Wrong)?;
    if host.is_empty() {
        return Err(Wrong);
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok(format!("http://{host}:{port}{slash}{path}")
        .into_bytes()
        .into())
}

/// The URL in a key: between the realm and the fields.
#[must_use]
pub fn url_of(key: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'\n', key).unwrap_or(key.len());
    let start = memchr::memmem::find(key, b" http://")? + 1;
    key.get(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_keys_have_them() {
        for (text, expected) in [
            ("http://H", "http://h:80/"),
            ("HTTP://h:8080/a?b=c#d", "http://h:8080/a?b=c"),
            ("http://[::1]/x", "http://[::1]:80/x"),
            ("http://[::1]:81", "http://[::1]:81/"),
            ("http://h.?q", "http://h:80/?q"),
        ] {
            assert_eq!(normal(text).as_deref(), Ok(expected.as_bytes()), "{text}");
        }
        for wrong in [
            "",
            "h/a",
            "https://h/",
            "http://",
            "http://:80/",
            "http://h:x/",
            "http://h:99999/",
        ] {
            assert_eq!(normal(wrong), Err(Wrong), "{wrong}");
        }
    }

    #[test]
    fn the_url_is_found_in_a_key() {
        for (key, url) in [
            (
                "listener=127.0.0.1:3128 http://h:80/a?b",
                Some("http://h:80/a?b"),
            ),
            ("upstream=1:u http://h:80/\n1:x1:y", Some("http://h:80/")),
            ("nothing", None),
        ] {
            assert_eq!(url_of(key.as_bytes()), url.map(str::as_bytes), "{key}");
        }
    }
}
