//! The cache: what clients get from it, and what the server is asked.
mod bodies;
mod cache_peers;
mod control;
mod disk;
mod fickle;
mod hits;
mod lifetimes;
mod parents;
mod parts;
mod pipelines;
mod prefetch;
mod safety;
#[cfg(feature = "shared-cache")]
mod shared;
mod together;
mod validation;

use crate::support::carrick::switch_text;
use crate::support::{Carrick, Place, Response, Server};
use std::net::SocketAddr;

/// A switch whose only route is cached, with one scripted server.
struct Play {
    server: Server,
    carrick: Carrick,
    place: Place,
}

impl Play {
    /// With additional lines in `[cache]`.
    fn begin(cache: &str) -> Self {
        Self::begin_with(cache, "")
    }

    /// Like [`begin`](Self::begin), with additional lines in the route.
    fn begin_with(cache: &str, route: &str) -> Self {
        Self::configured(|server| cached_switch(&[server], cache, route))
    }

    /// With this configuration, for this server.
    fn configured(text: impl FnOnce(SocketAddr) -> String) -> Self {
        let place = Place::claim();
        let server = Server::listen(&place);
        let carrick = Carrick::start(&place, &text(server.address()));
        Self {
            server,
            carrick,
            place,
        }
    }

    /// Requests `path` on a connection of its own, and answers as the server.
    fn fetch(&self, path: &str, answer: &(impl AsRef<[u8]> + ?Sized)) -> Response {
        self.fetch_with(path, "", answer).0
    }

    /// Like [`fetch`](Self::fetch), with additional lines in the request; also returns the server's request.
    fn fetch_with(
        &self,
        path: &str,
        lines: &str,
        answer: &(impl AsRef<[u8]> + ?Sized),
    ) -> (Response, String) {
        let mut client = self.carrick.connect();
        client.send(get(path, lines));
        let mut upstream = self.server.accept();
        let asked = upstream.read_head();
        upstream.send(answer);
        upstream.half_close();
        let response = client.read_response("GET");
        // The next request must have its own connection, too.
        drop(upstream);
        (response, asked)
    }

    /// Requests `path`, which must be answered without the server.
    fn find(&self, path: &str) -> Response {
        self.find_with(path, "")
    }

    /// Like [`find`](Self::find), with additional lines in the request.
    fn find_with(&self, path: &str, lines: &str) -> Response {
        let response = self.carrick.connect().ask(&get(path, lines));
        self.server.expect_no_connection();
        response
    }
}

/// A switch whose only route is cached, with additional lines in `[cache]` and the route.
fn cached_switch(servers: &[SocketAddr], cache: &str, route: &str) -> String {
    let text = switch_text(servers).replace(
        "upstream = \"u\"\n[upstream",
        &format!("upstream = \"u\"\ncache = true\n{route}\n[upstream"),
    );
    format!("[cache]\n{cache}\n{text}")
}

/// A request.
fn get(path: &str, lines: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n")
}

/// A response with these lines and this body, at the end of which the connection closes.
fn ok(lines: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n{lines}\r\n{body}")
}

/// `Cache-Status`.
fn status(response: &Response) -> String {
    response.field("cache-status").unwrap_or_default()
}

/// The age in seconds.
fn age(response: &Response) -> Option<u64> {
    response.field("age")?.parse().ok()
}
