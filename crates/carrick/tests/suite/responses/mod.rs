//! Responses that the kernel forwards (switch, engine `packet`): a client, a router with carrick, and servers, each in a network namespace.
mod bodies;
mod by_default;
mod chosen;
mod classified;
mod clients;
mod ends;
mod lasting;
mod operations;
mod paced;
mod read;

use crate::support::access_log::Line;
use crate::support::message::head_end;
use crate::support::random::{Random, hash};
use crate::support::server::Serving;
use crate::support::{End, Peer, Server, wait_for, wait_until};
use crate::transparent::bed::{Bed, Running};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// carrick's address.
const LISTENER: &str = "10.1.0.1:8080";

/// Scripted servers; requests to `/other/` go to the second one, through the process.
const SERVERS: [&str; 2] = ["10.2.0.2:9000", "10.2.0.3:9001"];

/// A switch with both servers; `[timeouts]` and `[limits]` can be put before it.
const SWITCH: &str = r#"
[[listener]]
listen = "10.1.0.1:8080"
mode = "switch"
[[listener.route]]
path = "/other/"
upstream = "other"
engine = "auto"
requests = "process"
[[listener.route]]
path = "/closed/"
upstream = "closed"
[[listener.route]]
path = "/s/"
upstream = "servers"
engine = "packet"
[upstream.servers]
servers = ["10.2.0.2:9000"]
[upstream.other]
servers = ["10.2.0.3:9001"]
[upstream.closed]
servers = ["10.2.0.3:9"]
"#;

/// A short time-out, but longer than a thread of a test stands still.
const IMPATIENT: &str = "[timeouts]\nidle = \"15s\"\ndrain = \"2s\"\n";

/// A carrick between a client and servers.
struct Play {
    // Must end before the namespaces do.
    carrick: Running,
    bed: Bed,
}

impl Play {
    /// `None`, with a message, if it cannot be set up here.
    fn begin(before: &str) -> Option<Self> {
        Self::begin_with(before, SWITCH)
    }

    /// With another configuration. One worker, so that a later client can get a connection that an earlier one used.
    fn begin_with(before: &str, switch: &str) -> Option<Self> {
        Self::begin_on(1, before, switch)
    }

    fn begin_on(workers: usize, before: &str, switch: &str) -> Option<Self> {
        let bed = Bed::build()?;
        let carrick = bed.carrick(&format!("{before}[workers]\ncount = {workers}\n{switch}"));
        let said = carrick.said.wait_for("engine packet      usable");
        said.unwrap_or_else(|said| panic!("without the engine there is nothing to test: {said}"));
        Some(Self { carrick, bed })
    }

    /// A listening server of [`SERVERS`].
    fn server(&self, number: usize) -> Server {
        let address: SocketAddr = SERVERS[number].parse().expect("an address");
        let listen = || Ok(Server::listen_at(address));
        self.bed.server.inside(listen).expect("a server")
    }

    /// A server of [`SERVERS`] that answers automatically.
    fn serve(
        &self,
        number: usize,
        answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Serving {
        self.server(number)
            .serve(move |peer, _| answer_requests(peer, &answer))
    }

    /// A client.
    fn connect(&self) -> Peer {
        let to: SocketAddr = LISTENER.parse().expect("an address");
        let connect = || Ok(Peer::connect(to));
        self.bed.client.inside(connect).expect("a connection")
    }

    /// A client and its server's side, after two requests: the kernel handles the following ones.
    fn pair(&self, server: &Server) -> (Peer, Peer) {
        let mut client = self.connect();
        client.send(get("/s/first"));
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(ok(b"warm"));
        assert_eq!(client.read_response("GET").body, b"warm");
        answer(&mut client, &mut upstream, "/s/second", b"warm");
        (client, upstream)
    }

    /// Waits until everything that a client has sent has arrived.
    fn wait_until_arrived(&self, client: &Peer) {
        wait_until("the client's bytes", || {
            let shown = self.bed.client.inside(|| Ok(client.near_end().look()));
            let shown = shown.expect("the client").expect("its connection");
            shown.unacknowledged == 0
        });
    }

    /// Waits until carrick's end of a connection has noticed that the other side has closed.
    fn wait_for_end(&self, carricks_end: End) {
        wait_until("an end", || {
            let knows = self.bed.router.inside(|| Ok(carricks_end.knows_of_end()));
            knows.expect("the router")
        });
    }

    /// Waits until the access log has `count` lines; returns those of the engine `packet`.
    fn packet_lines(&self, count: usize) -> Vec<Line> {
        let lines = self.carrick.access_log(count).into_iter().map(Line);
        lines
            .filter(|line| line.text("engine") == "packet")
            .collect()
    }

    /// The log line for a target whose response was complete and came by the engine.
    fn complete_line(&self, target: &str) -> Line {
        let line = self.line(target);
        let how = (line.text("engine"), line.text("ended"));
        assert_eq!(how, ("packet", "complete"), "{target}");
        line
    }

    /// The log line for a target.
    fn line(&self, target: &str) -> Line {
        wait_for(&format!("a line for {target}"), || {
            let lines = self.carrick.access_log(0);
            let mut lines = lines.into_iter().map(Line);
            lines.find(|line| line.text("target") == target)
        })
    }
}

/// Requests that the kernel has forwarded.
fn by_kernel(play: &Play) -> f64 {
    let metric = "carrick_kernel_requests_total{by=\"kernel\"}";
    play.carrick.metric(&play.bed, metric)
}

/// Answers requests, with bodies of known length or none, until the client closes, or ends in mid-head.
fn answer_requests(mut peer: Peer, answer: impl Fn(&str) -> Vec<u8>) {
    while peer.reads_until(|bytes| head_end(bytes).is_some()) {
        let head = peer.read_head();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.map_or(0, |length| length.parse().expect("a length"));
        if !peer.reads_until(|bytes| bytes.len() >= length) {
            return;
        }
        peer.read_exact(length);
        if peer.try_send(answer(&head)).is_err() {
            return;
        }
    }
}

/// A request.
fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n")
}

/// A client requests a target; its server's side reads the request.
fn ask(client: &mut Peer, upstream: &mut Peer, target: &str) {
    client.send(get(target));
    assert!(upstream.read_head().contains(target));
}

/// Like [`ask`], with a response.
fn answer(client: &mut Peer, upstream: &mut Peer, target: &str, body: &[u8]) {
    ask(client, upstream, target);
    upstream.send(ok(body));
    assert_eq!(client.read_response("GET").body, body);
}

/// Ends a connection by a reset, or regularly.
fn end(peer: Peer, is_reset: bool) {
    if is_reset {
        peer.reset();
    }
}

/// A response with a length.
fn ok(body: &[u8]) -> Vec<u8> {
    let mut response =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    response.extend_from_slice(body);
    response
}

/// The content for a target, whose last part is the number of bytes and the seed.
fn content(target: &str) -> Vec<u8> {
    let number = target.rsplit('/').next().unwrap_or_default();
    let bytes: usize = number.parse().unwrap_or(0);
    Random::new(bytes as u64).bytes(bytes)
}

/// The target in a request's head.
fn target_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}
