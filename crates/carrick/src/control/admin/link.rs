//! Links as a part of `/status`.
use crate::control::ControlState;
use serde::Serialize;

/// The configuration, and totals over all links.
#[derive(Debug, Serialize)]
pub(super) struct Links {
    peers: Vec<Peer>,
    connections_open: u64,
    connections_idle: u64,
    relayed: u64,
    reused: u64,
    refused: u64,
    lost: u64,
    direct: u64,
    bytes_received: u64,
    bytes_sent: u64,
}

#[derive(Debug, Serialize)]
struct Peer {
    name: String,
    address: String,
}

impl Links {
    pub(super) fn of(state: &ControlState) -> Self {
        let running = state.running.load();
        let peers = running.plan.links.iter().map(|link| Peer {
            name: link.name.clone(),
            address: link.peer.to_string(),
        });
        Self {
            peers: peers.collect(),
            connections_open: state.sum(|worker| worker.link.open()),
            connections_idle: state.sum(|worker| worker.link.idle()),
            relayed: state.sum(|worker| worker.link.relayed.get()),
            reused: state.sum(|worker| worker.link.reused.get()),
            refused: state.sum(|worker| worker.link.refused.get()),
            lost: state.sum(|worker| worker.link.lost.get()),
            direct: state.sum(|worker| worker.link.direct.get()),
            bytes_received: state.sum(|worker| worker.link.bytes_received.get()),
            bytes_sent: state.sum(|worker| worker.link.bytes_sent.get()),
        }
    }
}
