//! Packets that are changed, and go on.

use crate::router::{Bed, FAMILIES, Family, Host, address, bed, listen, send_frame};
use crate::support::HANG;
use crate::traffic::{answer, ask, udp, udp_checksum};
use crate::{assert_used, attach, incoming, rule};
use carrick_packet_rules::{
    Action, Count, Direction, Match, Protocol, Rewrite, RewriteTcp, Rule, Timestamps, Window,
};
use std::time::Duration;

/// Rules for a connection from the client to an address that nobody has, which the server serves: there and back.
fn elsewhere(family: &Family, there: RewriteTcp, back: RewriteTcp) -> [Rule; 2] {
    let there = rule(
        "there",
        Match {
            interface: Some("rc".into()),
            destination: Some(
                format!(
                    "{}/{}",
                    family.elsewhere,
                    if family.all == "::/0" { 128 } else { 32 }
                )
                .parse()
                .unwrap(),
            ),
            destination_ports: 80..=80,
            ..incoming(Protocol::Tcp)
        },
        Action::Rewrite(Rewrite {
            destination: Some(family.server.parse().unwrap()),
            destination_port: Some(8080),
            tcp: there,
            exit: Some("rs".into()),
            ..Rewrite::default()
        }),
    );
    let back = rule(
        "back",
        Match {
            interface: Some("rs".into()),
            source: Some(family.all.parse().unwrap()),
            source_ports: 8080..=8080,
            ..incoming(Protocol::Tcp)
        },
        Action::Rewrite(Rewrite {
            source: Some(family.elsewhere.parse().unwrap()),
            source_port: Some(80),
            tcp: back,
            exit: Some("rc".into()),
            ..Rewrite::default()
        }),
    );
    [there, back]
}

/// A conversation through rules: the largest segment that the client may send, and what the rules have counted.
fn served_elsewhere(bed: &Bed, family: Family, rules: [Rule; 2]) -> (u32, Vec<Count>) {
    let to = address(family.elsewhere, 80);
    let listener = bed.at(Host::Server, move || listen(address(family.server, 8080)));
    let serving = bed.on(Host::Server, move || answer(&listener));
    let rules = bed.at(Host::Middle, move || attach(&rules));
    let (peer, segment) = bed.at(Host::Client, move || ask(to));
    assert_eq!(peer, to);
    assert_eq!(serving.join().unwrap(), address(family.server, 8080));
    let counts = rules.counts().unwrap();
    assert_used(&counts);
    (segment, counts)
}

#[test]
fn packets_are_rewritten_and_sent_on_without_routing() {
    let Some(bed) = bed() else {
        return;
    };
    for is_offloaded in [false, true] {
        bed.offload(is_offloaded);
        for family in FAMILIES {
            let rules = elsewhere(&family, RewriteTcp::default(), RewriteTcp::default());
            let (_, counts) = served_elsewhere(&bed, family, rules);
            assert!(
                counts.iter().all(|count| are_large(count) == is_offloaded),
                "{counts:?}"
            );
        }
    }
}

/// Whether packets were larger than the interfaces take: segments are made of them later.
fn are_large(count: &Count) -> bool {
    count.bytes > 1500 * count.packets
}

#[test]
fn a_tcp_port_is_redirected_by_two_rules() {
    let Some(bed) = bed() else {
        return;
    };
    let rules = bed.at(Host::Middle, move || {
        attach(&port_rules(Protocol::Tcp, 80, 8080))
    });
    for family in FAMILIES {
        let listener = bed.at(Host::Middle, move || listen(address(family.router, 8080)));
        let serving = bed.on(Host::Middle, move || answer(&listener));
        let to = address(family.router, 80);
        assert_eq!(bed.at(Host::Client, move || ask(to)).0, to);
        assert_eq!(serving.join().unwrap(), address(family.router, 8080));
    }
    let counts = rules.counts().unwrap();
    assert_used(&counts);
    assert!(
        are_large(&counts[1]),
        "what goes out is large yet: {counts:?}"
    );
}

/// Rules that take what comes in for a port to another one, and back.
fn port_rules(protocol: Protocol, port: u16, local: u16) -> [Rule; 2] {
    let there = rule(
        "there",
        Match {
            destination_ports: port..=port,
            ..incoming(protocol)
        },
        Action::Rewrite(Rewrite {
            destination_port: Some(local),
            ..Rewrite::default()
        }),
    );
    let back = rule(
        "back",
        Match {
            direction: Some(Direction::Egress),
            source_ports: local..=local,
            ..incoming(protocol)
        },
        Action::Rewrite(Rewrite {
            source_port: Some(port),
            ..Rewrite::default()
        }),
    );
    [there, back]
}

#[test]
fn sequence_numbers_and_timestamps_are_translated() {
    let Some(bed) = bed() else {
        return;
    };
    // The server sees other numbers than the client; loss has them use SACK, too.
    const SHIFT: u32 = 0x8765_4321;
    const CLOCK: u32 = 0xf000_0000;
    let there = RewriteTcp {
        sequence: SHIFT,
        acknowledgement: 77,
        window: Some(Window::AtMost(60_000)),
        timestamps: Timestamps::Add {
            value: CLOCK,
            echo: 5,
        },
        ..RewriteTcp::default()
    };
    let back = RewriteTcp {
        sequence: 77_u32.wrapping_neg(),
        acknowledgement: SHIFT.wrapping_neg(),
        timestamps: Timestamps::Add {
            value: 5_u32.wrapping_neg(),
            echo: CLOCK.wrapping_neg(),
        },
        ..RewriteTcp::default()
    };
    for family in FAMILIES {
        let set = elsewhere(&family, there, back);
        let mut lost = 0;
        while lost < 20 {
            lost += lossy_conversation(&bed, family, &set);
        }
    }
}

/// A conversation through rules that drop everything five times in between. Returns how many packets were lost.
fn lossy_conversation(bed: &Bed, family: Family, set: &[Rule; 2]) -> u64 {
    let to = address(family.elsewhere, 80);
    let listener = bed.at(Host::Server, move || listen(address(family.server, 8080)));
    let serving = bed.on(Host::Server, move || answer(&listener));
    let mut rules = bed.at(Host::Middle, {
        let set = set.clone();
        move || attach(&set)
    });
    let asking = bed.on(Host::Client, move || ask(to));
    let nothing = [rule("nothing", Match::default(), Action::Drop)];
    let mut lost = 0;
    for _ in 0..5 {
        let set = set.clone();
        let nothing = nothing.clone();
        (rules, lost) = bed.at(Host::Middle, move || {
            std::thread::sleep(Duration::from_millis(5));
            rules.replace(&nothing).unwrap();
            let dropped = rules.replace(&set).unwrap()[0].packets;
            (rules, lost + dropped)
        });
    }
    assert_eq!(asking.join().unwrap().0, to);
    serving.join().unwrap();
    lost
}

#[test]
fn what_connections_offer_is_changed() {
    let Some(bed) = bed() else {
        return;
    };
    let less = RewriteTcp {
        mss_max: Some(700),
        timestamps: Timestamps::Refuse,
        refuses_sack: true,
        ..RewriteTcp::default()
    };
    for family in FAMILIES {
        let rules = elsewhere(&family, RewriteTcp::default(), less);
        // With timestamps it would be 688.
        assert_eq!(served_elsewhere(&bed, family, rules).0, 700);
    }
}

#[test]
fn a_udp_port_is_redirected_by_two_rules() {
    let Some(bed) = bed() else {
        return;
    };
    let set = port_rules(Protocol::Udp, 53, 5353);
    let rules = bed.at(Host::Middle, move || attach(&set));
    for family in FAMILIES {
        let router = bed.at(Host::Middle, move || {
            udp(address(family.router, 5353), HANG)
        });
        let client = bed.at(Host::Client, move || udp(address(family.client, 0), HANG));
        for size in [0, 1, 1000, 1001] {
            let to = address(family.router, 53);
            client.send_to(&vec![7; size], to).unwrap();
            let mut bytes = [0; 2000];
            let (length, from) = router.recv_from(&mut bytes).unwrap();
            router.send_to(&bytes[..length], from).unwrap();
            assert_eq!(client.recv_from(&mut bytes).unwrap(), (size, to));
        }
    }
    assert_used(&rules.counts().unwrap());
}

#[test]
fn a_vlan_s_packets_are_met_once_where_the_rule_says() {
    let Some(bed) = bed() else {
        return;
    };
    if !bed.can(Host::Middle, "ip link add link rc name rc.7 type vlan id 7") {
        carrick_test::lacks!("this kernel has no VLANs");
        return;
    }
    for (host, device, own) in [(Host::Client, "c", 2), (Host::Middle, "rc", 1)] {
        let name = format!("{device}.6");
        bed.ip(
            host,
            &format!("link add link {device} name {name} type vlan id 6"),
        );
        bed.ip(host, &format!("addr add 10.79.6.{own}/24 dev {name}"));
        bed.ip(host, &format!("link set {name} up"));
    }
    let to_port = |port| Match {
        destination_ports: port..=port,
        ..incoming(Protocol::Udp)
    };
    let below = Match {
        interface: Some("rc".into()),
        vlan: Some(6),
        ..to_port(53)
    };
    // Below, the port becomes another one; on the VLAN's interface it is that already.
    let rewriting = Action::Rewrite(Rewrite {
        destination_port: Some(5353),
        ..Rewrite::default()
    });
    let rules = [
        rule("below", below, rewriting),
        rule("above", to_port(5353), Action::Pass),
        rule("never", to_port(53), Action::Drop),
    ];
    let rules = bed.at(Host::Middle, move || attach(&rules));
    let router = bed.at(Host::Middle, || udp(address("10.79.6.1", 5353), HANG));
    bed.at(Host::Client, || {
        let client = udp(address("10.79.6.2", 0), HANG);
        for _ in 0..5 {
            client.send_to(b"hello", address("10.79.6.1", 53)).unwrap();
        }
    });
    for _ in 0..5 {
        assert_eq!(router.recv(&mut [0; 9]).unwrap(), 5);
    }
    let packets: Vec<u64> = rules
        .counts()
        .unwrap()
        .iter()
        .map(|count| count.packets)
        .collect();
    assert_eq!(packets, [5, 5, 0]);
}

#[test]
fn a_tagged_packet_is_rewritten_and_sent_on_without_its_tag() {
    let Some(bed) = bed() else {
        return;
    };
    // What is for everybody is not sent on.
    bed.ip(Host::Middle, "link set rc address 02:00:00:00:00:09");
    let tagged = Match {
        vlan: Some(6),
        destination: Some("192.0.2.9/32".parse().unwrap()),
        ..incoming(Protocol::Udp)
    };
    let rewriting = Action::Rewrite(Rewrite {
        destination: Some(FAMILIES[0].server.parse().unwrap()),
        destination_port: Some(53),
        exit: Some("rs".into()),
        ..Rewrite::default()
    });
    let untagged = Match {
        destination: tagged.destination,
        ..incoming(Protocol::Udp)
    };
    let set = [
        rule("tagged", tagged, rewriting),
        rule("untagged", untagged, Action::Drop),
    ];
    let rules = bed.at(Host::Middle, move || attach(&set));
    let server = bed.at(Host::Server, || udp(address(FAMILIES[0].server, 53), HANG));
    bed.at(Host::Client, || {
        // As `192.0.2.9:9`, from 10.79.1.2:7, in VLAN 6, with the checksums of these very bytes.
        let mut frame = vec![2, 0, 0, 0, 0, 9];
        frame.extend([2, 0, 0, 0, 0, 7, 0x81, 0, 0x20, 6, 8, 0]);
        frame.extend([0x45, 0, 0, 33, 0, 0, 0, 0, 64, 17, 0xad, 0x72]);
        frame.extend([10, 79, 1, 2, 192, 0, 2, 9]);
        frame.extend([0, 7, 0, 9, 0, 13, 0, 0, b'h', b'e', b'l', b'l', b'o']);
        let sum = udp_checksum(&frame[18 + 12..]);
        frame[18 + 26..18 + 28].copy_from_slice(&sum.to_be_bytes());
        send_frame("c", &frame);
    });
    let mut bytes = [0; 9];
    let (length, from) = server.recv_from(&mut bytes).unwrap();
    assert_eq!(
        (&bytes[..length], from),
        (&b"hello"[..], address("10.79.1.2", 7))
    );
    let counts = rules.counts().unwrap();
    let packets: Vec<u64> = counts.iter().map(|count| count.packets).collect();
    assert_eq!((packets, counts[0].failed), (vec![1, 0], 0));
}
