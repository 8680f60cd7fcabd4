//! The tc filters and qdiscs of an interface, as the kernel lists them. Needs no privileges.

use super::Direction;
use crate::netlink::{self, Family, attribute, text, u32_at};
use std::io;

/// linux/rtnetlink.h, linux/pkt_sched.h, linux/pkt_cls.h
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
const TCMSG_BYTES: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_ID: u16 = 11;
/// The handle of both qdiscs for what comes in, `clsact` and `ingress`.
const QDISC_HANDLE: u32 = 0xffff_0000;

/// A filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    /// `bpf`, `flower`, ...
    pub(super) kind: String,
    /// Lower ones run first; `pref` in the words of `tc`.
    pub(super) priority: u32,
    pub(super) handle: u32,
    /// Of a BPF program: the name that whoever attached it gave.
    pub(super) name: String,
    /// Of a BPF program: its number.
    pub(super) program: Option<u32>,
}

/// Where filters of a direction hang (`TC_H_CLSACT`, `TC_H_MIN_INGRESS` and `TC_H_MIN_EGRESS`).
const fn parent(direction: Direction) -> u32 {
    match direction {
        Direction::Ingress => 0xffff_fff2,
        Direction::Egress => 0xffff_fff3,
    }
}

/// The filters of one direction, in the order in which they run.
pub(super) fn filters(interface: u32, direction: Direction) -> io::Result<Vec<Filter>> {
    let mut request = [0; TCMSG_BYTES];
    request[4..8].copy_from_slice(&interface.to_ne_bytes());
    request[12..16].copy_from_slice(&parent(direction).to_ne_bytes());
    let messages = netlink::dump(Family::Route, RTM_GETTFILTER, &request)?;
    Ok(messages
        .iter()
        .filter(|message| message.kind == RTM_NEWTFILTER)
        .filter_map(|message| parse(&message.body))
        // Each classifier also tells of itself, without a filter.
        .filter(|filter| filter.handle != 0)
        .collect())
}

fn parse(body: &[u8]) -> Option<Filter> {
    let attributes = body.get(TCMSG_BYTES..)?;
    let options = attribute(attributes, TCA_OPTIONS).unwrap_or_default();
    let kind = attribute(attributes, TCA_KIND).map(text)?;
    let is_bpf = kind == "bpf";
    let option = |wanted| attribute(options, wanted).filter(|_| is_bpf);
    Some(Filter {
        kind,
        handle: u32_at(body, 8)?,
        // `tcm_info`: priority, protocol.
        priority: u32_at(body, 16)? >> 16,
        name: option(TCA_BPF_NAME).map(text).unwrap_or_default(),
        program: option(TCA_BPF_ID).and_then(|id| u32_at(id, 0)),
    })
}

/// The qdisc that has the filters: `clsact`, `ingress` (for one direction only), or none.
pub(super) fn qdisc(interface: u32) -> io::Result<Option<String>> {
    let messages = netlink::dump(Family::Route, RTM_GETQDISC, &[0; TCMSG_BYTES])?;
    Ok(messages
        .iter()
        .filter(|message| message.kind == RTM_NEWQDISC)
        .filter(|message| {
            u32_at(&message.body, 4) == Some(interface)
                && u32_at(&message.body, 8) == Some(QDISC_HANDLE)
        })
        .find_map(|message| attribute(message.body.get(TCMSG_BYTES..)?, TCA_KIND).map(text)))
}
