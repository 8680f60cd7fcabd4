//! The shared cache in a real server: what a carrick finds without asking the origin, purging, failures.
mod failures;
mod hits;
mod purging;
mod variants;

use crate::support::carrick::FORWARD_TEXT;
use crate::support::server::{Serving, answer_requests};
use crate::support::{Carrick, Place, Redis, Response, Server};
use std::net::SocketAddr;

/// A carrick at an address of its own.
struct Play {
    carrick: Carrick,
    place: Place,
}

impl Play {
    /// With this server as its shared cache.
    fn begin(server: SocketAddr) -> Self {
        Self::begin_with(&format!("servers = \"{server}\""))
    }

    /// With these keys in `shared`. The time-out is long because the machine may be busy.
    fn begin_with(shared: &str) -> Self {
        Self::begin_as(shared, "")
    }

    /// The same, with these lines in the listener.
    fn begin_as(shared: &str, listener: &str) -> Self {
        let timeout = if shared.contains("timeout") {
            ""
        } else {
            ", timeout = \"10s\""
        };
        let place = Place::claim();
        let text = format!("[cache]\nshared = {{ {shared}{timeout} }}\n{FORWARD_TEXT}{listener}");
        let carrick = Carrick::start(&place, &text);
        Self { carrick, place }
    }

    fn fetch(&self, origin: SocketAddr, path: &str) -> Response {
        self.fetch_with(origin, path, "")
    }

    fn fetch_with(&self, origin: SocketAddr, path: &str, lines: &str) -> Response {
        self.carrick
            .connect_forward()
            .ask(&request("GET", origin, path, lines))
    }

    /// Number of look-ups with this result.
    fn asked(&self, result: &str) -> f64 {
        let label = format!("result=\"{result}\"");
        self.carrick
            .metric("carrick_shared_requests_total", &[&label])
    }

    /// Waits until this number of responses is written.
    fn wait_until_written(&self, count: u32) {
        let label = ["result=\"written\""];
        let written =
            self.carrick
                .wait_for_metric("carrick_shared_writes_total", &label, count.into());
        assert_eq!(written, f64::from(count));
    }
}

fn request(method: &str, origin: SocketAddr, path: &str, lines: &str) -> String {
    format!("{method} http://{origin}{path} HTTP/1.1\r\nHost: {origin}\r\n{lines}\r\n")
}

/// An origin whose responses have these lines; the body is the path and the request's `Accept`.
fn origin(place: &Place, lines: &'static str) -> Serving {
    Server::listen(place).serve(move |peer, _| {
        answer_requests(peer, |head| {
            let path = head.split(' ').nth(1).unwrap_or_default();
            let accepts = crate::support::message::field(head, "accept-language");
            let body = format!("{path} {}", accepts.unwrap_or_default());
            format!(
                "HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        });
    })
}

/// Fresh for a minute.
const FRESH: &str = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";

/// Whether the access log and `Cache-Status` say that a carrick's first request was answered from the shared cache.
fn is_from_second_level(response: &Response) -> bool {
    let said = super::status(response);
    said.contains("carrick; hit; ttl=") && said.ends_with("detail=shared")
}

/// A server, and its address.
fn server() -> (Redis, Place) {
    let place = Place::claim();
    (Redis::start(&place, &[]), place)
}
