//! Any rewriting of any packet gives the packet that would have been made with those numbers: checksums that carry, too.

use super::frame::{ACK, Frame, SYN, Tcp, Transport, tcp, udp};
use super::matching::{v4, v6};
use super::run::{Verdict, bench};
use crate::{Action, Match, Protocol, Rewrite, RewriteTcp, Rule, Timestamps, Window};
use carrick_splice::hooks::Direction::{Egress, Ingress};
use proptest::option::of;
use proptest::prelude::*;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};

const CASES: u32 = 48;
const FRAMES: usize = 32;

/// A packet's addresses, ports, hop limit, payload, and whether it is TCP.
type Outline = ((IpAddr, IpAddr), (u16, u16), u8, Vec<u8>, bool);

fn outline(is_v4: bool) -> impl Strategy<Value = Outline> {
    let addresses = if is_v4 {
        (v4(), v4()).boxed()
    } else {
        (v6(), v6()).boxed()
    };
    let payload = prop::collection::vec(prop_oneof![Just(0xff), Just(0), any::<u8>()], 0..64);
    let ports = (any::<u16>(), any::<u16>());
    (addresses, ports, 2_u8.., payload, any::<bool>())
}

/// Timestamps and SACK blocks, at any byte.
fn options() -> impl Strategy<Value = (usize, [u32; 4])> {
    (0_usize..8, any::<[u32; 4]>())
}

fn with_options(padding: usize, [tsval, tsecr, left, right]: [u32; 4]) -> Vec<u8> {
    let mut options = vec![1; padding];
    options.extend([8, 10]);
    options.extend([tsval, tsecr].map(u32::to_be_bytes).concat());
    options.extend([5, 10]);
    options.extend([left, right].map(u32::to_be_bytes).concat());
    options
}

type Header = (u32, u32, u16, bool, (usize, [u32; 4]));

fn header() -> impl Strategy<Value = Header> {
    (
        any::<u32>(),
        any::<u32>(),
        any::<u16>(),
        any::<bool>(),
        options(),
    )
}

fn frame(outline: Outline, header: &Header) -> Frame {
    let ((from, to), (source_port, destination_port), hops, payload, is_tcp) = outline;
    let make = if is_tcp { tcp } else { udp };
    let frame = make("1.1.1.1:1", "1.1.1.1:1").with(|frame| {
        frame.source = SocketAddr::new(from, source_port);
        frame.destination = SocketAddr::new(to, destination_port);
        frame.hops = hops;
        frame.payload = payload;
    });
    if !is_tcp {
        return frame;
    }
    frame.with_tcp(|tcp| {
        tcp.seq = header.0;
        tcp.ack = header.1;
        tcp.window = header.2;
        tcp.flags = if header.3 { ACK } else { SYN };
        tcp.options = with_options(header.4.0, header.4.1);
    })
}

fn of_tcp() -> impl Strategy<Value = RewriteTcp> {
    let window = prop_oneof![
        any::<u16>().prop_map(Window::Set),
        any::<u16>().prop_map(Window::AtMost)
    ];
    let timestamps = (1_u32.., any::<u32>());
    (any::<u32>(), any::<u32>(), of(window), of(timestamps)).prop_map(
        |(sequence, acknowledgement, window, timestamps)| RewriteTcp {
            sequence,
            acknowledgement,
            window,
            timestamps: timestamps.map_or(Timestamps::Keep, |(value, echo)| Timestamps::Add {
                value,
                echo,
            }),
            ..RewriteTcp::default()
        },
    )
}

fn rewrite(is_v4: bool) -> impl Strategy<Value = Rewrite> {
    let address = || {
        let address = if is_v4 { v4().boxed() } else { v6().boxed() };
        of(address.prop_filter("somebody's", |address| !address.is_unspecified()))
    };
    (address(), address(), of(1_u16..), of(1_u16..), of_tcp()).prop_map(
        |(source, destination, source_port, destination_port, tcp)| Rewrite {
            source,
            destination,
            source_port,
            destination_port,
            tcp,
            exit: Some("lo".into()),
        },
    )
}

/// What `rewrite` makes of a TCP header.
fn rewrite_header(tcp: &mut Tcp, rewrite: &RewriteTcp, header: &Header) {
    let has_ack = tcp.flags & ACK != 0;
    let (padding, [mut tsval, mut tsecr, mut left, mut right]) = header.4;
    tcp.seq = tcp.seq.wrapping_add(rewrite.sequence);
    if has_ack {
        tcp.ack = tcp.ack.wrapping_add(rewrite.acknowledgement);
    }
    left = left.wrapping_add(rewrite.acknowledgement);
    right = right.wrapping_add(rewrite.acknowledgement);
    match rewrite.window {
        None => {}
        Some(Window::Set(window)) => tcp.window = window,
        Some(Window::AtMost(window)) => tcp.window = tcp.window.min(window),
    }
    if let Timestamps::Add { value, echo } = rewrite.timestamps {
        tsval = tsval.wrapping_add(value);
        if has_ack {
            tsecr = tsecr.wrapping_add(echo);
        }
    }
    tcp.options = with_options(padding, [tsval, tsecr, left, right]);
}

/// The rules for TCP and for UDP.
fn rules(is_v4: bool, rewrite: &Rewrite) -> [Rule; 2] {
    let prefix = if is_v4 { "0.0.0.0/0" } else { "::/0" };
    let rule = |protocol, rewrite| Rule {
        name: String::new(),
        packets: Match {
            protocol: Some(protocol),
            source: Some(prefix.parse().expect("a prefix")),
            ..Match::default()
        },
        action: Action::Rewrite(rewrite),
    };
    let without_tcp = Rewrite {
        tcp: RewriteTcp::default(),
        ..rewrite.clone()
    };
    [
        rule(Protocol::Tcp, rewrite.clone()),
        rule(Protocol::Udp, without_tcp),
    ]
}

#[test]
fn what_comes_out_is_what_would_have_been_made() {
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
    let cases = any::<bool>().prop_flat_map(|is_v4| {
        let frames = prop::collection::vec((outline(is_v4), header()), FRAMES);
        (Just(is_v4), rewrite(is_v4), frames)
    });
    let check = |(is_v4, rewrite, frames): (bool, Rewrite, Vec<(Outline, Header)>)| {
        let mut bench = bench.borrow_mut();
        bench.replace(&rules(is_v4, &rewrite));
        for (place, (outline, header)) in frames.into_iter().enumerate() {
            let frame = frame(outline, &header);
            let mut expected = frame.clone();
            if let Transport::Tcp(tcp) = &mut expected.transport {
                rewrite_header(tcp, &rewrite.tcp, &header);
            }
            let set = |address: &mut SocketAddr, ip: Option<IpAddr>, port: Option<u16>| {
                address.set_ip(ip.unwrap_or(address.ip()));
                address.set_port(port.unwrap_or(address.port()));
            };
            set(&mut expected.source, rewrite.source, rewrite.source_port);
            let (ip, port) = (rewrite.destination, rewrite.destination_port);
            set(&mut expected.destination, ip, port);
            let direction = if place % 2 == 0 { Ingress } else { Egress };
            if direction == Ingress {
                expected.hops -= 1;
            }
            let outcome = bench.run(direction, &frame.bytes());
            prop_assert_eq!(outcome.verdict, Verdict::SentOn);
            prop_assert_eq!(outcome.frame, expected.bytes(), "{:?}", frame);
        }
        Ok(())
    };
    runner.run(&cases, check).expect("the same packets");
}
