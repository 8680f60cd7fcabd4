//! Which stored responses an unsafe request makes invalid (RFC 9111 section 4.4).
use super::fields::Fields;
use super::uri::Uri;
use crate::http1::Method;

/// Whether the answer to a request with this method invalidates: the method is unsafe or unknown (RFC 9110 section
/// 9.2.1), and the status no error.
#[must_use]
pub fn invalidates(method: Method, method_text: &[u8], status: u16) -> bool {
    let is_safe = match method {
        Method::Get | Method::Head | Method::Options | Method::Trace | Method::Connect => true,
        // The safe methods of the registry besides.
        Method::Other => matches!(
            method_text,
            b"PROPFIND" | b"REPORT" | b"SEARCH" | b"QUERY" | b"PRI"
        ),
        _ => false,
    };
    !is_safe && (200..400).contains(&status)
}

/// Path and query of what is invalid after [`invalidates`] said so: the target first, then what `Location` and
/// `Content-Location` name, if it is of the same origin as the target. All variants of each are invalid.
#[must_use]
pub fn invalidated(uri: &Uri<'_>, response: Fields<'_>) -> Vec<Vec<u8>> {
    let mut paths = vec![uri.normalized()];
    for name in [b"location".as_slice(), b"content-location"] {
        let named = response
            .first(name)
            .and_then(|reference| uri.resolve_same_origin(reference));
        if let Some(path) = named.filter(|path| !paths.contains(path)) {
            paths.push(path);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::{Uri, invalidated, invalidates};
    use crate::cache::Fields;
    use crate::http1::Method;

    #[test]
    fn rfc_9111_4_4_methods_and_statuses() {
        for (method, text, status, expected) in [
            (Method::Post, "POST", 200, true),
            (Method::Put, "PUT", 204, true),
            (Method::Delete, "DELETE", 303, true),
            (Method::Patch, "PATCH", 200, true),
            (Method::Other, "M-SEARCH", 200, true),
            (Method::Other, "PROPFIND", 207, false),
            (Method::Other, "MKCOL", 201, true),
            (Method::Post, "POST", 404, false),
            (Method::Post, "POST", 500, false),
            (Method::Get, "GET", 200, false),
            (Method::Head, "HEAD", 200, false),
            (Method::Options, "OPTIONS", 200, false),
        ] {
            assert_eq!(
                invalidates(method, text.as_bytes(), status),
                expected,
                "{text} {status}"
            );
        }
    }

    #[test]
    fn rfc_9111_4_4_target_and_locations_of_the_same_origin() {
        let uri = Uri {
            scheme: b"http",
            host: b"h",
            port: 80,
            path_and_query: b"/a/b?c",
        };
        for (fields, expected) in [
            ("", vec!["/a/b?c"]),
            ("Location: /new\r\n", vec!["/a/b?c", "/new"]),
            (
                "Location: http://h/new\r\nContent-Location: c\r\n",
                vec!["/a/b?c", "/new", "/a/c"],
            ),
            (
                "Location: http://other/new\r\nContent-Location: //h:81/x\r\n",
                vec!["/a/b?c"],
            ),
            ("Content-Location: ?c\r\n", vec!["/a/b?c"]),
        ] {
            let paths = invalidated(&uri, Fields::of_text(fields.as_bytes()));
            let paths: Vec<_> = paths
                .iter()
                .map(|path| std::str::from_utf8(path).unwrap())
                .collect();
            assert_eq!(paths, expected, "{fields}");
        }
        let dotted = Uri {
            path_and_query: b"/x/../a/./b?c",
            ..uri
        };
        let paths = invalidated(&dotted, Fields::of_text(b"Location: ../d\r\n"));
        assert_eq!(paths, [b"/a/b?c".to_vec(), b"/d".to_vec()]);
    }
}
