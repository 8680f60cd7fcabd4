//! Which rule takes a packet, compared with a plain model, for any rules and any packets.

use super::frame::{Frame, tcp, udp};
use super::run::{Bench, Verdict, bench};
use crate::{Action, Match, Protocol, Rule};
use carrick_splice::hooks::Direction;
use carrick_splice::hooks::Direction::{Egress, Ingress};
use ipnet::IpNet;
use proptest::option::of;
use proptest::prelude::*;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Cases and rules are few because the kernel waits for each set to be out of use; packets are many.
const CASES: u32 = 64;
const PACKETS: usize = 48;

/// A packet, and which way it goes.
#[derive(Debug, Clone)]
struct Going(Direction, Frame);

/// The model: the first rule that takes the packet.
fn first(rules: &[Rule], going: &Going) -> Option<usize> {
    rules.iter().position(|rule| takes(&rule.packets, going))
}

fn takes(packets: &Match, Going(direction, frame): &Going) -> bool {
    let protocol = match frame.transport {
        super::frame::Transport::Tcp(_) => Protocol::Tcp,
        _ => Protocol::Udp,
    };
    let vlan = frame.tags.first().map(|(_, number)| *number);
    let has = |prefix: Option<IpNet>, address: SocketAddr| {
        prefix.is_none_or(|prefix| prefix.contains(&address.ip()))
    };
    packets.direction.is_none_or(|wanted| wanted == *direction)
        && packets.interface.as_deref().is_none_or(|name| name == "lo")
        && packets.vlan == vlan
        && packets.protocol.is_none_or(|wanted| wanted == protocol)
        && has(packets.source, frame.source)
        && has(packets.destination, frame.destination)
        && packets.source_ports.contains(&frame.source.port())
        && packets
            .destination_ports
            .contains(&frame.destination.port())
}

/// Addresses that are near to each other, so that prefixes meet them.
pub fn v4() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        8 => (0_u32..16, 0_u32..32).prop_map(|(bits, shift)| IpAddr::V4(Ipv4Addr::from_bits(0x0a01_0203 ^ (bits << shift)))),
        1 => any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
    ]
}

pub fn v6() -> impl Strategy<Value = IpAddr> {
    let base = 0x2001_0db8_0001_0002_0003_0004_0005_0006_u128;
    prop_oneof![
        8 => (0_u128..16, 0_u32..128).prop_map(move |(bits, shift)| IpAddr::V6(Ipv6Addr::from_bits(base ^ (bits << shift)))),
        1 => any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
        // What IPv4 looks like inside the program.
        1 => v4().prop_map(|address| match address {
            IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
            IpAddr::V6(_) => address,
        }),
    ]
}

fn prefix(address: IpAddr, length: u8) -> IpNet {
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix = IpNet::new(address, length.min(most)).expect("a length that fits");
    prefix.trunc()
}

fn prefixes() -> impl Strategy<Value = (Option<IpNet>, Option<IpNet>)> {
    let v4 = (of(v4()), of(v4()), 0..=32_u8, 0..=32_u8);
    let v6 = (of(v6()), of(v6()), 0..=128_u8, 0..=128_u8);
    let both = |(source, destination, first, second): (Option<IpAddr>, Option<IpAddr>, u8, u8)| {
        (
            source.map(|address| prefix(address, first)),
            destination.map(|address| prefix(address, second)),
        )
    };
    prop_oneof![v4.prop_map(both), v6.prop_map(both)]
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![78_u16..84, Just(0), Just(u16::MAX), any::<u16>()]
}

fn ports() -> impl Strategy<Value = RangeInclusive<u16>> {
    prop_oneof![
        Just(0..=u16::MAX),
        (port(), port()).prop_map(|(one, other)| one.min(other)..=one.max(other)),
    ]
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Ingress), Just(Egress)]
}

fn rule() -> impl Strategy<Value = Rule> {
    (
        of(direction()),
        prop_oneof![6 => Just(None), 1 => Just(Some("lo")), 1 => Just(Some("not0"))],
        prop_oneof![4 => Just(None), 1 => (5_u16..8).prop_map(Some)],
        of(prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)]),
        prefixes(),
        ports(),
        ports(),
        prop_oneof![Just(Action::Pass), Just(Action::Drop)],
    )
        .prop_map(
            |(direction, interface, vlan, protocol, prefixes, source_ports, to_ports, action)| {
                Rule {
                    name: String::new(),
                    packets: Match {
                        direction,
                        interface: interface.map(Into::into),
                        vlan,
                        protocol,
                        source: prefixes.0,
                        destination: prefixes.1,
                        source_ports,
                        destination_ports: to_ports,
                    },
                    action,
                }
            },
        )
}

fn going() -> impl Strategy<Value = Going> {
    let addresses = prop_oneof![(v4(), v4()), (v6(), v6())];
    (
        direction(),
        any::<bool>(),
        addresses,
        (port(), port()),
        prop_oneof![4 => Just(None), 1 => (5_u16..8).prop_map(Some)],
    )
        .prop_map(|(direction, is_tcp, addresses, ports, vlan)| {
            let make = if is_tcp { tcp } else { udp };
            let mut frame = make("1.1.1.1:1", "1.1.1.1:1");
            frame.source = SocketAddr::new(addresses.0, ports.0);
            frame.destination = SocketAddr::new(addresses.1, ports.1);
            frame.tags = vlan.map(|number| (0x8100, number)).into_iter().collect();
            Going(direction, frame)
        })
}

/// Runs all packets, and compares verdicts and counts with the model's.
fn compare(bench: &mut Bench, rules: &[Rule], packets: &[Going]) -> Result<(), TestCaseError> {
    bench.replace(rules);
    let mut expected = vec![(0, 0); rules.len()];
    for going in packets {
        let taken = first(rules, going);
        let is_dropped = taken.is_some_and(|place| rules[place].action == Action::Drop);
        let outcome = bench.run(going.0, &going.1.bytes());
        let verdict = if is_dropped {
            Verdict::Dropped
        } else {
            Verdict::Next
        };
        prop_assert_eq!(outcome.verdict, verdict, "{:?}", going);
        if let Some(place) = taken {
            // Each is run twice.
            expected[place].0 += 2;
            expected[place].1 += 2 * going.1.ip_bytes();
        }
    }
    let counts = bench.counts();
    let counts: Vec<(u64, u64)> = counts
        .iter()
        .map(|count| (count.packets, count.bytes))
        .collect();
    prop_assert_eq!(counts, expected);
    Ok(())
}

#[test]
fn packets_meet_the_first_rule_that_the_model_says() {
    let Some(bench) = bench(&[]) else {
        return;
    };
    let bench = RefCell::new(bench);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: CASES,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let rules = prop::collection::vec(rule(), 0..20);
    let packets = prop::collection::vec(going(), PACKETS);
    runner
        .run(&(rules, packets), |(rules, packets)| {
            compare(&mut bench.borrow_mut(), &rules, &packets)
        })
        .expect("the model");
}
