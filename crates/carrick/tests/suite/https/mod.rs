//! HTTPS: TLS from clients to switches and forward proxies, and from these to servers.
mod acme;
pub mod certificates;
mod client;
mod handshakes;
mod ktls;
mod names;
mod redirects;
mod relaying;
mod reloading;
mod revocation;
mod servers;
mod serving;

use crate::support::carrick::upstream_text;
use crate::support::place::LISTENER_PORT;
use crate::support::{Carrick, Place};
use std::net::SocketAddr;

/// A switch with TLS and these keys of the listener.
fn switch_text(keys: &str, servers: &[SocketAddr]) -> String {
    format!(
        "[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n{keys}\n[[listener.route]]\nupstream = \"u\"\n{}",
        upstream_text("u", servers)
    )
}

/// The certificate in `NAME.pem` with the key in `NAME.key`.
pub fn pair(name: &str) -> String {
    format!("{{ certificate = \"{name}.pem\", key = \"{name}.key\" }}")
}

/// A switch with the certificate in `server.pem`, which never tires of waiting.
fn start(place: &Place, servers: &[SocketAddr]) -> Carrick {
    const PATIENT: &str = "[timeouts]\nhead = \"10m\"\nidle = \"10m\"\ndrain = \"2s\"\n";
    Carrick::start(
        place,
        &(PATIENT.to_owned() + &switch_text(&format!("tls = {}", pair("server")), servers)),
    )
}
