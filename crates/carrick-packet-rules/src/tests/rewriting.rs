//! What comes out of rewriting: the frame that would have been made with the other numbers from the beginning.

use super::frame::{ACK, Frame, SYN, Tcp, Transport, tcp, udp};
use super::run::{Verdict, bench};
use crate::{Action, Match, Protocol, Rewrite, RewriteTcp, Rule, Timestamps, Window};
use carrick_splice::hooks::Direction;
use carrick_splice::hooks::Direction::{Egress, Ingress};
use std::net::{IpAddr, SocketAddr};

fn prefix_of(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "0.0.0.0/0",
        IpAddr::V6(_) => "::/0",
    }
}

/// A rule for all packets of the frame's kind.
fn rule(frame: &Frame, rewrite: Rewrite) -> Rule {
    let protocol = match frame.transport {
        Transport::Tcp(_) => Protocol::Tcp,
        _ => Protocol::Udp,
    };
    let vlan = frame.tags.first().map(|(_, number)| *number);
    Rule {
        name: "tested".into(),
        packets: Match {
            protocol: Some(protocol),
            vlan,
            source: Some(prefix_of(frame.source.ip()).parse().expect("a prefix")),
            ..Match::default()
        },
        action: Action::Rewrite(rewrite),
    }
}

/// One row: a frame, what is rewritten, the frame that must come out, where that goes.
type Row = (&'static str, Frame, Direction, Rewrite, Frame, Verdict);

fn check(rows: Vec<Row>) {
    let Some(mut bench) = bench(&[]) else {
        return;
    };
    let mut rules = Vec::new();
    for (what, frame, direction, rewrite, expected, verdict) in rows {
        // Another set takes the kernel some time.
        if rules != [rule(&frame, rewrite.clone())] {
            rules = vec![rule(&frame, rewrite)];
            bench.replace(&rules);
        }
        let outcome = bench.run(direction, &frame.bytes());
        assert_eq!(outcome.verdict, verdict, "{what}");
        assert_eq!(outcome.frame, expected.bytes(), "{what}: {frame:?}");
        assert_eq!(bench.counts()[0].failed, 0, "{what}");
    }
}

fn address(text: &str) -> Option<IpAddr> {
    Some(text.parse().expect("an address"))
}

/// Frames of all kinds whose checksums are hard in some way.
fn all_kinds() -> Vec<(&'static str, Frame)> {
    let (v4, v6) = (
        ["10.1.2.3:4000", "192.0.2.9:80"],
        ["[2001:db8:1::3]:4000", "[2001:db8:2::9]:80"],
    );
    let timestamps = vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    vec![
        ("TCP over IPv4", tcp(v4[0], v4[1])),
        ("TCP over IPv6", tcp(v6[0], v6[1])),
        ("UDP over IPv4", udp(v4[0], v4[1])),
        ("UDP over IPv6", udp(v6[0], v6[1])),
        (
            "with IP options",
            tcp(v4[0], v4[1]).with(|frame| frame.ip_options = vec![1; 24]),
        ),
        (
            "UDP with IP options",
            udp(v4[0], v4[1]).with(|frame| frame.ip_options = vec![1; 40]),
        ),
        (
            "with TCP options",
            tcp(v6[0], v6[1]).with_tcp(|tcp| tcp.options = timestamps),
        ),
        (
            "full TCP options",
            tcp(v4[0], v4[1]).with_tcp(|tcp| tcp.options = vec![1; 40]),
        ),
        (
            "nothing to carry",
            tcp(v4[0], v4[1]).with(|frame| frame.payload = vec![]),
        ),
        (
            "UDP with nothing to carry",
            udp(v6[0], v6[1]).with(|frame| frame.payload = vec![]),
        ),
        (
            "a large packet",
            tcp(v6[0], v6[1]).with(|frame| frame.payload = vec![0xa5; 3001]),
        ),
        (
            "a VLAN",
            tcp(v4[0], v4[1]).with(|frame| frame.tags = vec![(0x8100, 6)]),
        ),
        (
            "a VLAN over IPv6",
            udp(v6[0], v6[1]).with(|frame| frame.tags = vec![(0x88a8, 4094)]),
        ),
    ]
}

#[test]
fn addresses_and_ports_become_others() {
    let mut rows = Vec::new();
    for (what, frame) in all_kinds() {
        let (source, destination) = match frame.source {
            SocketAddr::V4(_) => ("203.0.113.250", "198.51.100.7"),
            SocketAddr::V6(_) => ("fd00:1234:5678:9abc:def0::1", "2001:db8:ffff:fffe::2"),
        };
        let (source, destination) = (address(source), address(destination));
        for mask in [1_u8, 2, 4, 8, 5, 10, 15] {
            let rewrite = Rewrite {
                source: source.filter(|_| mask & 1 != 0),
                destination: destination.filter(|_| mask & 2 != 0),
                source_port: (mask & 4 != 0).then_some(65535),
                destination_port: (mask & 8 != 0).then_some(1),
                ..Rewrite::default()
            };
            let mut expected = frame.clone();
            let set = |address: &mut SocketAddr, ip: Option<IpAddr>, port: Option<u16>| {
                address.set_ip(ip.unwrap_or(address.ip()));
                address.set_port(port.unwrap_or(address.port()));
            };
            set(&mut expected.source, rewrite.source, rewrite.source_port);
            let (ip, port) = (rewrite.destination, rewrite.destination_port);
            set(&mut expected.destination, ip, port);
            for direction in [Ingress, Egress] {
                let frame = frame.clone();
                let (rewrite, expected) = (rewrite.clone(), expected.clone());
                rows.push((what, frame, direction, rewrite, expected, Verdict::Next));
            }
        }
    }
    check(rows);
}

#[test]
fn udp_without_a_checksum_stays_without() {
    let mut rows = Vec::new();
    for (source, destination, other) in [
        ("10.1.2.3:4000", "192.0.2.9:80", "198.51.100.7:53"),
        // In tunnels (RFC 6935).
        ("[fd00::1]:4000", "[fd00::2]:80", "[2001:db8::ffff]:53"),
    ] {
        let other: SocketAddr = other.parse().expect("an address");
        let none = Transport::Udp {
            has_checksum: false,
        };
        let frame = udp(source, destination).with(|frame| frame.transport = none);
        let rewrite = Rewrite {
            destination: Some(other.ip()),
            destination_port: Some(other.port()),
            exit: Some("lo".into()),
            ..Rewrite::default()
        };
        let expected = frame.clone().with(|frame| {
            frame.destination = other;
            frame.hops -= 1;
        });
        rows.push(("none", frame, Ingress, rewrite, expected, Verdict::SentOn));
    }
    check(rows);
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_all_ones() {
    // The port is chosen so that the sum comes out as zero.
    let mut frame = udp("10.1.2.3:4000", "192.0.2.9:80");
    frame.payload = vec![0, 0];
    let field = |frame: &Frame| {
        let bytes = frame.bytes();
        u16::from_be_bytes([bytes[40], bytes[41]])
    };
    let sum_is_zero = (1..=u16::MAX).find(|port| {
        let mut frame = frame.clone();
        frame.destination.set_port(*port);
        field(&frame) == 0xffff
    });
    let port = sum_is_zero.expect("one of all ports");
    let rewrite = Rewrite {
        destination_port: Some(port),
        ..Rewrite::default()
    };
    let mut expected = frame.clone();
    expected.destination.set_port(port);
    assert_eq!(field(&expected), 0xffff);
    let row = ("zero", frame, Egress, rewrite, expected, Verdict::Next);
    check(vec![row]);
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let frame = tcp("10.1.2.3:4000", "192.0.2.9:80");
    let rewrite = Rewrite {
        source_port: Some(9),
        tcp: RewriteTcp {
            sequence: 5,
            ..RewriteTcp::default()
        },
        ..Rewrite::default()
    };
    let rules = [rule(&frame, rewrite)];
    let Some(bench) = bench(&rules) else {
        return;
    };
    let mut expected = frame
        .clone()
        .with(|frame| frame.source.set_port(9))
        .with_tcp(|tcp| tcp.seq = tcp.seq.wrapping_add(5))
        .bytes();
    let mut bytes = frame.bytes();
    // A byte of the payload is broken on the way: with both frames, what it should be is still in the sum.
    *bytes.last_mut().expect("payload") ^= 0x10;
    *expected.last_mut().expect("payload") ^= 0x10;
    assert_eq!(bench.run(Ingress, &bytes).frame, expected);
}

/// A row about the TCP header, over both families.
fn rows_of(
    rows: &mut Vec<Row>,
    what: &'static str,
    rewrite: RewriteTcp,
    before: impl Fn(&mut Tcp),
    after: impl Fn(&mut Tcp),
) {
    for (source, destination) in [
        ("10.1.2.3:4000", "192.0.2.9:80"),
        ("[2001:db8:1::3]:4000", "[2001:db8:2::9]:80"),
    ] {
        let frame = tcp(source, destination).with_tcp(&before);
        let expected = frame.clone().with_tcp(&after);
        let rewrite = Rewrite {
            tcp: rewrite,
            ..Rewrite::default()
        };
        rows.push((what, frame, Egress, rewrite, expected, Verdict::Next));
    }
}

#[test]
fn numbers_windows_and_timestamps_are_changed() {
    let mut rows = Vec::new();
    let none = RewriteTcp::default();
    let plain = |_: &mut Tcp| {};
    let sequence = RewriteTcp {
        sequence: 0x20,
        ..none
    };
    rows_of(
        &mut rows,
        "a sequence number wraps",
        sequence,
        plain,
        |tcp| tcp.seq = 0x10,
    );
    let acknowledgement = RewriteTcp {
        acknowledgement: 0x0102_0304_u32.wrapping_neg(),
        ..none
    };
    let r = &mut rows;
    rows_of(
        r,
        "an acknowledgement becomes 0",
        acknowledgement,
        plain,
        |tcp| tcp.ack = 0,
    );
    let no_ack = |tcp: &mut Tcp| tcp.flags = SYN;
    rows_of(
        r,
        "there is no acknowledgement",
        acknowledgement,
        no_ack,
        plain,
    );
    let sack = |tcp: &mut Tcp| {
        tcp.options = vec![
            1, 1, 5, 18, 1, 2, 3, 5, 1, 2, 3, 6, 0xff, 0, 0, 0, 0xff, 0, 0, 1,
        ];
    };
    rows_of(r, "SACK blocks move along", acknowledgement, sack, |tcp| {
        tcp.ack = 0;
        let moved = |number: u32| number.wrapping_sub(0x0102_0304).to_be_bytes();
        tcp.options.truncate(4);
        for number in [0x0102_0305, 0x0102_0306, 0xff00_0000, 0xff00_0001] {
            tcp.options.extend(moved(number));
        }
    });
    let window = |window| RewriteTcp {
        window: Some(window),
        ..none
    };
    rows_of(
        r,
        "a window is set",
        window(Window::Set(0xffff)),
        plain,
        |tcp| tcp.window = 0xffff,
    );
    rows_of(
        r,
        "a window is closed",
        window(Window::Set(0)),
        plain,
        |tcp| tcp.window = 0,
    );
    rows_of(
        r,
        "a window is limited",
        window(Window::AtMost(0x1233)),
        plain,
        |tcp| {
            tcp.window = 0x1233;
        },
    );
    rows_of(
        r,
        "a window is small enough",
        window(Window::AtMost(0x1234)),
        plain,
        plain,
    );
    let timestamps = RewriteTcp {
        timestamps: Timestamps::Add {
            value: 2,
            echo: u32::MAX,
        },
        ..none
    };
    // At an odd place.
    let with = |tcp: &mut Tcp| tcp.options = vec![1, 8, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 9, 1];
    rows_of(r, "timestamps are added to", timestamps, with, |tcp| {
        tcp.options = vec![1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 8, 1];
    });
    let without_ack = |tcp: &mut Tcp| {
        with(tcp);
        tcp.flags = SYN;
    };
    rows_of(
        r,
        "an echo without ACK means nothing",
        timestamps,
        without_ack,
        |tcp| {
            tcp.options = vec![1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 9, 1];
        },
    );
    check(rows);
}

#[test]
fn what_a_syn_offers_is_changed() {
    let mut rows = Vec::new();
    let r = &mut rows;
    let none = RewriteTcp::default();
    let mss = |mss| RewriteTcp {
        mss_max: Some(mss),
        ..none
    };
    // As Linux offers: MSS 1460, SACK, timestamps, window scale.
    const OFFER: [u8; 20] = [
        2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    let syn = |tcp: &mut Tcp| {
        tcp.flags = SYN;
        tcp.options = OFFER.to_vec();
    };
    let syn_ack = |tcp: &mut Tcp| {
        syn(tcp);
        tcp.flags = SYN | ACK;
    };
    let no_syn = |tcp: &mut Tcp| {
        syn(tcp);
        tcp.flags = ACK;
    };
    let offers = |at: usize, bytes: &'static [u8]| {
        move |tcp: &mut Tcp| tcp.options[at..at + bytes.len()].copy_from_slice(bytes)
    };
    let same = |_: &mut Tcp| {};
    rows_of(
        r,
        "segments become smaller",
        mss(1300),
        syn,
        offers(2, &[5, 20]),
    );
    rows_of(
        r,
        "also of an answer",
        mss(1300),
        syn_ack,
        offers(2, &[5, 20]),
    );
    rows_of(r, "they are small enough", mss(1460), syn, same);
    rows_of(r, "only a SYN says it", mss(1300), no_syn, same);
    let no_sack = RewriteTcp {
        refuses_sack: true,
        ..none
    };
    rows_of(r, "no SACK", no_sack, syn, offers(4, &[1, 1]));
    let no_timestamps = RewriteTcp {
        timestamps: Timestamps::Refuse,
        ..none
    };
    rows_of(r, "no timestamps", no_timestamps, syn, offers(6, &[1; 10]));
    rows_of(
        r,
        "timestamps that are agreed stay",
        no_timestamps,
        no_syn,
        same,
    );
    let everything = RewriteTcp {
        mss_max: Some(1),
        timestamps: Timestamps::Refuse,
        refuses_sack: true,
        ..none
    };
    rows_of(r, "everything", everything, syn, |tcp| {
        tcp.options[2..16].copy_from_slice(&[0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    });
    for (what, options) in [
        (
            "an option that ends behind the header",
            vec![2, 4, 5, 0xb4, 8, 99, 1, 1],
        ),
        ("an option of no length", vec![4, 0, 4, 2, 4, 2, 4, 2]),
        (
            "options behind the end of options",
            vec![0, 0, 4, 2, 2, 4, 9, 9],
        ),
        ("an MSS of three bytes", vec![2, 3, 5, 1]),
        ("half an option at the end", vec![1, 1, 1, 4]),
        ("forty times nothing", vec![1; 40]),
    ] {
        let broken = |tcp: &mut Tcp| {
            tcp.flags = SYN;
            tcp.options = options.clone();
        };
        rows_of(r, what, no_sack, broken, same);
    }
    check(rows);
}

#[test]
fn everything_at_once() {
    let mut rows = Vec::new();
    for (what, frame) in all_kinds() {
        let Transport::Tcp(_) = frame.transport else {
            continue;
        };
        let rewrite = Rewrite {
            source_port: Some(81),
            destination_port: Some(82),
            tcp: RewriteTcp {
                sequence: 0x8000_0001,
                acknowledgement: 3,
                window: Some(Window::AtMost(1)),
                ..RewriteTcp::default()
            },
            exit: Some("lo".into()),
            ..Rewrite::default()
        };
        let expected = frame
            .clone()
            .with_tcp(|tcp| {
                tcp.seq = tcp.seq.wrapping_add(0x8000_0001);
                tcp.ack += 3;
                tcp.window = 1;
            })
            .with(|frame| {
                frame.source.set_port(81);
                frame.destination.set_port(82);
                frame.tags.clear();
            });
        let routed = expected.clone().with(|frame| frame.hops -= 1);
        for (direction, expected) in [(Ingress, routed), (Egress, expected)] {
            let (frame, rewrite) = (frame.clone(), rewrite.clone());
            rows.push((what, frame, direction, rewrite, expected, Verdict::SentOn));
        }
    }
    check(rows);
}

#[test]
fn what_cannot_be_done_is_dropped_and_counted() {
    let to = |exit: &str| Rewrite {
        exit: Some(exit.into()),
        ..Rewrite::default()
    };
    let numbers = Rewrite {
        tcp: RewriteTcp {
            sequence: 1,
            ..RewriteTcp::default()
        },
        ..Rewrite::default()
    };
    let Some(mut bench) = bench(&[]) else {
        return;
    };
    let last_hop = |mut frame: Frame| {
        frame.hops = 1;
        frame.bytes()
    };
    let v4 = || tcp("10.1.2.3:4000", "192.0.2.9:80");
    let v6 = || tcp("[2001:db8:1::3]:4000", "[2001:db8:2::9]:80");
    let mut long_header = v4().bytes();
    long_header[14 + 20 + 12] = 0xf0;
    long_header[14 + 20 + 12 + 8..].fill(0);
    let mut short_header = v6().bytes();
    short_header[14 + 40 + 12] = 0x40;
    for (what, frame, bytes, rewrite) in [
        ("no hop is left", v4(), last_hop(v4()), to("lo")),
        ("no hop is left (IPv6)", v6(), last_hop(v6()), to("lo")),
        ("the interface has vanished", v4(), v4().bytes(), to("not0")),
        (
            "a TCP header beyond the end",
            v4(),
            long_header,
            numbers.clone(),
        ),
        ("a TCP header too short", v6(), short_header, numbers),
    ] {
        bench.replace(&[rule(&frame, rewrite)]);
        assert_eq!(
            bench.run(Ingress, &bytes).verdict,
            Verdict::Dropped,
            "{what}"
        );
        assert_eq!(bench.counts()[0].failed, 2, "{what}");
    }
}
