//! Which objects of the store are meant by a URL, the beginning of one, or a tag.
use super::disk::{Disk, Entry, Pattern};
use crate::cache::memory::{Object, Purge, Store};
use tokio::sync::oneshot;

/// What is no URL, or not said clearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrong;

/// Objects that are chosen, whoever's answers they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen(Pattern);

impl Chosen {
    /// By URL: all variants, and for all values of fields that are in the key.
    ///
    /// # Errors
    /// It is none of `http`.
    pub fn url(text: &str) -> Result<Self, Wrong> {
        Ok(Self(Pattern::Url(normal(text)?)))
    }

    /// By the beginning of URLs. It has a whole host: `http://exam` is none for `http://example.org`.
    ///
    /// # Errors
    /// It is none of a URL of `http`.
    pub fn prefix(text: &str) -> Result<Self, Wrong> {
        Ok(Self(Pattern::UrlPrefix(normal(text)?)))
    }

    /// By tag.
    #[must_use]
    pub fn tag(text: &str) -> Self {
        Self(Pattern::Tag(text.as_bytes().into()))
    }

    /// By key: all variants, for one value of the fields that are in the key.
    #[must_use]
    pub fn key(key: &[u8]) -> Self {
        Self(Pattern::Key(key.into()))
    }

    /// All.
    #[must_use]
    pub fn all() -> Self {
        Self(Pattern::All)
    }

    /// Whether this object is one of them.
    #[must_use]
    pub fn has(&self, object: &Object) -> bool {
        self.0.has(object.key().bytes(), |tag| object.has_tag(tag))
    }

    /// The same for what is on the disk.
    #[must_use]
    pub fn has_entry(&self, entry: &Entry) -> bool {
        self.0.has(entry.key_bytes(), |tag| entry.has_tag(tag))
    }

    /// The URL, as keys have it, if it is one.
    #[must_use]
    pub fn one_url(&self) -> Option<&[u8]> {
        match &self.0 {
            Pattern::Url(url) => Some(url),
            Pattern::Key(key) => url_of(key),
            _ => None,
        }
    }

    /// Takes them out, or has them validated; returns how many. With a disk, it has been done there, too, when `over` has come.
    pub fn purge(&self, store: &Store, how: Purge) -> (u64, Option<oneshot::Receiver<()>>) {
        let (ticket, over) = store.disk().map(Disk::ticket).unzip();
        let count = store.purge_with(&self.0, how, ticket.as_ref());
        (count, over)
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
pub(super) fn url_of(key: &[u8]) -> Option<&[u8]> {
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
