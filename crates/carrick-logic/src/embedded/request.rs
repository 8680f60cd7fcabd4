//! The request for an object that a page embeds, as a browser would send it, but for what is the client's own.
use super::{Object, ObjectKind};
use crate::cache::{Fields, target_uri};
use crate::http1::{RequestHead, Target};
use url::{Position, Url};

/// Fields of the page's request that the browser sends again with the object's, and that servers choose answers by. What says who
/// asks (`Cookie`, `Authorization`) is not among them, whatever is in a key.
const REPEATED: [&[u8]; 3] = [b"accept-encoding", b"accept-language", b"user-agent"];

/// Fields that are never sent along.
const NEVER: [&[u8]; 4] = [b"cookie", b"authorization", b"proxy-authorization", b"host"];

/// The URL of the page that the request with this head asks for; `None`: it has none that a browser would know.
#[must_use]
pub fn page_url(head: &RequestHead, bytes: &[u8]) -> Option<Url> {
    let uri = target_uri(head, bytes).ok()?;
    let host = std::str::from_utf8(uri.host).ok()?;
    let path = std::str::from_utf8(uri.path_and_query).ok()?;
    let (scheme, port) = (head.scheme.name(), uri.port);
    let url = if host.contains(':') {
        format!("{scheme}://[{host}]:{port}{path}")
    } else {
        format!("{scheme}://{host}:{port}{path}")
    };
    Url::parse(&url).ok()
}

/// Writes the request for an object that the page with this URL embeds, which was asked for by the request with this head. Fields
/// of these names (`in_key`) are repeated, too.
pub fn write_request(
    out: &mut Vec<u8>,
    object: &Object,
    page: &Url,
    (head, bytes): (&RequestHead, &[u8]),
    in_key: &[Vec<u8>],
) {
    let url = &object.url;
    let target = match head.target {
        Target::Absolute { .. } => url.as_str(),
        _ => &url[Position::BeforePath..Position::AfterQuery],
    };
    let authority = &url[Position::BeforeHost..Position::AfterPort];
    for part in ["GET ", target, " HTTP/1.1\r\nHost: ", authority, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    let mut line = |name: &[u8], value: &[u8]| {
        for part in [name, b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    };
    let fields = Fields::of_request(head, bytes);
    let accept = match object.kind {
        // What all browsers send (Fetch, "HTTP-network-or-cache fetch" and what calls it).
        ObjectKind::Style => Some(b"text/css,*/*;q=0.1".as_slice()),
        ObjectKind::Script | ObjectKind::Other => Some(b"*/*".as_slice()),
        ObjectKind::Image => fields.first(b"accept"),
    };
    if let Some(accept) = accept.filter(|_| fields.has(b"accept")) {
        line(b"Accept", accept);
    }
    for (name, value) in fields {
        let is = |other: &&[u8]| name.eq_ignore_ascii_case(other);
        let is_in_key = || in_key.iter().any(|other| is(&other.as_slice()));
        if !NEVER.iter().any(is) && (REPEATED.iter().any(is) || is_in_key()) {
            line(name, value);
        }
    }
    // `strict-origin-when-cross-origin`.
    let referer = if page.origin() == url.origin() {
        &page[..Position::AfterQuery]
    } else {
        &page[..Position::BeforePath]
    };
    line(b"Referer", referer.as_bytes());
    if page.origin() != url.origin() {
        // The path of an origin alone is `/`.
        out.truncate(out.len() - 2);
        out.extend_from_slice(b"/\r\n");
    }
    out.extend_from_slice(b"\r\n");
}
