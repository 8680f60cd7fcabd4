//! Routes: the first whose every condition holds is taken (Cohen 1999, section 3.3: URL, extension, CGI, cookie; and more).
use crate::access::NamePattern;
use crate::http1::{Method, RequestHead};

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
    /// Path prefix, compared exactly.
    pub path: Option<String>,
    /// File extensions without the dot, compared without case; of the last path segment.
    pub extension: Vec<String>,
    /// Cookie rule.
    pub cookie: Option<CookieRule>,
    /// Field with this name (lower-case) and exactly this value; several lines: any of them.
    pub header: Option<(String, String)>,
    /// Methods, exactly as written; empty: any.
    pub method: Vec<String>,
    /// CGI: a path with `/cgi-bin/` or a query string; `Some(false)`: neither.
    pub cgi: Option<bool>,
    /// SNI, for tunnels.
    pub sni: Option<NamePattern>,
}

impl Conditions {
    /// Whether a request meets them. `sni` is ignored.
    #[must_use]
    pub fn match_request(&self, bytes: &[u8], head: &RequestHead) -> bool {
        let _ = (bytes, head, Method::Get);
        todo!()
    }

    /// Whether a tunnel's connection meets them, given its server name if it is TLS with one.
    #[must_use]
    pub fn match_tunnel(&self, sni: Option<&[u8]>) -> bool {
        let _ = sni;
        todo!()
    }

    /// Whether every request that meets `later` meets `self`, too, so that `later` can never be reached after `self`. May answer no where it is not sure.
    #[must_use]
    pub fn covers(&self, later: &Self) -> bool {
        let _ = later;
        todo!()
    }

    /// Says why no request at all can meet the conditions, if so (such as method CONNECT on a switch, a `path` without `/`).
    #[must_use]
    pub fn never_matches(&self) -> Option<String> {
        todo!()
    }
}

/// The first of `routes` that a request meets.
#[must_use]
pub fn pick_request<'r>(routes: impl Iterator<Item = &'r Conditions>, bytes: &[u8], head: &RequestHead) -> Option<usize> {
    let mut routes = routes;
    routes.position(|route| route.match_request(bytes, head))
}
