//! The URI that a request is for, and references relative to it (RFC 3986 section 5.2), within one origin.
use crate::http1::syntax;

/// An `http` or `https` URI, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uri<'a> {
    /// `http` or `https`.
    pub scheme: &'a [u8],
    /// Name or address, IPv6 addresses without brackets.
    pub host: &'a [u8],
    /// Never 0; the scheme's default is to be filled in.
    pub port: u16,
    /// Beginning with `/`, or empty, which means `/`.
    pub path_and_query: &'a [u8],
}

impl Uri<'_> {
    /// The port of URIs with this scheme that have none.
    pub(super) fn default_port(&self) -> u16 {
        match self.scheme.eq_ignore_ascii_case(b"https") {
            true => 443,
            false => 80,
        }
    }

    /// Path and query without dot segments and without a fragment; `/` if it is empty.
    #[must_use]
    pub fn normalized(&self) -> Vec<u8> {
        let (path, query) = divide(self.path_and_query);
        join(path, query)
    }

    /// The path and query that `reference` names, as [`normalized`](Self::normalized) has them; `None` if it names
    /// something of another origin (RFC 9110 section 4.3.1), or is not to be understood.
    #[must_use]
    pub fn resolve_same_origin(&self, reference: &[u8]) -> Option<Vec<u8>> {
        let end = memchr::memchr(b'#', reference).unwrap_or(reference.len());
        let reference = &reference[..end];
        if !syntax::is_visible_text(reference) || reference.contains(&b'\\') {
            return None;
        }
        let rest = match scheme_bytes(reference) {
            Some(length) => {
                let (scheme, rest) = reference.split_at(length);
                if !scheme.eq_ignore_ascii_case(self.scheme) || !rest.starts_with(b"://") {
                    return None;
                }
                &rest[1..]
            }
            None => reference,
        };
        let (base_path, base_query) = divide(self.path_and_query);
        if let Some(after) = rest.strip_prefix(b"//") {
            let end = memchr::memchr2(b'/', b'?', after).unwrap_or(after.len());
            let (path, query) = divide(&after[end..]);
            return self.has_authority(&after[..end]).then(|| join(path, query));
        }
        let (path, query) = divide(rest);
        Some(match path {
            [] => join(base_path, query.or(base_query)),
            [b'/', ..] => join(path, query),
            _ => {
                let folder = memchr::memrchr(b'/', base_path).map_or(0, |slash| slash + 1);
                let merged = [
                    b"/".as_slice(),
                    base_path[..folder].strip_prefix(b"/").unwrap_or_default(),
                    path,
                ]
                .concat();
                join(&merged, query)
            }
        })
    }

    fn has_authority(&self, authority: &[u8]) -> bool {
        let (host, port) = match authority {
            [b'[', inside @ ..] => {
                let Some(end) = memchr::memchr(b']', inside) else {
                    return false;
                };
                (&inside[..end], &inside[end + 1..])
            }
            _ => authority.split_at(memchr::memchr(b':', authority).unwrap_or(authority.len())),
        };
        let port = match port {
            [] | [b':'] => Some(u64::from(self.default_port())),
            [b':', digits @ ..] => syntax::decimal(digits),
            _ => None,
        };
        host.eq_ignore_ascii_case(self.host) && port == Some(u64::from(self.port))
    }
}

/// Length of the scheme that a reference begins with.
fn scheme_bytes(reference: &[u8]) -> Option<usize> {
    let end = reference
        .iter()
        .position(|&byte| matches!(byte, b':' | b'/' | b'?'))?;
    (reference[end] == b':').then_some(end)
}

/// Path, and query without `?`.
fn divide(path_and_query: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', path_and_query) {
        Some(mark) => (&path_and_query[..mark], Some(&path_and_query[mark + 1..])),
        None => (path_and_query, None),
    }
}

/// RFC 3986 section 5.2.4, and the query behind.
fn join(path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let mut ends_in_folder = false;
    for segment in path.split(|&byte| byte == b'/') {
        ends_in_folder = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    if ends_in_folder {
        segments.push(b"");
    }
    let mut joined = vec![b'/'];
    joined.extend_from_slice(&segments.join(b"/".as_slice()));
    if let Some(query) = query {
        joined.push(b'?');
        joined.extend_from_slice(query);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::Uri;
    use proptest::prelude::*;

    const BASE: Uri<'_> = Uri {
        scheme: b"http",
        host: b"example.org",
        port: 80,
        path_and_query: b"/b/c/d;p?q",
    };

    #[test]
    fn rfc_3986_5_4_resolution() {
        for (reference, expected) in [
            ("g", Some("/b/c/g")),
            ("./g", Some("/b/c/g")),
            ("g/", Some("/b/c/g/")),
            ("/g", Some("/g")),
            ("//g", None),
            ("?y", Some("/b/c/d;p?y")),
            ("g?y", Some("/b/c/g?y")),
            ("#s", Some("/b/c/d;p?q")),
            ("g#s", Some("/b/c/g")),
            ("", Some("/b/c/d;p?q")),
            (".", Some("/b/c/")),
            ("./", Some("/b/c/")),
            ("..", Some("/b/")),
            ("../g", Some("/b/g")),
            ("../..", Some("/")),
            ("../../../g", Some("/g")),
            ("/./g", Some("/g")),
            ("g.", Some("/b/c/g.")),
            ("./../g", Some("/b/g")),
            ("g;x=1/../y", Some("/b/c/y")),
            ("http:g", None),
            ("mailto:x", None),
            ("g?y/../x", Some("/b/c/g?y/../x")),
        ] {
            let resolved = BASE.resolve_same_origin(reference.as_bytes());
            assert_eq!(
                resolved.as_deref(),
                expected.map(str::as_bytes),
                "{reference}"
            );
        }
    }

    #[test]
    fn rfc_9110_4_3_1_only_the_same_origin() {
        for (reference, same) in [
            ("http://example.org/x", true),
            ("HTTP://EXAMPLE.ORG:80/x", true),
            ("http://example.org:/x", true),
            ("//example.org/x", true),
            ("http://example.org:8080/x", false),
            ("https://example.org/x", false),
            ("http://other.org/x", false),
            ("http://example.org@other.org/x", false),
            ("http://user@example.org/x", false),
            ("http://example.org\\@other.org/x", false),
            ("http://exam ple.org/x", false),
            ("http:///x", false),
        ] {
            let resolved = BASE.resolve_same_origin(reference.as_bytes());
            assert_eq!(resolved, same.then(|| b"/x".to_vec()), "{reference}");
        }
        let v6 = Uri {
            host: b"2001:db8::1",
            port: 8080,
            ..BASE
        };
        assert!(
            v6.resolve_same_origin(b"http://[2001:DB8::1]:8080/")
                .is_some()
        );
        assert!(v6.resolve_same_origin(b"http://[2001:db8::1]/").is_none());
        assert!(v6.resolve_same_origin(b"http://[2001:db8::1/").is_none());
        assert_eq!(
            Uri {
                path_and_query: b"",
                ..BASE
            }
            .normalized(),
            b"/"
        );
        assert_eq!(
            Uri {
                path_and_query: b"",
                ..BASE
            }
            .resolve_same_origin(b"x"),
            Some(b"/x".to_vec())
        );
    }

    proptest! {
        #[test]
        fn resolving_gives_a_path_without_dot_segments_and_is_stable(reference in "[a-z./?#:@\\\\\\[\\]-]{0,24}") {
            if let Some(path) = BASE.resolve_same_origin(reference.as_bytes()) {
                prop_assert_eq!(path[0], b'/');
                let again = Uri { path_and_query: &path, ..BASE };
                prop_assert_eq!(again.normalized(), path.clone());
                let only_path = path.split(|&byte| byte == b'?').next().unwrap();
                prop_assert!(!only_path.split(|&byte| byte == b'/').any(|segment| matches!(segment, b"." | b"..")));
            }
        }
    }
}
