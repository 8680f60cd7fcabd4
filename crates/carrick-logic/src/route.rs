//! Routes: the first whose every condition holds is taken (Cohen 1999, section 3.3: URL, extension, CGI, cookie; and more).
//!
//! Paths are compared as they were sent, byte for byte, like HAProxy does and unlike nginx, which decodes `%69` and
//! resolves `..` first. The path goes to the upstream as it was sent, too, so carrick and the upstream look at the same
//! bytes, and nothing depends on both decoding them alike. It follows that a route chooses a server and is **no access
//! rule**: `/images/../secret` meets `path = "/images/"`, and `/%69mages/` does not. What must not be reached is to be
//! refused by the server that has it.

mod reach;
#[cfg(test)]
mod tests;

pub use reach::is_unreachable;

use crate::access::NamePattern;
use crate::http1::{RequestHead, Target};

/// Where the path of a CGI program has to hold this (Cohen 1999, section 3.3).
const CGI_PATH: &str = "/cgi-bin/";

/// Presence or absence of a cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieRule {
    /// The cookie's name, compared exactly.
    pub name: String,
    /// Whether it must be there (`"session"`) or must not (`"!session"`).
    pub present: bool,
}

/// The conditions of a switch route; every one that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// Host name.
    pub host: Option<NamePattern>,
    /// Path prefix, compared exactly with the path as it was sent.
    pub path: Option<String>,
    /// File extensions without the dot, compared without case; of the last path segment without its `;` parameters.
    /// `tar.gz` works, too; `gz` matches both `a.gz` and `a.tar.gz`.
    pub extension: Vec<String>,
    /// Cookie rule.
    pub cookie: Option<CookieRule>,
    /// Field with this name (lower-case) and exactly this value; several lines: any of them.
    pub header: Option<(String, String)>,
    /// Methods, exactly as written; empty: any.
    pub method: Vec<String>,
    /// CGI: a path with `/cgi-bin/` or a query string (a `?` with nothing after it, too); `Some(false)`: neither.
    pub cgi: Option<bool>,
    /// SNI, for connections that nobody decrypts.
    pub sni: Option<NamePattern>,
}

impl Conditions {
    /// Whether a request meets them. None meets `sni`, which is for connections that have no requests to look at.
    #[must_use]
    pub fn match_request(&self, bytes: &[u8], head: &RequestHead) -> bool {
        // The cheapest conditions first.
        let path = path_of(bytes, head);
        self.sni.is_none()
            && self
                .host
                .as_ref()
                .is_none_or(|pattern| pattern.matches(head.host.of(bytes)))
            && self
                .path
                .as_ref()
                .is_none_or(|prefix| path.starts_with(prefix.as_bytes()))
            && self
                .cgi
                .is_none_or(|wanted| wanted == (head.query.is_some() || is_cgi_path(path)))
            && (self.extension.is_empty() || self.extension_matches(path))
            && (self.method.is_empty() || self.method_matches(head.method_text.of(bytes)))
            && self.header_matches(bytes, head)
            && self
                .cookie
                .as_ref()
                .is_none_or(|rule| rule.present == head.cookie(bytes, &rule.name).is_some())
    }

    /// Whether a tunnel's connection meets them, given its server name if it is TLS with one. Everything but `sni` is
    /// ignored: a tunnel has no requests.
    #[must_use]
    pub fn match_tunnel(&self, sni: Option<&[u8]>) -> bool {
        match (&self.sni, sni) {
            (None, _) => true,
            (Some(pattern), Some(name)) => pattern.matches(name),
            (Some(_), None) => false,
        }
    }

    fn extension_matches(&self, path: &[u8]) -> bool {
        let segment = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let file = segment
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or_default();
        self.extension
            .iter()
            .any(|extension| ends_with_extension(file, extension))
    }

    fn method_matches(&self, method: &[u8]) -> bool {
        self.method.iter().any(|wanted| wanted.as_bytes() == method)
    }

    fn header_matches(&self, bytes: &[u8], head: &RequestHead) -> bool {
        let Some((name, value)) = &self.header else {
            return true;
        };
        head.fields.iter().any(|field| {
            field.value.of(bytes) == value.as_bytes()
                && field.name.of(bytes).eq_ignore_ascii_case(name.as_bytes())
        })
    }
}

/// The first of `routes` that a request meets.
#[must_use]
pub fn pick_request<'r>(
    routes: impl Iterator<Item = &'r Conditions>,
    bytes: &[u8],
    head: &RequestHead,
) -> Option<usize> {
    let mut routes = routes;
    routes.position(|route| route.match_request(bytes, head))
}

/// The path that is compared: `http://host` and `http://host?query` ask for `/` (RFC 9112 section 3.2.1); `*` and the
/// target of `CONNECT` have no path, and meet no condition on one.
fn path_of<'b>(bytes: &'b [u8], head: &RequestHead) -> &'b [u8] {
    match head.target {
        Target::Absolute { .. } if head.path.is_empty() => b"/",
        Target::Origin { .. } | Target::Absolute { .. } => head.path.of(bytes),
        Target::Authority { .. } | Target::Asterisk => b"",
    }
}

fn is_cgi_path(path: &[u8]) -> bool {
    memchr::memmem::find(path, CGI_PATH.as_bytes()).is_some()
}

/// Whether `file` is something, a dot, and `extension`. `.gif` has the extension `gif`; nothing has the empty extension.
fn ends_with_extension(file: &[u8], extension: &str) -> bool {
    if extension.is_empty() {
        return false;
    }
    let Some(dot) = file.len().checked_sub(extension.len() + 1) else {
        return false;
    };
    file[dot] == b'.' && file[dot + 1..].eq_ignore_ascii_case(extension.as_bytes())
}
