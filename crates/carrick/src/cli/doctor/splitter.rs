//! A splitter's requirements on this machine's settings: reported, never changed.
use super::machine::Fact;
use crate::config::plan::{Mode, Plan};
use std::path::Path;

/// Handshakes that wait for their third segment: over a long link, each waits for a round trip.
const HANDSHAKES_WANTED: u64 = 4096;
/// Both halves, and a pipe for each direction while data is in flight.
const DESCRIPTORS_EACH: u64 = 6;

/// Advice about the settings; empty if the plan has neither a splitter nor TCP profiles. `sysctl` is `/proc/sys`;
/// `descriptors` is the hard limit of this process, `None` if unlimited.
pub fn advice(plan: &Plan, sysctl: &Path, descriptors: Option<u64>) -> Vec<Fact> {
    let mut modes = plan.listeners.iter().map(|listener| &listener.mode);
    let splits = modes.any(|mode| matches!(mode, Mode::Split(_)));
    if !splits && plan.tcp_profiles.is_empty() {
        return Vec::new();
    }
    let read = |key: &str| {
        let text = std::fs::read_to_string(sysctl.join(key.replace('.', "/"))).ok()?;
        // Of several numbers, the last one is the maximum.
        text.split_whitespace().last()?.parse::<u64>().ok()
    };
    let mut facts = Vec::new();
    let mut least = |name: &'static str, wanted: u64, why: &str| {
        facts.push(fact(name, read(name), |value| value >= wanted, wanted, why));
    };
    let profiles = || plan.tcp_profiles.iter().map(|plan| &plan.profile);
    if let Some(bytes) = profiles().filter_map(|one| one.receive_buffer_bytes).max() {
        let why = "the largest `receive_buffer`, or bandwidth × round trip, of a TCP profile";
        least("net.core.rmem_max", bytes.into(), why);
    }
    if let Some(bytes) = profiles().filter_map(|one| one.send_buffer_bytes).max() {
        let why = "the largest `send_buffer`, or bandwidth × round trip, of a TCP profile";
        least("net.core.wmem_max", bytes.into(), why);
    }
    let queue = "a burst of connections over a long link waits there";
    least("net.core.somaxconn", HANDSHAKES_WANTED, queue);
    least("net.ipv4.tcp_max_syn_backlog", HANDSHAKES_WANTED, queue);
    if plan.interceptions().next().is_some() {
        let why = "this machine is a router, also for what is not split";
        least("net.ipv4.ip_forward", 1, why);
        if plan.interceptions().any(|one| one.takes_v6()) {
            least("net.ipv6.conf.all.forwarding", 1, why);
        }
        let why = "otherwise each packet of a split connection is routed anew";
        least("net.ipv4.ip_early_demux", 1, why);
    }
    let connections = u64::try_from(plan.limits.connections).unwrap_or(u64::MAX);
    if let Some(most) = read("net.netfilter.nf_conntrack_max") {
        // With connection tracking, each half is tracked.
        let name = "net.netfilter.nf_conntrack_max";
        let wanted = connections.saturating_mul(2);
        let why = "two for each of [limits] connections, as the firewall tracks them";
        facts.push(fact(name, Some(most), |value| value >= wanted, wanted, why));
    }
    let idle = "net.ipv4.tcp_slow_start_after_idle";
    let why = "otherwise a connection restarts with a small window after each pause";
    facts.push(fact(idle, read(idle), |value| value == 0, 0, why));
    if plan.interceptions().any(|one| one.keeps_client) {
        let name = "net.ipv4.conf.all.rp_filter";
        let why = "1 drops answers to clients' addresses that come in by another interface than the way to the server";
        facts.push(fact(name, read(name), |value| value != 1, 2, why));
    }
    let wanted = connections.saturating_mul(DESCRIPTORS_EACH);
    if let Some(most) = descriptors.filter(|most| *most < wanted) {
        facts.push(Fact {
            name: "open files",
            value: most.to_string(),
            meaning: format!(
                "enough for about {} split connections of [limits] connections = {connections}: raise it (`LimitNOFILE={wanted}`)",
                most / DESCRIPTORS_EACH
            ),
        });
    }
    facts
}

fn fact(
    name: &'static str,
    value: Option<u64>,
    is_right: impl Fn(u64) -> bool,
    wanted: u64,
    why: &str,
) -> Fact {
    let meaning = match value {
        None => format!("cannot be read here; {wanted} is right: {why}"),
        Some(value) if is_right(value) => String::new(),
        Some(_) => format!("`sysctl -w {name}={wanted}`: {why}"),
    };
    Fact {
        name,
        value: value.map_or("unknown".to_owned(), |value| value.to_string()),
        meaning,
    }
}

#[cfg(test)]
mod tests;
