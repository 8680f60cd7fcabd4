//! Packet rules between network namespaces, with connections whose every byte is checked.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a panic here is the failure report; what is skipped says so"
)]

mod redirecting;
mod rewriting;
mod traffic;

#[path = "../../../carrick-splice/tests/splice/hosts.rs"]
#[allow(dead_code, reason = "the tests of carrick-splice need more of it")]
mod hosts;
#[path = "../../../carrick-splice/tests/splice/router.rs"]
#[allow(dead_code, reason = "the tests of carrick-splice need more of it")]
mod router;
#[path = "../../../carrick-splice/tests/splice/support.rs"]
#[allow(dead_code, reason = "the tests of carrick-splice need more of it")]
mod support;

#[path = "../../examples/packet_rules.rs"]
#[allow(dead_code, reason = "only what it does with its words is tested")]
mod example;

use crate::support::{HANG, wait_until};
use carrick_packet_rules::{
    Action, Count, Direction, Match, PacketRules, Protocol, Rewrite, Rule, RulesError,
};
use router::{Bed, FAMILIES, Family, Host, address, bed};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use traffic::udp;

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

#[test]
fn a_prefix_is_dropped_until_other_rules_hold() {
    let Some(bed) = bed() else {
        return;
    };
    bed.route();
    let (to_router, commands) = mpsc::channel::<()>();
    let (done, is_done) = mpsc::channel();
    let router = bed.on(Host::Middle, move || {
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
        wait_until("all are counted", || {
            rules
                .counts()
                .unwrap()
                .iter()
                .all(|count| count.packets >= 3)
        });
        let counts = rules.replace(&[]).unwrap();
        done.send(()).unwrap();
        commands.recv().unwrap();
        counts
    });
    is_done.recv().unwrap();
    for (is_open, packets) in [(false, 3_u32), (true, 3)] {
        let patience = if is_open { HANG } else { SHORT };
        for family in FAMILIES {
            let server = bed.at(Host::Server, move || {
                udp(address(family.server, 53), patience)
            });
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

#[test]
fn each_packet_meets_one_set_of_rules_while_they_are_replaced() {
    let Some(bed) = bed() else {
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
    let mut rules = bed.at(Host::Middle, {
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
    let counted = || counted + rules.counts().unwrap().last().unwrap().packets;
    wait_until("all are counted", || counted() >= sent);
    assert_eq!(counted(), sent);
}

#[test]
fn rules_follow_an_interface_that_is_made_anew_and_count_on() {
    let Some(bed) = bed() else {
        return;
    };
    let packets = Match {
        interface: Some("own0".into()),
        direction: Some(Direction::Egress),
        destination: Some("10.79.9.0/24".parse().unwrap()),
        ..Match::default()
    };
    let set = [rule("own", packets, Action::Pass)];
    let make = |bed: &Bed| {
        bed.ip(Host::Middle, "link add own0 type veth peer name own1");
        bed.ip(Host::Middle, "addr add 10.79.9.1/24 dev own0");
        bed.ip(Host::Middle, "link set own0 up");
        bed.ip(Host::Middle, "link set own1 up");
        let neighbour = "10.79.9.2 lladdr 02:00:00:00:00:09";
        bed.ip(Host::Middle, &format!("neigh add {neighbour} dev own0"));
    };
    let send = || {
        udp("10.79.9.1:0".parse().unwrap(), HANG)
            .send_to(b"x", "10.79.9.2:9")
            .unwrap()
    };
    make(&bed);
    let mut rules = bed.at(Host::Middle, move || {
        let rules = attach(&set);
        send();
        rules
    });
    let packets = |rules: &PacketRules| rules.counts().unwrap()[0].packets;
    assert_eq!(packets(&rules), 1);
    bed.ip(Host::Middle, "link del own0");
    rules = bed.at(Host::Middle, move || {
        rules.refresh().unwrap();
        assert!(rules.interfaces().all(|name| name != "own0"));
        rules
    });
    assert_eq!(packets(&rules), 1);
    make(&bed);
    rules = bed.at(Host::Middle, move || {
        rules.refresh().unwrap();
        send();
        rules
    });
    assert_eq!(packets(&rules), 2);
}

#[test]
fn interfaces_that_cannot_be_meant_are_told_with_those_that_can() {
    let Some(bed) = bed() else {
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
    bed.at(Host::Middle, move || {
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
    let Some(bed) = bed() else {
        return;
    };
    bed.at(Host::Middle, || {
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

#[test]
fn the_example_makes_rules_that_do_what_it_says() {
    let Some(bed) = bed() else {
        return;
    };
    let parse = |line: &str| example::parse(&line.split(' ').collect::<Vec<_>>());
    for line in [
        "rc",
        "rc drop",
        "rc drop 10.79.1.0/24 80",
        "rc redirect 10.0.0.0/8 80",
    ] {
        assert!(
            parse(line)
                .unwrap_err()
                .to_string()
                .contains("usage: packet_rules"),
            "{line}"
        );
    }
    let (interface, rule) = parse("rc drop 10.79.1.0/24").unwrap();
    let rules = bed.at(Host::Middle, move || {
        PacketRules::attach(&[rule], &[interface]).unwrap()
    });
    bed.at(Host::Client, || {
        let client = udp(address("10.79.1.2", 0), SHORT);
        client.send_to(b"x", address("10.79.1.1", 9)).unwrap();
    });
    wait_until("it is counted", || rules.counts().unwrap()[0].packets > 0);
    assert_eq!(rules.counts().unwrap()[0].packets, 1);
    let (_, rule) = parse("rc redirect 10.79.1.0/24 80 8080 7").unwrap();
    let redirect = carrick_packet_rules::Redirect {
        port: 8080,
        mark: Some(7),
    };
    assert_eq!(rule.action, Action::Redirect(redirect));
    assert_eq!(rule.packets.destination_ports, 80..=80);
    assert_eq!(rule.packets.protocol, Some(Protocol::Tcp));
}
