//! The same tests with every engine: the result must not depend on it.
mod bulk;
mod pacing;
mod resets;

use crate::support::carrick::{FORWARD_TEXT, switch_text, tunnel_text};
use crate::support::{Carrick, Place};
use std::net::SocketAddr;

/// The engines that can be configured here.
const ENGINES: [&str; 4] = ["copy", "pipe", "auto", "socket"];

/// A tunnel to `server`.
fn tunnel(place: &Place, engine: &str, server: SocketAddr) -> Carrick {
    Carrick::start(
        place,
        &format!(
            "[splice]\nengine = \"{engine}\"\n{}",
            tunnel_text(&[server])
        ),
    )
}

/// A switch to `server`.
fn switch(place: &Place, engine: &str, server: SocketAddr) -> Carrick {
    Carrick::start(
        place,
        &format!(
            "[splice]\nengine = \"{engine}\"\n{}",
            switch_text(&[server])
        ),
    )
}

/// A forward proxy.
fn forward(place: &Place, engine: &str) -> Carrick {
    Carrick::start(
        place,
        &format!("[splice]\nengine = \"{engine}\"\n{FORWARD_TEXT}"),
    )
}
