//! HTTP/2 from clients.
pub mod client;
mod ending;
mod floods;
mod frames;
mod limits;
mod malformed;
mod programs;
pub mod servers;
mod serving;
mod tunnels;

use crate::support::carrick::upstream_text;
use crate::support::place::LISTENER_PORT;
use crate::support::server::Serving;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server};
use std::net::SocketAddr;

/// No time limit is reached while a test runs.
pub const PATIENT: &str = "[timeouts]\nhead = \"10m\"\nidle = \"10m\"\ndrain = \"10m\"\n";

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A switch with these keys of the listener.
fn switch_text(keys: &str, servers: &[SocketAddr]) -> String {
    format!(
        "[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n{keys}\n[[listener.route]]\nupstream = \"u\"\n{}",
        upstream_text("u", servers)
    )
}

fn start(place: &Place, servers: &[SocketAddr]) -> Carrick {
    Carrick::start(place, &(PATIENT.to_owned() + &switch_text("", servers)))
}

/// A server that answers `ok`.
fn ok_server(place: &Place) -> Serving {
    Server::listen(place).serve(|peer, _| answer_requests(peer, |_| OK.to_vec()))
}
