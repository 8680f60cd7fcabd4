//! Cache peers: carrick, Squid, and scripted ones.
mod answers;
mod failures;
mod owners;
mod requests;

use crate::support::carrick::FORWARD_TEXT;
use crate::support::server::{Serving, answer_requests};
use crate::support::{Carrick, Peer, Place, Response, Server};
use std::net::SocketAddr;

/// A forward proxy with these lines in `[cache]`.
fn forward(place: &Place, cache: &str) -> Carrick {
    Carrick::start(place, &format!("[cache]\n{cache}\n{FORWARD_TEXT}"))
}

/// A forward proxy that is not a member, and asks this peer for everything.
fn asking(place: &Place, cache_peer: SocketAddr) -> Carrick {
    forward(place, &cache_peers(&[cache_peer], ""))
}

/// The key `peers`, with additional keys. The time-outs are long, so that a busy machine does not make a live peer look dead.
fn cache_peers(members: &[SocketAddr], more: &str) -> String {
    let members: Vec<String> = members.iter().map(ToString::to_string).collect();
    let patience = if more.contains("answer") {
        ""
    } else {
        ", connect = \"60s\", answer = \"60s\""
    };
    format!("peers = {{ members = {members:?}{more}{patience} }}")
}

/// An origin whose responses are fresh for a minute, with the path as their body.
fn origin(place: &Place) -> Serving {
    Server::listen(place).serve(|peer, _| {
        answer_requests(peer, |head| {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            // Squid does not serve a response without a date from its store.
            let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT");
            format!(
                "HTTP/1.1 200 OK\r\nDate: {date}\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\nContent-Length: {}\r\n\r\n{path}",
                path.len()
            )
            .into_bytes()
        });
    })
}

/// Sends a request to a forward proxy on a connection of its own.
fn fetch(carrick: &Carrick, origin: SocketAddr, path: &str) -> Response {
    fetch_with(carrick, origin, path, "")
}

/// Like [`fetch`], with additional lines.
fn fetch_with(carrick: &Carrick, origin: SocketAddr, path: &str, lines: &str) -> Response {
    carrick
        .connect_forward()
        .ask(&request("GET", origin, path, lines))
}

fn request(method: &str, origin: SocketAddr, path: &str, lines: &str) -> String {
    format!("{method} http://{origin}{path} HTTP/1.1\r\nHost: {origin}\r\n{lines}\r\n")
}

/// A client that asks for `/a`, and the end of the cache peer that was asked for it.
fn asked(carrick: &Carrick, origin: SocketAddr, cache_peer: &Server) -> (Peer, Peer) {
    let mut client = carrick.connect_forward();
    client.send(request("GET", origin, "/a", ""));
    let mut peer = cache_peer.accept();
    peer.read_head();
    (client, peer)
}

/// Waits for this number of requests to cache peers with this result.
fn wait_for_answers(carrick: &Carrick, result: &str, count: f64) {
    let label = format!("result=\"{result}\"");
    carrick.wait_for_metric("carrick_cache_peer_answers_total", &[&label], count);
    assert_eq!(answers(carrick, result), count);
}

/// Number of requests to cache peers with this result.
fn answers(carrick: &Carrick, result: &str) -> f64 {
    carrick.metric(
        "carrick_cache_peer_answers_total",
        &[&format!("result=\"{result}\"")],
    )
}

/// The response of a cache peer without the object.
const MISS: &str = "HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 4\r\n\r\nnone";
