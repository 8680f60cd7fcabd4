//! The start-up message on standard output.
use crate::accept::listen::Bound;
use crate::config::{self, plan::Mode, plan::Plan};
use crate::control::EngineStatus;
use crate::privileges::GivenUp;
use std::net::SocketAddr;

/// Lists listeners, identity, usable engines, and a command to try.
pub(super) struct Banner {
    /// The text before and after the list of engines.
    parts: [String; 2],
}

impl Banner {
    pub(super) fn new(plan: &Plan, bound: Option<&Bound>, given_up: &GivenUp) -> Self {
        let mut before = format!("carrick {} is ready\n", env!("CARGO_PKG_VERSION"));
        for line in config::summary::lines(plan) {
            before += &format!("  {line}\n");
        }
        for (asked, socket) in bound
            .into_iter()
            .flatten()
            .filter(|(asked, _)| asked.port() == 0)
        {
            if let Ok(address) = socket.local_addr() {
                before += &format!("  {asked} is {address}\n");
            }
        }
        before += &format!("  runs as {}\n", given_up.identity);
        before += &format!("  sandbox: {}\n", given_up.identity.sandbox.summary());
        let mut behind = "try\n".to_owned();
        for command in commands_to_try(plan) {
            behind += &format!("  {command}\n");
        }
        Self {
            parts: [before, behind],
        }
    }

    pub(super) fn text(&self, engines: &[EngineStatus]) -> String {
        let [before, behind] = &self.parts;
        let mut text = format!("{before}engines\n");
        for engine in engines {
            let is = if engine.usable { "" } else { "not " };
            text += &format!("  {:<18} {is}usable: {}\n", engine.name, engine.reason);
        }
        text + behind
    }
}

fn commands_to_try(plan: &Plan) -> Vec<String> {
    let mut commands = Vec::new();
    if let Some(forward) = plan
        .listeners
        .iter()
        // Transparent listeners are not connected to directly.
        .filter(|listener| listener.interception.is_none())
        .find(|listener| matches!(listener.mode, Mode::Forward(_)))
    {
        let proxy = reachable(forward.address);
        let proxy = match forward.tls {
            // The certificate has a name, and this is an address.
            Some(_) => format!("--proxy-insecure -x https://{proxy}"),
            None => format!("-x http://{proxy}"),
        };
        commands.push(format!("curl {proxy} http://example.org/"));
        commands.push(format!("curl {proxy} https://example.org/"));
    } else if let Some(switch) = plan
        .listeners
        .iter()
        .filter(|listener| listener.interception.is_none())
        .find(|listener| matches!(listener.mode, Mode::Switch(_)))
    {
        let address = reachable(switch.address);
        commands.push(match switch.tls {
            Some(_) => format!("curl -i --insecure https://{address}/"),
            None => format!("curl -i http://{address}/"),
        });
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
