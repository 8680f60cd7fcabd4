//! How connections are led to gateways that have no rules of their own for it.

use anyhow::Result;

use super::{Family, Job};
use crate::testbed::Testbed;
use crate::testbed::rules::Rules;

/// The table of nftables.
const TABLE: &str = "ip carrick_lab";
/// The mark of packets that belong to the gateway's sockets, and the routing table for these. Others than carrick's.
const MARK: u32 = 1;
const ROUTES: u32 = 100;

/// Leads what clients send to a port of the server to the gateway's listener, and what the server answers to the sockets that
/// the gateway has opened with the clients' addresses: PEPsal wants that. carrick makes its rules itself, and others intercept
/// nothing: they want none.
///
/// # Errors
/// When the kernel or a tool refuses.
pub(super) fn rules(
    family: Family,
    job: Job,
    testbed: &Testbed,
    server_port: &str,
) -> Result<Option<Rules>> {
    if family != Family::Pepsal {
        return Ok(None);
    }
    let (server, port) = (testbed.addresses().server, job.port());
    let text = format!(
        "table {TABLE} {{
            chain prerouting {{
                type filter hook prerouting priority mangle; policy accept;
                iifname p0 ip daddr {server} tcp dport {server_port} tproxy to :{port} meta mark set {MARK} accept
                iifname p1 ip saddr {server} tcp sport {server_port} socket transparent 1 meta mark set {MARK} accept
            }}
        }}"
    );
    let add = [
        format!("rule add fwmark {MARK} lookup {ROUTES}"),
        format!("route add local default dev lo table {ROUTES}"),
    ];
    let undo = vec![
        format!("rule del fwmark {MARK} lookup {ROUTES}"),
        format!("route del local default dev lo table {ROUTES}"),
    ];
    Rules::load(&testbed.proxy, TABLE, &text, &add, undo).map(Some)
}
