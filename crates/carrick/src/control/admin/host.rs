//! Checks `Host` and `Origin`: a request must be meant for admin, not forged by a web page (DNS rebinding, CSRF).
use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Request, Version};
use std::net::IpAddr;

/// A page cannot choose the `Host` that its browser sends: it is the name under which the page was loaded (DNS rebinding changes only
/// where that name points). So only IP addresses and `localhost` are served.
pub(super) fn is_ours<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        // Scripts may speak HTTP/1.0 without Host; browsers do not.
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

/// The answer to a page that asks for a change.
pub(super) const NOT_FOR_PAGES: &str = "Web pages may not change anything here.\n";

/// Whether a web page made a browser send the request. A POST needs no permission, but the browser sends `Origin` (Fetch, "append a
/// request `Origin` header").
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
