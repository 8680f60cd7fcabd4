//! HTTP/2 to servers.
mod asking;
mod ends;
mod grpc;
mod haproxy;
mod malformed;
mod programs;
mod resets;
pub mod server;

use super::PATIENT;
use crate::support::carrick::upstream_text;
use crate::support::place::LISTENER_PORT;
use crate::support::{Carrick, Place};
use std::net::SocketAddr;

/// A switch with one worker, and an upstream of these servers with these further keys.
fn switch_text(servers: &[SocketAddr], keys: &str) -> String {
    format!(
        "[workers]\ncount = 1\n[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n{}{keys}\n",
        upstream_text("u", servers)
    )
}

/// Such a switch, which never tires of waiting.
fn start(place: &Place, servers: &[SocketAddr], keys: &str) -> Carrick {
    Carrick::start(place, &(PATIENT.to_owned() + &switch_text(servers, keys)))
}
