//! Two carricks at the ends of a link, between clients and servers.
mod addresses;
mod ends;
mod faults;
mod pool;
mod relaying;
mod strangers;

use crate::support::carrick::upstream_text;
use crate::support::place::TUNNEL_PORT;
use crate::support::{Carrick, Peer, Place, Server};
use std::net::SocketAddr;

/// The port of the far end.
const LINK_PORT: u16 = 14140;

/// One worker at each end, so that it is known which pool has a connection.
const ONE_WORKER: &str = "[workers]\ncount = 1\n";

/// A client's side and a server's side, with a link between them.
struct Stage {
    server: Server,
    near: Carrick,
    far: Carrick,
    near_place: Place,
    far_place: Place,
}

impl Stage {
    /// `near` and `link` are additional keys of the near end: before its tables, and of its link. `far` goes before the
    /// tables of the far end.
    fn with(near: &str, link: &str, far: &str) -> Self {
        let (near_place, far_place) = (Place::claim(), Place::claim());
        let server = Server::listen(&far_place);
        let far = Carrick::start(&far_place, &far_text(far, "deny_to = []"));
        let peer = far_place.at(LINK_PORT);
        let text = near_text(near, link, peer, server.address());
        Self {
            server,
            near: Carrick::start(&near_place, &text),
            far,
            near_place,
            far_place,
        }
    }

    fn plain() -> Self {
        Self::with(ONE_WORKER, "preconnect = 0", ONE_WORKER)
    }

    fn begin(&self) -> (Peer, Peer) {
        (self.near.connect_tunnel(), self.server.accept())
    }

    /// Like `begin`; the client is at either end.
    fn begin_from(&self, client_first: bool) -> (Peer, Peer) {
        let (client, upstream) = self.begin();
        if client_first {
            (client, upstream)
        } else {
            (upstream, client)
        }
    }

    fn near_metric(&self, name: &str) -> f64 {
        self.near.metric(name, &[])
    }

    /// The only idle connection has been used before: it survived everything.
    fn expect_one_connection(&self) {
        let (mut client, mut upstream) = self.begin();
        client.send("still there?");
        upstream.expect("still there?");
        assert_eq!(self.near_metric("carrick_link_lost_total"), 0.0);
        assert_eq!(
            self.near_metric("carrick_link_connections_opened_total"),
            1.0
        );
    }
}

fn near_text(tables: &str, link: &str, peer: SocketAddr, server: SocketAddr) -> String {
    format!(
        "{tables}\n[link.sky]\npeer = \"{peer}\"\n{link}\n[[listener]]\nlisten = \"{{ip}}:{TUNNEL_PORT}\"\nmode = \"tunnel\"\n[[listener.route]]\nupstream = \"u\"\nlink = \"sky\"\n{}",
        upstream_text("u", &[server])
    )
}

fn far_text(tables: &str, listener: &str) -> String {
    let allow = if listener.contains("allow") {
        ""
    } else {
        "allow = [\"127.0.0.0/8\"]\n"
    };
    format!(
        "{tables}\n[[listener]]\nlisten = \"{{ip}}:{LINK_PORT}\"\nmode = \"link\"\n{allow}{listener}\n"
    )
}
