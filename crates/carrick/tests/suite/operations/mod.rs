//! Operating a running carrick: ending, reloading, log rotation, exhausted resources, and monitoring.
mod admin;
mod descriptors;
mod drain;
mod leftovers;
mod load;
mod logs;
mod pace;
mod package;
mod privileges;
mod reload;
mod sandbox;
mod service_manager;
mod stalled;
mod stalled_beds;
mod stalled_far;
mod start;
mod top;
mod upgrade;

use crate::support::{Place, Server};

/// A server that answers each request with its target.
fn echo_server(place: &Place) -> crate::support::server::Serving {
    Server::listen(place).serve(|peer, _| {
        crate::support::server::answer_requests(peer, load::echo_target);
    })
}
