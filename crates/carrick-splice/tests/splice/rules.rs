//! Packet rules between network namespaces, with connections whose every byte is checked.

mod bed;

use crate::support::HANG;
use bed::{FAMILIES, Family, Host, address, answer, ask, bed, send_frame, udp, udp_checksum};
use carrick_splice::rules::{
    Action, Count, Direction, Match, PacketRules, Protocol, Redirect, Rewrite, RewriteTcp, Rule,
    RulesError, Timestamps, Window,
};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// What does not come at once does not come.
const SHORT: Duration = Duration::from_millis(300);

fn rule(name: &str, packets: Match, action: Action) -> Rule {
    Rule {
        name: name.into(),
        packets,
        action,
    }
}

fn incoming(protocol: Protocol) -> Match {
    Match {
        direction: Some(Direction::Ingress),
        protocol: Some(protocol),
        ..Match::default()
    }
}

fn attach(rules: &[Rule]) -> PacketRules {
    PacketRules::attach(rules, &[]).unwrap()
}

/// That each rule was used, and none has failed.
fn assert_used(counts: &[Count]) {
    for count in counts {
        assert!(
            count.packets > 0 && count.bytes >= 20 * count.packets,
            "{counts:?}"
        );
        assert_eq!(count.failed, 0, "{counts:?}");
    }
}

fn redirect_of(family: &Family, mark: Option<u32>) -> Rule {
    let packets = Match {
        source: Some(family.clients.parse().unwrap()),
        destination_ports: 80..=89,
        ..incoming(Protocol::Tcp)
    };
    rule(
        "web",
        packets,
        Action::Redirect(Redirect { port: 8080, mark }),
    )
}

/// A client asks `to`, through a rule, and the router answers on port 8080.
fn is_redirected(
    bed: &bed::Bed,
    rule: Rule,
    listen: impl FnOnce() -> TcpListener + Send + 'static,
    to: SocketAddr,
) {
    let (ready, is_ready) = mpsc::channel();
    let router = bed.on(Host::Router, move || {
        let rules = attach(&[rule]);
        let listener = listen();
        ready.send(()).unwrap();
        let asked = answer(&listener);
        let second = answer(&listener);
        assert_used(&rules.counts().unwrap());
        (asked, second)
    });
    is_ready.recv().unwrap();
    let peers = bed.at(Host::Client, move || (ask(to).0, ask(to).0));
    assert_eq!(peers, (to, to), "who answers is who was asked");
    assert_eq!(
        router.join().unwrap(),
        (to, to),
        "and is told who was asked"
    );
}

#[test]
fn a_connection_to_the_host_goes_to_the_local_port() {
    let Some(bed) = bed("a_connection_to_the_host_goes_to_the_local_port") else {
        return;
    };
    for family in FAMILIES {
        for port in [80, 89] {
            let listen = move || TcpListener::bind(address(family.router, 8080)).unwrap();
            let to = address(family.router, port);
            is_redirected(&bed, redirect_of(&family, None), listen, to);
        }
    }
}

#[test]
fn a_connection_to_another_host_goes_to_the_local_port() {
    let Some(bed) = bed("a_connection_to_another_host_goes_to_the_local_port") else {
        return;
    };
    for family in ["-4", "-6"] {
        bed.ip(
            Host::Router,
            &format!("{family} rule add fwmark 9 lookup 99"),
        );
        bed.ip(
            Host::Router,
            &format!("{family} route add local default dev lo table 99"),
        );
    }
    for family in FAMILIES {
        let unspecified = if family.all == "::/0" {
            "::"
        } else {
            "0.0.0.0"
        };
        let listen = move || transparent(address(unspecified, 8080));
        let to = address(family.elsewhere, 80);
        is_redirected(&bed, redirect_of(&family, Some(9)), listen, to);
    }
}

/// A listening socket for connections to any address.
fn transparent(address: SocketAddr) -> TcpListener {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
    socket.set_ip_transparent_v4(true).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.listen(16).unwrap();
    socket.into()
}

#[test]
fn a_listener_on_the_own_port_does_not_get_what_is_redirected() {
    let Some(bed) = bed("a_listener_on_the_own_port_does_not_get_what_is_redirected") else {
        return;
    };
    let family = FAMILIES[0];
    let listen = move || {
        let own = TcpListener::bind(address(family.router, 80)).unwrap();
        std::mem::forget(own);
        TcpListener::bind("0.0.0.0:8080").unwrap()
    };
    let to = address(family.router, 80);
    is_redirected(&bed, redirect_of(&family, None), listen, to);
}

#[test]
fn a_client_may_use_its_port_again_after_the_proxy_has_closed() {
    let Some(bed) = bed("a_client_may_use_its_port_again_after_the_proxy_has_closed") else {
        return;
    };
    let family = FAMILIES[0];
    let (ready, is_ready) = mpsc::channel();
    let router = bed.on(Host::Router, move || {
        let rules = attach(&[redirect_of(&family, None)]);
        let listener = TcpListener::bind(address(family.router, 8080)).unwrap();
        ready.send(()).unwrap();
        for _ in 0..3 {
            // Who closes first keeps TIME_WAIT.
            let (mut stream, _) = listener.accept().unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        }
        rules.counts().unwrap()
    });
    is_ready.recv().unwrap();
    bed.at(Host::Client, move || {
        for _ in 0..3 {
            let socket =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_reuse_address(true).unwrap();
            socket.bind(&address(family.client, 5555).into()).unwrap();
            // The old connection has to be got rid of first (RFC 1337), but not waited for.
            let to = address(family.router, 80).into();
            socket.connect_timeout(&to, HANG).unwrap();
            let mut stream = TcpStream::from(socket);
            stream.set_read_timeout(Some(HANG)).unwrap();
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
            // The end is here before this side's end is said.
            drop(stream);
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_used(&router.join().unwrap());
}

#[test]
fn a_prefix_is_dropped_until_other_rules_hold() {
    let Some(bed) = bed("a_prefix_is_dropped_until_other_rules_hold") else {
        return;
    };
    bed.route();
    let (to_router, commands) = mpsc::channel::<()>();
    let (done, is_done) = mpsc::channel();
    let router = bed.on(Host::Router, move || {
        let drop_clients = |family: &Family| {
            let packets = Match {
                source: Some(family.clients.parse().unwrap()),
                ..Match::default()
            };
            rule("clients", packets, Action::Drop)
        };
        let mut rules = attach(&FAMILIES.each_ref().map(drop_clients));
        done.send(()).unwrap();
        commands.recv().unwrap();
        let counts = rules.replace(&[]).unwrap();
        done.send(()).unwrap();
        commands.recv().unwrap();
        counts
    });
    is_done.recv().unwrap();
    for (is_open, packets) in [(false, 3_u32), (true, 3)] {
        for family in FAMILIES {
            let server = bed.at(Host::Server, move || udp(address(family.server, 53), SHORT));
            bed.at(Host::Client, move || {
                let client = udp(address(family.client, 0), SHORT);
                for _ in 0..packets {
                    client
                        .send_to(b"hello", address(family.server, 53))
                        .unwrap();
                }
            });
            let arrived = (0..packets)
                .filter(|_| server.recv(&mut [0; 9]).is_ok())
                .count();
            assert_eq!(arrived, if is_open { packets as usize } else { 0 });
        }
        to_router.send(()).unwrap();
        if !is_open {
            is_done.recv().unwrap();
        }
    }
    for count in router.join().unwrap() {
        let expected = Count {
            packets: 3,
            bytes: count.bytes,
            failed: 0,
        };
        assert_eq!(count, expected);
        assert!([3 * 33, 3 * 53].contains(&count.bytes), "{count:?}");
    }
}

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

/// The largest segment that the client may send to the server, through rules.
fn served_elsewhere(bed: &bed::Bed, family: Family, rules: [Rule; 2]) -> u32 {
    let to = address(family.elsewhere, 80);
    let listener = bed.at(Host::Server, move || {
        TcpListener::bind(address(family.server, 8080)).unwrap()
    });
    let serving = bed.on(Host::Server, move || answer(&listener));
    let rules = bed.at(Host::Router, move || attach(&rules));
    let (peer, segment) = bed.at(Host::Client, move || ask(to));
    assert_eq!(peer, to);
    assert_eq!(serving.join().unwrap(), address(family.server, 8080));
    assert_used(&rules.counts().unwrap());
    segment
}

#[test]
fn packets_are_rewritten_and_sent_on_without_routing() {
    let Some(bed) = bed("packets_are_rewritten_and_sent_on_without_routing") else {
        return;
    };
    for family in FAMILIES {
        let rules = elsewhere(&family, RewriteTcp::default(), RewriteTcp::default());
        served_elsewhere(&bed, family, rules);
    }
}

#[test]
fn sequence_numbers_and_timestamps_are_translated() {
    let Some(bed) = bed("sequence_numbers_and_timestamps_are_translated") else {
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
        let to = address(family.elsewhere, 80);
        let listener = bed.at(Host::Server, move || {
            TcpListener::bind(address(family.server, 8080)).unwrap()
        });
        let serving = bed.on(Host::Server, move || answer(&listener));
        let set = elsewhere(&family, there, back);
        let mut rules = bed.at(Host::Router, {
            let set = set.clone();
            move || attach(&set)
        });
        let asking = bed.on(Host::Client, move || ask(to));
        let nothing = [rule("nothing", Match::default(), Action::Drop)];
        rules = bed.at(Host::Router, move || {
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(10));
                rules.replace(&nothing).unwrap();
                rules.replace(&set).unwrap();
            }
            rules
        });
        assert_eq!(asking.join().unwrap().0, to);
        serving.join().unwrap();
        assert_used(&rules.counts().unwrap());
    }
}

#[test]
fn what_connections_offer_is_changed() {
    let Some(bed) = bed("what_connections_offer_is_changed") else {
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
        assert_eq!(served_elsewhere(&bed, family, rules), 700);
    }
}

#[test]
fn a_udp_port_is_redirected_by_two_rules() {
    let Some(bed) = bed("a_udp_port_is_redirected_by_two_rules") else {
        return;
    };
    let there = rule(
        "there",
        Match {
            destination_ports: 53..=53,
            ..incoming(Protocol::Udp)
        },
        Action::Rewrite(Rewrite {
            destination_port: Some(5353),
            ..Rewrite::default()
        }),
    );
    let back = rule(
        "back",
        Match {
            direction: Some(Direction::Egress),
            protocol: Some(Protocol::Udp),
            source_ports: 5353..=5353,
            ..Match::default()
        },
        Action::Rewrite(Rewrite {
            source_port: Some(53),
            ..Rewrite::default()
        }),
    );
    let rules = bed.at(Host::Router, move || attach(&[there, back]));
    for family in FAMILIES {
        let router = bed.at(Host::Router, move || {
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
    let Some(bed) = bed("a_vlan_s_packets_are_met_once_where_the_rule_says") else {
        return;
    };
    if !bed.can(Host::Router, "ip link add link rc name rc.7 type vlan id 7") {
        eprintln!(
            "SKIPPED: a_vlan_s_packets_are_met_once_where_the_rule_says: the kernel has no VLANs"
        );
        return;
    }
    for (host, device, own) in [(Host::Client, "c", 2), (Host::Router, "rc", 1)] {
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
    let rules = bed.at(Host::Router, move || attach(&rules));
    let router = bed.at(Host::Router, || udp(address("10.79.6.1", 5353), HANG));
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
    let Some(bed) = bed("a_tagged_packet_is_rewritten_and_sent_on_without_its_tag") else {
        return;
    };
    // What is for everybody is not sent on.
    bed.ip(Host::Router, "link set rc address 02:00:00:00:00:09");
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
    let rules = bed.at(Host::Router, move || attach(&set));
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

#[test]
fn each_packet_meets_one_set_of_rules_while_they_are_replaced() {
    let Some(bed) = bed("each_packet_meets_one_set_of_rules_while_they_are_replaced") else {
        return;
    };
    let to_port = |port| Match {
        destination_ports: port..=port,
        ..incoming(Protocol::Udp)
    };
    // Whichever set a packet meets, it is counted once, by the first rule of the one or by the last of the other.
    let sets = [
        vec![rule("first", to_port(53), Action::Pass)],
        vec![
            rule("other", to_port(54), Action::Drop),
            rule("last", to_port(53), Action::Drop),
        ],
    ];
    let mut rules = bed.at(Host::Router, {
        let set = sets[0].clone();
        move || attach(&set)
    });
    let stop = Arc::new(AtomicBool::new(false));
    let is_stopped = Arc::clone(&stop);
    let sending = bed.on(Host::Client, move || {
        let client = udp(address(FAMILIES[0].client, 0), HANG);
        let mut sent = 0;
        while !is_stopped.load(Ordering::Relaxed) {
            client
                .send_to(b"hello", address(FAMILIES[0].router, 53))
                .unwrap();
            sent += 1;
        }
        sent
    });
    let mut counted = 0;
    for round in 1..=20 {
        let set = &sets[round % 2];
        let counts = rules.replace(set).unwrap();
        assert!(counts.iter().rev().skip(1).all(|count| count.packets == 0));
        counted += counts.last().unwrap().packets;
    }
    stop.store(true, Ordering::Relaxed);
    let sent: u64 = sending.join().unwrap();
    std::thread::sleep(SHORT);
    counted += rules.counts().unwrap().last().unwrap().packets;
    assert_eq!(counted, sent);
}

#[test]
fn rules_follow_an_interface_that_is_made_anew_and_count_on() {
    let Some(bed) = bed("rules_follow_an_interface_that_is_made_anew_and_count_on") else {
        return;
    };
    let packets = Match {
        interface: Some("own0".into()),
        direction: Some(Direction::Egress),
        destination: Some("10.79.9.0/24".parse().unwrap()),
        ..Match::default()
    };
    let set = [rule("own", packets, Action::Pass)];
    let make = |bed: &bed::Bed| {
        bed.ip(Host::Router, "link add own0 type veth peer name own1");
        bed.ip(Host::Router, "addr add 10.79.9.1/24 dev own0");
        bed.ip(Host::Router, "link set own0 up");
        bed.ip(Host::Router, "link set own1 up");
        let neighbour = "10.79.9.2 lladdr 02:00:00:00:00:09";
        bed.ip(Host::Router, &format!("neigh add {neighbour} dev own0"));
    };
    let send = || {
        udp("10.79.9.1:0".parse().unwrap(), HANG)
            .send_to(b"x", "10.79.9.2:9")
            .unwrap()
    };
    make(&bed);
    let mut rules = bed.at(Host::Router, move || {
        let rules = attach(&set);
        send();
        rules
    });
    let packets = |rules: &PacketRules| rules.counts().unwrap()[0].packets;
    assert_eq!(packets(&rules), 1);
    bed.ip(Host::Router, "link del own0");
    rules = bed.at(Host::Router, move || {
        rules.refresh().unwrap();
        assert!(rules.interfaces().all(|name| name != "own0"));
        rules
    });
    assert_eq!(packets(&rules), 1);
    make(&bed);
    rules = bed.at(Host::Router, move || {
        rules.refresh().unwrap();
        send();
        rules
    });
    assert_eq!(packets(&rules), 2);
}

#[test]
fn interfaces_that_cannot_be_meant_are_told_with_those_that_can() {
    let Some(bed) = bed("interfaces_that_cannot_be_meant_are_told_with_those_that_can") else {
        return;
    };
    let on = |name: &str| Match {
        interface: Some(name.into()),
        ..Match::default()
    };
    let by = |name: &str| {
        let rewrite = Rewrite {
            exit: Some(name.into()),
            ..Rewrite::default()
        };
        rule("exit", Match::default(), Action::Rewrite(rewrite))
    };
    let good = rule("good", Match::default(), Action::Pass);
    let rows = [
        (
            rule("typo", on("eth9"), Action::Drop),
            "packet rule 2 (typo): there is no interface eth9: name one of ",
        ),
        (
            rule("own", on("lo"), Action::Drop),
            "packet rule 2 (own): interface lo: loopback",
        ),
        (
            rule("other", on("rs"), Action::Drop),
            "interface rs is not among those that packet rules are on: name one of rc",
        ),
        (
            by("eth9"),
            "packet rule 2 (exit): there is no interface eth9",
        ),
    ];
    bed.at(Host::Router, move || {
        let mut standing = attach(std::slice::from_ref(&good));
        for (bad, part) in rows {
            let set = [good.clone(), bad];
            // `rs` is there, but not asked for.
            let asked = if part.contains(" rs ") {
                vec!["rc".to_owned()]
            } else {
                vec![]
            };
            let error = PacketRules::attach(&set, &asked).unwrap_err();
            assert!(
                matches!(error, RulesError::Rule { number: 2, .. }),
                "{error:?}"
            );
            assert!(error.to_string().contains(part), "{error}");
            if asked.is_empty() {
                assert_eq!(standing.replace(&set).unwrap_err(), error);
                assert_eq!(standing.rules().len(), 1, "the old rules hold");
            }
        }
        let error = PacketRules::attach(&[good], &["eth9".into()]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("packet rules cannot be used here: interface eth9: there is none"),
            "{text}"
        );
    });
}

#[test]
fn missing_privileges_are_named() {
    let Some(bed) = bed("missing_privileges_are_named") else {
        return;
    };
    bed.at(Host::Router, || {
        let pass = rule("pass", Match::default(), Action::Pass);
        let mut standing = attach(std::slice::from_ref(&pass));
        let none = rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            permitted: rustix::thread::CapabilitySet::empty(),
            inheritable: rustix::thread::CapabilitySet::empty(),
        };
        // Of this thread alone.
        rustix::thread::set_capabilities(None, none).unwrap();
        let text = PacketRules::attach(std::slice::from_ref(&pass), &[])
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are missing"),
            "{text}"
        );
        let text = standing.replace(&[pass]).unwrap_err().to_string();
        assert!(text.contains("CAP_BPF is missing"), "{text}");
        assert_eq!(
            standing.counts().unwrap().len(),
            1,
            "counts need no privileges"
        );
    });
}
