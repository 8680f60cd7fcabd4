//! Whether a request was meant for admin, or comes from a web page whose name was made to resolve to this address.
use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Request, Version};
use std::net::IpAddr;

/// A page cannot choose what its browser sends as `Host`: that is the name under which it was loaded (DNS rebinding
/// changes only where that name points). So IP addresses, of which the configured one is one, and `localhost` are served,
/// and no other name.
pub(super) fn is_ours<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        // Scripts that speak HTTP/1.0 without Host; no browser does.
        (None, _) => request.version() < Version::HTTP_11 && request.uri().authority().is_none(),
        (Some(host), None) => {
            let host = host
                .to_str()
                .ok()
                .and_then(|host| host.parse::<Authority>().ok());
            host.is_some_and(|host| is_our_name(host.host()))
                && request
                    .uri()
                    .authority()
                    .is_none_or(|absolute| is_our_name(absolute.host()))
        }
        (Some(_), Some(_)) => false,
    }
}

/// What a page that asks for a change is told.
pub(super) const NOT_FOR_PAGES: &str = "Web pages may not change anything here.\n";

/// Whether a page of the web has made a browser send it. That needs nobody's leave for a POST, but the browser says so (Fetch,
/// "append a request `Origin` header").
pub(super) fn comes_from_page<B>(request: &Request<B>) -> bool {
    [ORIGIN.as_str(), "sec-fetch-site"]
        .iter()
        .any(|field| request.headers().contains_key(*field))
}

fn is_our_name(host: &str) -> bool {
    let literal = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    literal.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost")
}
