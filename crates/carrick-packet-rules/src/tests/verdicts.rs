//! What becomes of packets of each kind, and what is counted.

use super::frame::{Frame, Transport, tcp, udp};
use super::run::{Bench, Verdict, bench};
use crate::{Action, Count, Match, Protocol, RULES_MAX, Redirect, Rewrite, Rule};
use carrick_splice::hooks::Direction;
use carrick_splice::hooks::Direction::{Egress, Ingress};

fn rule(packets: Match, action: Action) -> Rule {
    Rule {
        name: "tested".into(),
        packets,
        action,
    }
}

fn dropping(packets: Match) -> Rule {
    rule(packets, Action::Drop)
}

/// What becomes of a frame that nothing is to be changed in.
fn verdict(bench: &Bench, direction: Direction, frame: &Frame) -> Verdict {
    let bytes = frame.bytes();
    let outcome = bench.run(direction, &bytes);
    assert_eq!(outcome.frame, bytes, "nothing may be changed");
    outcome.verdict
}

#[test]
fn each_part_of_a_match_takes_what_it_says_and_nothing_else() {
    let Some(mut bench) = bench(&[]) else {
        return;
    };
    let v4 = || tcp("10.1.2.3:4000", "192.0.2.9:80");
    let v4_udp = || udp("10.1.2.3:4000", "192.0.2.9:80");
    let v6 = || tcp("[2001:db8:1::3]:4000", "[2001:db8:2::9]:80");
    let v6_udp = || udp("[2001:db8:1::3]:4000", "[2001:db8:2::9]:80");
    let prefix = |text: &str| Some(text.parse().expect("a prefix"));
    let all = || [v4(), v4_udp(), v6(), v6_udp()];
    let source = |text| Match {
        source: prefix(text),
        ..Match::default()
    };
    let destination = |text| Match {
        destination: prefix(text),
        ..Match::default()
    };
    let from_ports = |source_ports| Match {
        source_ports,
        ..Match::default()
    };
    let to_ports = |destination_ports| Match {
        destination_ports,
        ..Match::default()
    };
    let protocol = |protocol| Match {
        protocol: Some(protocol),
        ..Match::default()
    };
    let interface = |name: &str| Match {
        interface: Some(name.into()),
        ..Match::default()
    };
    const ALL: [bool; 4] = [true; 4];
    const NONE: [bool; 4] = [false; 4];
    const V4: [bool; 4] = [true, true, false, false];
    const V6: [bool; 4] = [false, false, true, true];
    const TCP: [bool; 4] = [true, false, true, false];
    const UDP: [bool; 4] = [false, true, false, true];
    for (packets, taken) in [
        (Match::default(), ALL),
        (source("10.0.0.0/8"), V4),
        (source("10.1.2.3/32"), V4),
        (source("10.1.2.2/32"), NONE),
        (source("10.1.2.2/31"), V4),
        (source("11.0.0.0/8"), NONE),
        (source("0.0.0.0/0"), V4),
        (source("::/0"), V6),
        (source("::ffff:0:0/96"), NONE),
        (source("2001:db8:1::/48"), V6),
        (source("2001:db8:1::2/127"), V6),
        (source("2001:db8:1::4/127"), NONE),
        (source("2001:db8:1::3/128"), V6),
        (destination("10.0.0.0/8"), NONE),
        (destination("192.0.2.0/24"), V4),
        (destination("192.0.3.0/24"), NONE),
        (destination("2001:db8:2::/64"), V6),
        (destination("2001:db8:3::/64"), NONE),
        (from_ports(4000..=4000), ALL),
        (from_ports(3999..=4001), ALL),
        (from_ports(4001..=65535), NONE),
        (from_ports(0..=3999), NONE),
        (to_ports(80..=80), ALL),
        (to_ports(0..=79), NONE),
        (to_ports(81..=81), NONE),
        (to_ports(4000..=4000), NONE),
        (protocol(Protocol::Tcp), TCP),
        (protocol(Protocol::Udp), UDP),
        (interface("lo"), ALL),
        (interface("not0"), NONE),
    ] {
        bench.replace(&[dropping(packets.clone())]);
        let verdicts = all().map(|frame| verdict(&bench, Ingress, &frame) == Verdict::Dropped);
        assert_eq!(verdicts, taken, "{packets:?}");
    }
    for (direction, of_in, of_out) in [
        (None, true, true),
        (Some(Ingress), true, false),
        (Some(Egress), false, true),
    ] {
        bench.replace(&[dropping(Match {
            direction,
            ..Match::default()
        })]);
        let both = [Ingress, Egress].map(|way| verdict(&bench, way, &v6()) == Verdict::Dropped);
        assert_eq!(both, [of_in, of_out], "{direction:?}");
    }
}

#[test]
fn the_first_rule_that_takes_a_packet_decides_and_counts() {
    let to = |first, last, action| {
        let packets = Match {
            destination_ports: first..=last,
            ..Match::default()
        };
        rule(packets, action)
    };
    let rules = [
        to(80, 80, Action::Pass),
        to(1, 1023, Action::Drop),
        to(80, 2000, Action::Pass),
    ];
    let Some(mut bench) = bench(&rules) else {
        return;
    };
    let frames = [80, 443, 1023, 1024, 2001].map(|port| {
        let mut frame = tcp("10.1.2.3:4000", "192.0.2.9:80");
        frame.destination.set_port(port);
        frame
    });
    let verdicts = frames
        .each_ref()
        .map(|frame| verdict(&bench, Egress, frame));
    use Verdict::{Dropped, Next};
    assert_eq!(verdicts, [Next, Dropped, Dropped, Next, Next]);
    // Each is run twice.
    let count = |packets| Count {
        packets,
        bytes: packets * frames[0].ip_bytes(),
        failed: 0,
    };
    assert_eq!(bench.counts(), [count(2), count(4), count(2)]);
    bench.replace(&rules[1..]);
    assert_eq!(bench.counts(), [count(0), count(0)], "counting begins anew");
    assert_eq!(verdict(&bench, Egress, &frames[0]), Dropped);
    bench.replace(&[]);
    assert_eq!(verdict(&bench, Egress, &frames[0]), Next);
}

#[test]
fn a_set_may_be_full() {
    let rules: Vec<Rule> = (1..=RULES_MAX as u16)
        .map(|port| {
            let packets = Match {
                destination_ports: port..=port,
                ..Match::default()
            };
            rule(packets, Action::Drop)
        })
        .collect();
    let Some(bench) = bench(&rules) else {
        return;
    };
    for port in 1..=RULES_MAX as u16 + 1 {
        let mut frame = udp("[fd00::1]:9", "[fd00::2]:9");
        frame.destination.set_port(port);
        let is_dropped = verdict(&bench, Ingress, &frame) == Verdict::Dropped;
        assert_eq!(is_dropped, usize::from(port) <= RULES_MAX, "port {port}");
    }
    assert!(bench.counts().iter().all(|count| count.packets == 2));
}

#[test]
fn what_is_not_understood_is_passed_up_and_not_counted() {
    let rules = [dropping(Match::default())];
    let Some(bench) = bench(&rules) else {
        return;
    };
    let v4 = || tcp("10.1.2.3:4000", "192.0.2.9:80");
    let v6 = || tcp("[2001:db8:1::3]:4000", "[2001:db8:2::9]:80");
    let cut = |frame: Frame, bytes: usize| frame.bytes()[..bytes].to_vec();
    let changed = |frame: Frame, at: usize, byte: u8| {
        let mut bytes = frame.bytes();
        bytes[at] = byte;
        bytes
    };
    let other = |number| move |frame: &mut Frame| frame.transport = Transport::Other(number);
    for (what, bytes) in [
        ("ICMP", v4().with(other(1)).bytes()),
        ("SCTP", v4().with(other(132)).bytes()),
        ("ICMPv6", v6().with(other(58)).bytes()),
        (
            "a first fragment",
            v4().with(|frame| frame.fragment = 0x2000).bytes(),
        ),
        (
            "a last fragment",
            v4().with(|frame| frame.fragment = 0x0010).bytes(),
        ),
        ("an IPv6 fragment", v6().with(other(44)).bytes()),
        ("IPv6 options", v6().with(other(0)).bytes()),
        ("an IPv6 routing header", v6().with(other(43)).bytes()),
        (
            "two tags",
            v4().with(|frame| frame.tags = vec![(0x88a8, 5), (0x8100, 6)])
                .bytes(),
        ),
        (
            "a VLAN that no rule names",
            v4().with(|frame| frame.tags = vec![(0x8100, 6)]).bytes(),
        ),
        ("ARP", changed(v4(), 13, 6)),
        ("version 6 where 4 should be", changed(v4(), 14, 0x65)),
        ("a short header", changed(v4(), 14, 0x44)),
        ("version 4 where 6 should be", changed(v6(), 14, 0x40)),
        ("a length beyond the end", changed(v4(), 16, 0x7f)),
        ("no room for TCP", changed(v4(), 17, 39)),
        (
            "no room for UDP",
            changed(udp("1.2.3.4:5", "6.7.8.9:10"), 17, 27),
        ),
        ("half a packet", cut(v4(), 40)),
        ("half an IPv6 packet", cut(v6(), 70)),
        ("an IP header alone", cut(v4(), 34)),
    ] {
        for direction in [Ingress, Egress] {
            let outcome = bench.run(direction, &bytes);
            assert_eq!(outcome.verdict, Verdict::Next, "{what}");
            assert_eq!(outcome.frame, bytes, "{what}");
        }
    }
    assert_eq!(bench.counts(), [Count::default()]);
}

#[test]
fn padding_and_options_and_priority_tags_are_understood() {
    let Some(bench) = bench(&[dropping(Match::default())]) else {
        return;
    };
    let v4 = || tcp("10.1.2.3:4000", "192.0.2.9:80");
    let mut padded = v4().bytes();
    padded.extend([0; 9]);
    // What the interface has added is no part of the packet.
    assert_eq!(bench.run(Ingress, &padded).verdict, Verdict::Dropped);
    assert_eq!(bench.counts()[0].bytes, 2 * v4().ip_bytes());
    for (what, bytes) in [
        (
            "IP options",
            v4().with(|frame| frame.ip_options = vec![1; 40]).bytes(),
        ),
        (
            "a tag for priority",
            v4().with(|frame| frame.tags = vec![(0x8100, 0xe000)])
                .bytes(),
        ),
        (
            "do not fragment",
            v4().with(|frame| frame.fragment = 0x4000).bytes(),
        ),
        (
            "may be fragmented",
            v4().with(|frame| frame.fragment = 0).bytes(),
        ),
        (
            "nothing to carry",
            v4().with(|frame| frame.payload = vec![]).bytes(),
        ),
    ] {
        assert_eq!(
            bench.run(Ingress, &bytes).verdict,
            Verdict::Dropped,
            "{what}"
        );
    }
}

#[test]
fn a_rule_for_a_vlan_takes_its_packets_alone() {
    let rules = [dropping(Match {
        vlan: Some(6),
        ..Match::default()
    })];
    let Some(bench) = bench(&rules) else {
        return;
    };
    let tagged = |tags: &[(u16, u16)]| {
        let frame = tcp("[2001:db8:1::3]:4000", "[2001:db8:2::9]:80");
        frame.with(|frame| frame.tags = tags.to_vec())
    };
    for (tags, expected) in [
        (&[][..], Verdict::Next),
        (&[(0x8100, 6)], Verdict::Dropped),
        (&[(0x8100, 0xa006)], Verdict::Dropped),
        (&[(0x88a8, 6)], Verdict::Dropped),
        (&[(0x8100, 7)], Verdict::Next),
        (&[(0x8100, 0)], Verdict::Next),
    ] {
        assert_eq!(
            verdict(&bench, Ingress, &tagged(tags)),
            expected,
            "{tags:?}"
        );
    }
}

#[test]
fn what_nobody_listens_for_is_passed_up_and_counted() {
    // Nobody listens on port 1; and this is no real hook, so the kernel would refuse, too.
    let rules = [rule(
        Match {
            direction: Some(Ingress),
            protocol: Some(Protocol::Tcp),
            ..Match::default()
        },
        Action::Redirect(Redirect {
            port: 1,
            mark: Some(7),
        }),
    )];
    let Some(bench) = bench(&rules) else {
        return;
    };
    for frame in [
        tcp("10.1.2.3:4000", "192.0.2.9:80"),
        tcp("[2001:db8:1::3]:4000", "[2001:db8:2::9]:80"),
    ] {
        let bytes = frame.bytes();
        let outcome = bench.run(Ingress, &bytes);
        assert_eq!((outcome.verdict, outcome.mark), (Verdict::Next, 0));
        assert_eq!(outcome.frame, bytes);
    }
    let [count] = bench.counts()[..] else {
        panic!("one rule");
    };
    assert_eq!((count.packets, count.failed), (4, 4));
}

#[test]
fn what_was_sent_on_is_not_looked_at_again() {
    const SENT_ON: u32 = 0x6361_7273;
    let sending = rule(
        Match {
            source: Some("10.0.0.0/8".parse().expect("a prefix")),
            ..Match::default()
        },
        Action::Rewrite(Rewrite {
            exit: Some("lo".into()),
            ..Rewrite::default()
        }),
    );
    let rules = [sending, dropping(Match::default())];
    let Some(bench) = bench(&rules) else {
        return;
    };
    let sent = tcp("10.1.2.3:4000", "192.0.2.9:80").bytes();
    let outcome = bench.run(Egress, &sent);
    assert_eq!((outcome.verdict, outcome.mark), (Verdict::SentOn, SENT_ON));
    assert_eq!(
        outcome.frame, sent,
        "what this host sends keeps its hop limit"
    );
    let other = tcp("11.1.2.3:4000", "192.0.2.9:80").bytes();
    for (mark, verdict, left) in [
        (SENT_ON, Verdict::Next, 0),
        (0, Verdict::Dropped, 0),
        (5, Verdict::Dropped, 5),
    ] {
        let outcome = bench.run_marked(Egress, &other, mark);
        assert_eq!((outcome.verdict, outcome.mark), (verdict, left));
    }
    // The mark means nothing to what comes in.
    let outcome = bench.run_marked(Ingress, &other, SENT_ON);
    assert_eq!(outcome.verdict, Verdict::Dropped);
}
