//! Rules for routing that look at firewall marks.

use super::Obstacle;
use crate::Reason;
use crate::netlink::{self, Family, attribute, u32_at};
use std::io;

/// linux/rtnetlink.h, linux/fib_rules.h
const RTM_NEWRULE: u16 = 32;
const RTM_GETRULE: u16 = 34;
const FIB_RULE_HDR_BYTES: usize = 12;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_FWMASK: u16 = 16;
const FRA_PROTOCOL: u16 = 21;

/// Who has made a rule or a route, as carrick says it for those of its own (`protocol` of ip-rule(8)): these do no harm.
pub const OWN_PROTOCOL: u8 = 196;

/// Rules that route by marks, if there are any.
pub(super) fn marks() -> Option<Obstacle> {
    let mut found = Vec::new();
    for (family, name) in [(libc::AF_INET, "ip rule"), (libc::AF_INET6, "ip -6 rule")] {
        // Without IPv6 in the kernel there are none of it.
        let priorities = marked(family).unwrap_or_default();
        if !priorities.is_empty() {
            found.push(format!("{name} {}", priorities.join(", ")));
        }
    }
    if found.is_empty() {
        return None;
    }
    Some(Obstacle {
        name: "firewall marks",
        found: format!("routes are chosen by them: {}", found.join("; ")),
        effect: "Packets of a splice have no mark of netfilter, so where only marked packets take another route, they take the \
                 usual one."
            .to_owned(),
        remedy: "Choose the route by addresses or interfaces, or use another engine for these networks.".to_owned(),
        keeps_auto_off: Some(Reason::PacketMarks),
    })
}

/// The rules of a family that look at a mark, as `PRIORITY: fwmark MARK/MASK`.
fn marked(family: libc::c_int) -> io::Result<Vec<String>> {
    let mut request = [0; FIB_RULE_HDR_BYTES];
    request[0] = family as u8;
    let messages = netlink::dump(Family::Route, RTM_GETRULE, &request)?;
    Ok(messages
        .iter()
        .filter(|message| message.kind == RTM_NEWRULE)
        .filter_map(|message| {
            let attributes = message.body.get(FIB_RULE_HDR_BYTES..)?;
            if attribute(attributes, FRA_PROTOCOL) == Some(&[OWN_PROTOCOL]) {
                return None;
            }
            let number = |kind| attribute(attributes, kind).and_then(|value| u32_at(value, 0));
            let mask = number(FRA_FWMASK)?;
            Some(format!(
                "{}: fwmark {:#x}/{mask:#x}",
                number(FRA_PRIORITY).unwrap_or(0),
                number(FRA_FWMARK).unwrap_or(0)
            ))
        })
        .collect())
}
