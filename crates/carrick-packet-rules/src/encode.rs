//! A rule as the program has it: `struct rule` of bpf/rules/rules.h.

use super::rule::{Action, Family, Match, Protocol, Rewrite, Rule, Timestamps, Window};
use super::skeleton::types::rule;
use super::{Count, RULES_MAX};
use carrick_splice::hooks::Direction;
use ipnet::IpNet;
use std::mem::{offset_of, size_of};
use std::net::IpAddr;

/// `enum rule_kind`.
mod kind {
    pub(super) const IN: u8 = 1;
    pub(super) const OUT: u8 = 2;
    pub(super) const TCP: u8 = 4;
    pub(super) const UDP: u8 = 8;
    pub(super) const IPV4: u8 = 16;
    pub(super) const IPV6: u8 = 32;
}

/// `enum rule_action`.
mod action {
    pub(super) const PASS: u8 = 0;
    pub(super) const DROP: u8 = 1;
    pub(super) const REDIRECT: u8 = 2;
    pub(super) const REWRITE: u8 = 3;
}

/// `enum rule_flag`.
mod flag {
    pub(super) const ADDRESSES: u32 = 1;
    pub(super) const PORTS: u32 = 2;
    pub(super) const TCP: u32 = 4;
    pub(super) const WINDOW: u32 = 8;
    pub(super) const WINDOW_SET: u32 = 16;
    pub(super) const MSS: u32 = 32;
    pub(super) const NO_TIMESTAMPS: u32 = 64;
    pub(super) const NO_SACK: u32 = 128;
    pub(super) const EXIT: u32 = 256;
    pub(super) const MARK: u32 = 512;
}

/// `RULE_NO_INTERFACE`: no interface has this number.
pub(super) const NO_INTERFACE: u32 = 0x7fff_ffff;

/// Where the rules begin in `struct rule_set`, and how long it is.
const RULES_AT: usize = offset_of!(super::skeleton::types::rule_set, rules);
const SET_BYTES: usize = size_of::<super::skeleton::types::rule_set>();

/// The program has room for as many rules as are promised.
const _: () = assert!(SET_BYTES == RULES_AT + RULES_MAX * size_of::<rule>());

/// A set of rules as it stands in the map. `index` gives the number of an interface.
pub(super) fn set(rules: &[Rule], index: impl Fn(&str) -> u32) -> Vec<u8> {
    let mut bytes = vec![0; SET_BYTES];
    debug_assert!(rules.len() <= RULES_MAX);
    put(&mut bytes, 0, &(rules.len() as u32).to_ne_bytes());
    for (place, rule) in rules.iter().enumerate() {
        let rule = to_bytes(&encode(rule, &index));
        put(&mut bytes, RULES_AT + place * rule.len(), &rule);
    }
    bytes
}

/// What the rule at `place` has done, on one CPU.
pub(super) fn count(set: &[u8], place: usize) -> Count {
    let at = RULES_AT + place * size_of::<rule>();
    Count {
        packets: u64_at(set, at + offset_of!(rule, packets)),
        bytes: u64_at(set, at + offset_of!(rule, bytes)),
        failed: u64_at(set, at + offset_of!(rule, failed)),
    }
}

fn encode(rule: &Rule, index: &impl Fn(&str) -> u32) -> rule {
    let mut encoded = encode_match(&rule.packets, index);
    match &rule.action {
        Action::Pass => encoded.action = action::PASS,
        Action::Drop => encoded.action = action::DROP,
        Action::Redirect(redirect) => {
            encoded.action = action::REDIRECT;
            encoded.port = redirect.port.to_be();
            if let Some(mark) = redirect.mark {
                encoded.flags |= flag::MARK;
                encoded.mark = mark;
            }
        }
        Action::Rewrite(rewrite) => {
            encoded.action = action::REWRITE;
            encode_rewrite(&mut encoded, rewrite, index);
        }
    }
    encoded
}

fn encode_match(packets: &Match, index: &impl Fn(&str) -> u32) -> rule {
    let (source, source_mask) = packets.source.map_or_else(Default::default, prefix);
    let (destination, destination_mask) = packets.destination.map_or_else(Default::default, prefix);
    let directions = match packets.direction {
        None => kind::IN | kind::OUT,
        Some(Direction::Ingress) => kind::IN,
        Some(Direction::Egress) => kind::OUT,
    };
    let protocols = match packets.protocol {
        None => kind::TCP | kind::UDP,
        Some(Protocol::Tcp) => kind::TCP,
        Some(Protocol::Udp) => kind::UDP,
    };
    let families = match packets.family() {
        None => kind::IPV4 | kind::IPV6,
        Some(Family::V4) => kind::IPV4,
        Some(Family::V6) => kind::IPV6,
    };
    rule {
        source,
        source_mask,
        destination,
        destination_mask,
        ifindex: packets.interface.as_deref().map_or(0, index),
        ifindex_mask: packets.interface.as_ref().map_or(0, |_| u32::MAX),
        source_port_min: *packets.source_ports.start(),
        source_port_max: *packets.source_ports.end(),
        destination_port_min: *packets.destination_ports.start(),
        destination_port_max: *packets.destination_ports.end(),
        vlan: packets.vlan.unwrap_or(0),
        kinds: directions | protocols | families,
        ..Default::default()
    }
}

fn encode_rewrite(encoded: &mut rule, rewrite: &Rewrite, index: &impl Fn(&str) -> u32) {
    for (place, address) in [rewrite.source, rewrite.destination]
        .into_iter()
        .enumerate()
    {
        let Some(address) = address else { continue };
        encoded.flags |= flag::ADDRESSES;
        let words = words(address);
        // Of IPv4 addresses, the last word is all there is.
        let (at, words) = match address {
            IpAddr::V4(_) => (place, &words[3..]),
            IpAddr::V6(_) => (4 * place, &words[..]),
        };
        encoded.new_addresses[at..][..words.len()].copy_from_slice(words);
        encoded.new_addresses_mask[at..][..words.len()].fill(u32::MAX);
    }
    let ports = [rewrite.source_port, rewrite.destination_port];
    for (place, port) in ports.into_iter().enumerate() {
        let Some(port) = port else { continue };
        encoded.flags |= flag::PORTS;
        encoded.new_ports[place] = port.to_be();
        encoded.new_ports_mask[place] = u16::MAX;
    }
    if let Some(name) = &rewrite.exit {
        encoded.flags |= flag::EXIT;
        encoded.exit = index(name);
    }
    let tcp = &rewrite.tcp;
    if *tcp != Default::default() {
        encoded.flags |= flag::TCP;
    }
    encoded.sequence = tcp.sequence;
    encoded.acknowledgement = tcp.acknowledgement;
    match tcp.window {
        None => {}
        Some(Window::Set(window)) => {
            encoded.flags |= flag::WINDOW_SET;
            encoded.window = window;
        }
        Some(Window::AtMost(window)) => {
            encoded.flags |= flag::WINDOW;
            encoded.window = window;
        }
    }
    if let Some(mss) = tcp.mss_max {
        encoded.flags |= flag::MSS;
        encoded.mss = mss;
    }
    match tcp.timestamps {
        Timestamps::Keep => {}
        Timestamps::Refuse => encoded.flags |= flag::NO_TIMESTAMPS,
        Timestamps::Add { value, echo } => {
            encoded.tsval = value;
            encoded.tsecr = echo;
        }
    }
    if tcp.refuses_sack {
        encoded.flags |= flag::NO_SACK;
    }
}

/// An address in network order, IPv4 as `::ffff:a.b.c.d`.
fn words(address: IpAddr) -> [u32; 4] {
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    to_words(u128::from_be_bytes(octets))
}

fn to_words(number: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| ((number >> shift) as u32).to_be())
}

/// A prefix and its mask. An IPv4 prefix is one of 96 bits more.
fn prefix(prefix: IpNet) -> ([u32; 4], [u32; 4]) {
    let bits = match prefix {
        IpNet::V4(prefix) => 96 + u32::from(prefix.prefix_len()),
        IpNet::V6(prefix) => u32::from(prefix.prefix_len()),
    };
    let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
    (words(prefix.addr()), to_words(mask))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// A rule's bytes as they are in memory; the structure has no gaps.
fn to_bytes(rule: &rule) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<rule>()];
    macro_rules! put_numbers {
        ($($field:ident),*) => {
            $(put(&mut bytes, offset_of!(rule, $field), &rule.$field.to_ne_bytes());)*
        };
    }
    macro_rules! put_lists {
        ($($field:ident),*) => {
            $(
                let list: Vec<u8> = rule.$field.iter().flat_map(|number| number.to_ne_bytes()).collect();
                put(&mut bytes, offset_of!(rule, $field), &list);
            )*
        };
    }
    put_lists!(source, source_mask, destination, destination_mask);
    put_lists!(new_addresses, new_addresses_mask, new_ports, new_ports_mask);
    put_numbers!(ifindex, ifindex_mask, vlan, kinds, action, flags);
    put_numbers!(source_port_min, source_port_max);
    put_numbers!(destination_port_min, destination_port_max);
    put_numbers!(sequence, acknowledgement, tsval, tsecr, window, mss);
    put_numbers!(port, mark, exit);
    bytes
}
