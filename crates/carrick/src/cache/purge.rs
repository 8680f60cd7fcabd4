//! Which objects a purge is about, and what it does with them.

/// What a purge does with objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// Removes them.
    Remove,
    /// Keeps them, but out of date: the next request has them validated.
    Outdate,
}

/// The text is not a URL of `http`, or is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidPattern;

/// Which objects, for all clients and listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Those under this key: all variants, for one value of the fields that are in the key.
    Key(Box<[u8]>),
    /// Those for this URL: all variants, for all values of the fields that are in the key.
    Url(Box<[u8]>),
    /// Those whose URLs begin with this.
    UrlPrefix(Box<[u8]>),
    /// Those with this tag (`Surrogate-Key`, `Cache-Tag`).
    Tag(Box<[u8]>),
    /// All.
    All,
}

impl Pattern {
    /// Objects for a URL.
    ///
    /// # Errors
    /// The text is not a URL of `http`.
    pub fn url(text: &str) -> Result<Self, InvalidPattern> {
        Ok(Self::Url(normal(text)?))
    }

    /// Objects whose URLs begin with this. The host must be whole: `http://exam` does not match `http://example.org`.
    ///
    /// # Errors
    /// The text is not the beginning of a URL of `http`.
    pub fn url_prefix(text: &str) -> Result<Self, InvalidPattern> {
        Ok(Self::UrlPrefix(normal(text)?))
    }

    /// Objects with a tag.
    #[must_use]
    pub fn tag(text: &str) -> Self {
        Self::Tag(text.as_bytes().into())
    }

    /// Objects under a key.
    #[must_use]
    pub fn key(key: &[u8]) -> Self {
        Self::Key(key.into())
    }

    /// Whether it matches an object with this key; `has_tag` says whether the object has a tag.
    #[must_use]
    pub fn matches(&self, key: &[u8], has_tag: impl FnOnce(&[u8]) -> bool) -> bool {
        match self {
            Self::Key(bytes) => **bytes == *key,
            Self::Url(url) => url_of(key) == Some(url),
            Self::UrlPrefix(prefix) => url_of(key).is_some_and(|url| url.starts_with(prefix)),
            Self::Tag(tag) => has_tag(tag),
            Self::All => true,
        }
    }

    /// The URL, as keys have it, if all matching objects have the same one.
    #[must_use]
    pub fn one_url(&self) -> Option<&[u8]> {
        match self {
            Self::Url(url) => Some(url),
            Self::Key(key) => url_of(key),
            _ => None,
        }
    }
}

/// Writes a URL as keys have it (`carrick_logic::cache::write_key`): with the port, and the host in lower case.
fn normal(text: &str) -> Result<Box<[u8]>, InvalidPattern> {
    let scheme = text.get(..7).ok_or(InvalidPattern)?;
    if !scheme.eq_ignore_ascii_case("http://") {
        return Err(InvalidPattern);
    }
    let rest = &text[7..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split('#').next().unwrap_or_default();
    let (host, port) = match authority.rfind(':') {
        Some(colon) if !authority.ends_with(']') => authority.split_at(colon),
        _ => (authority, ":80"),
    };
    let port: u16 = port[1..].parse().map_err(|_| InvalidPattern)?;
    if host.is_empty() {
        return Err(InvalidPattern);
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok(format!("http://{host}:{port}{slash}{path}")
        .into_bytes()
        .into())
}

/// The URL in a key, which is between the realm and the fields.
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
            assert_eq!(normal(wrong), Err(InvalidPattern), "{wrong}");
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
