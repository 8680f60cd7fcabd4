//! What carrick says for people once it serves.
use crate::config::{self, plan::Mode, plan::Plan};
use crate::privileges::GivenUp;
use crate::worker::Bound;
use carrick_splice::probe::Feature;
use std::net::SocketAddr;

/// What is listened on, who it is, which engines are usable, and what to try.
pub(super) fn banner(
    plan: &Plan,
    features: &[Feature],
    bound: Option<&Bound>,
    given_up: &GivenUp,
) -> String {
    let mut text = format!("carrick {} is ready\n", env!("CARGO_PKG_VERSION"));
    for line in config::summary::lines(plan) {
        text += &format!("  {line}\n");
    }
    for (asked, socket) in bound
        .into_iter()
        .flatten()
        .filter(|(asked, _)| asked.port() == 0)
    {
        if let Ok(address) = socket.local_addr() {
            text += &format!("  {asked} is {address}\n");
        }
    }
    text += &format!("  runs as {}\n", given_up.standing);
    text += &format!("  sandbox: {}\n", given_up.standing.sandbox.summary());
    text += "engines\n";
    for feature in features {
        text += &match &feature.usable {
            Ok(detail) => format!("  {:<18} usable: {detail}\n", feature.name),
            Err(because) => format!("  {:<18} not usable: {because}\n", feature.name),
        };
    }
    text += "try\n";
    for command in commands_to_try(plan) {
        text += &format!("  {command}\n");
    }
    text
}

fn commands_to_try(plan: &Plan) -> Vec<String> {
    let mut commands = Vec::new();
    if let Some(forward) = plan
        .listeners
        .iter()
        // Nobody is to connect to a transparent one.
        .filter(|listener| listener.interception.is_none())
        .find(|listener| matches!(listener.mode, Mode::Forward(_)))
    {
        let proxy = reachable(forward.address);
        commands.push(format!("curl -x http://{proxy} http://example.org/"));
        commands.push(format!("curl -x http://{proxy} https://example.org/"));
    } else if let Some(switch) = plan
        .listeners
        .iter()
        .filter(|listener| listener.interception.is_none())
        .find(|listener| matches!(listener.mode, Mode::Switch(_)))
    {
        commands.push(format!("curl -i http://{}/", reachable(switch.address)));
    }
    if let Some(admin) = plan.admin {
        commands.push(format!("curl http://{}/status", reachable(admin)));
    }
    commands.push("carrick doctor".to_owned());
    commands.truncate(3);
    commands
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    address
}
