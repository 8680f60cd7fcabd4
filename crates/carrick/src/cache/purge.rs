//! Which objects a purge is about, and what it does with them.
use carrick_logic::cache::shared_part;

/// What a purge does with objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// Removes them.
    Remove,
    /// Keeps them, but out of date: the next request has them validated.
    Outdate,
}

/// The text is not a URL of `http` or `https`, or is ambiguous.
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
    /// The text is not a URL of `http` or `https`.
    pub fn url(text: &str) -> Result<Self, InvalidPattern> {
        Ok(Self::Url(normal(text)?))
    }

    /// Objects whose URLs begin with this. The host must be whole: `http://exam` does not match `http://example.org`.
    ///
    /// # Errors
    /// The text is not the beginning of a URL of `http` or `https`.
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
            Self::Url(url) => {
                url_of(key).is_some_and(|(known, has_query)| known == url_in_key(url, has_query))
            }
            Self::UrlPrefix(prefix) => url_of(key).is_some_and(|(known, has_query)| {
                let wanted = url_in_key(prefix, has_query);
                // Of a prefix that goes on with a query, the path is whole.
                known.starts_with(wanted) && (wanted.len() == prefix.len() || known == wanted)
            }),
            Self::Tag(tag) => has_tag(tag),
            Self::All => true,
        }
    }

    /// The URL, as keys that have all of the query have it, if all matching objects have the same one.
    #[must_use]
    pub fn one_url(&self) -> Option<&[u8]> {
        match self {
            Self::Url(url) => Some(url),
            _ => None,
        }
    }
}

/// Writes a URL as keys have it (`carrick_logic::cache::write_key`): with the port, and the host in lower case.
fn normal(text: &str) -> Result<Box<[u8]>, InvalidPattern> {
    let (scheme, rest) = text.split_once("://").ok_or(InvalidPattern)?;
    let scheme = scheme.to_ascii_lowercase();
    let default_port = match scheme.as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => return Err(InvalidPattern),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split('#').next().unwrap_or_default();
    let (host, port) = match authority.rfind(':') {
        Some(colon) if !authority.ends_with(']') => authority.split_at(colon),
        _ => (authority, default_port),
    };
    let port: u16 = port[1..].parse().map_err(|_| InvalidPattern)?;
    if host.is_empty() {
        return Err(InvalidPattern);
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok(format!("{scheme}://{host}:{port}{slash}{path}")
        .into_bytes()
        .into())
}

/// The URL in a key, which is between the realm and the fields, and whether it has all of the query. What `cache_key` takes of a query
/// begins with a tab, and is no part of the URL.
fn url_of(key: &[u8]) -> Option<(&[u8], bool)> {
    let url = shared_part(key);
    if url.len() == key.len() {
        return None;
    }
    let end = memchr::memchr2(b'\t', b'\n', url);
    let has_query = end.and_then(|end| url.get(end)) != Some(&b'\t');
    Some((url.get(..end.unwrap_or(url.len()))?, has_query))
}

/// What keys have of a URL.
fn url_in_key(url: &[u8], has_query: bool) -> &[u8] {
    let path_end = memchr::memchr(b'?', url).filter(|_| !has_query);
    url.get(..path_end.unwrap_or(url.len())).unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use carrick_logic::cache::{Fields, KeyQuery, KeyRules, Realm, Uri, write_key};

    #[test]
    fn urls_are_read_as_keys_have_them() {
        for (text, expected) in [
            ("http://H", "http://h:80/"),
            ("HTTP://h:8080/a?b=c#d", "http://h:8080/a?b=c"),
            ("http://[::1]/x", "http://[::1]:80/x"),
            ("http://[::1]:81", "http://[::1]:81/"),
            ("http://h.?q", "http://h:80/?q"),
            ("https://H/a", "https://h:443/a"),
            ("HTTPS://[::1]:80/", "https://[::1]:80/"),
        ] {
            assert_eq!(normal(text).as_deref(), Ok(expected.as_bytes()), "{text}");
        }
        for wrong in [
            "",
            "h/a",
            "ftp://h/",
            "http://",
            "https://",
            "http://:80/",
            "http://h:x/",
            "http://h:99999/",
        ] {
            assert_eq!(normal(wrong), Err(InvalidPattern), "{wrong}");
        }
    }

    /// The key of a request, as requests have it.
    fn key(url: &str, query: KeyQuery) -> Vec<u8> {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (host, path) = rest.split_at(rest.find('/').unwrap());
        let uri = Uri {
            scheme: scheme.as_bytes(),
            host: host.as_bytes(),
            port: if scheme == "https" { 443 } else { 80 },
            path_and_query: path.as_bytes(),
        };
        let rules = KeyRules {
            query,
            headers: vec![b"x".to_vec()],
        };
        let mut key = Vec::new();
        let fields = Fields::of_text(b"X: http://other/\r\n");
        write_key(&mut key, Realm::Upstream("u"), &uri, fields, &rules);
        key
    }

    #[test]
    fn urls_and_prefixes_match_keys_of_all_rules() {
        let list = || KeyQuery::These(vec![b"x".to_vec()]);
        for scheme in ["http", "https"] {
            for query in [KeyQuery::All, KeyQuery::None, list()] {
                let key = key(&format!("{scheme}://h/a?x=1"), query.clone());
                let has_query = query == KeyQuery::All;
                for (path, is_url, is_prefix) in [
                    ("a?x=1", true, true),
                    ("a", !has_query, true),
                    ("a?x=2", !has_query, !has_query),
                    ("a?", !has_query, true),
                    ("b?x=1", false, false),
                    ("?x=1", false, false),
                    ("", false, true),
                ] {
                    let text = format!("{scheme}://h/{path}");
                    let url = Pattern::url(&text).unwrap();
                    let prefix = Pattern::url_prefix(&text).unwrap();
                    assert_eq!(url.matches(&key, |_| false), is_url, "{text} {query:?}");
                    assert_eq!(
                        prefix.matches(&key, |_| false),
                        is_prefix,
                        "{text} {query:?}"
                    );
                }
            }
        }
        let secure = key("https://h/a", KeyQuery::All);
        let plain = Pattern::url("http://h:443/a").unwrap();
        assert!(!plain.matches(&secure, |_| false));
        assert!(!plain.matches(b"nothing", |_| false));
    }
}
