//! What is wrong with rules, and what would be right: said without privileges, before anything is done.

use crate::{
    Action, Match, PacketRules, Protocol, RULES_MAX, Redirect, Rewrite, RewriteTcp, Rule,
    RulesError, Timestamps,
};
use carrick_splice::hooks::Direction;

fn refusal(packets: Match, action: Action) -> String {
    let good = Rule {
        name: "good".into(),
        packets: Match::default(),
        action: Action::Pass,
    };
    let bad = Rule {
        name: "bad".into(),
        packets,
        action,
    };
    let error = PacketRules::attach(&[good, bad], &[]).expect_err("a rule that makes no sense");
    assert!(
        matches!(error, RulesError::Rule { number: 2, .. }),
        "{error}"
    );
    let text = error.to_string();
    let rest = text.strip_prefix("packet rule 2 (bad): ");
    rest.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "it is the mistake")]
fn a_match_that_makes_no_sense_is_refused() {
    let prefix = |text: &str| Some(text.parse().expect("a prefix"));
    let all = Match::default;
    for (packets, text) in [
        (
            Match {
                source: prefix("10.1.2.3/8"),
                ..all()
            },
            "10.1.2.3/8 is an address in a prefix: the prefix is 10.0.0.0/8",
        ),
        (
            Match {
                source: prefix("10.0.0.0/8"),
                destination: prefix("fd00::/8"),
                ..all()
            },
            "no packet goes from 10.0.0.0/8 to fd00::/8: give prefixes of one family",
        ),
        (
            Match {
                source_ports: 90..=80,
                ..all()
            },
            "no source port is in 90-80: give the smaller number first, as 80-90",
        ),
        (
            Match {
                destination_ports: 1..=0,
                ..all()
            },
            "no destination port is in 1-0: give the smaller number first, as 0-1",
        ),
        (
            Match {
                vlan: Some(4095),
                ..all()
            },
            "there is no VLAN 4095: give a number from 1 to 4094, or none for packets without a tag",
        ),
        (
            Match {
                vlan: Some(0),
                ..all()
            },
            "there is no VLAN 0: give a number from 1 to 4094, or none for packets without a tag",
        ),
    ] {
        assert_eq!(refusal(packets, Action::Drop), text);
    }
}

#[test]
fn a_redirect_that_makes_no_sense_is_refused() {
    let redirect = |direction, protocol, port, mark| {
        let packets = Match {
            direction,
            protocol,
            ..Match::default()
        };
        refusal(packets, Action::Redirect(Redirect { port, mark }))
    };
    let (ingress, tcp) = (Some(Direction::Ingress), Some(Protocol::Tcp));
    for (text, part) in [
        (
            redirect(None, tcp, 80, None),
            "set its direction to ingress",
        ),
        (
            redirect(Some(Direction::Egress), tcp, 80, None),
            "only what comes in",
        ),
        (redirect(ingress, None, 80, None), "set its protocol to TCP"),
        (
            redirect(ingress, Some(Protocol::Udp), 80, None),
            "for UDP, rewrite",
        ),
        (
            redirect(ingress, tcp, 0, None),
            "0 is no local port: give one from 1 to 65535",
        ),
        (redirect(ingress, tcp, 80, Some(0)), "the mark 0 is no mark"),
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_rewriting_that_makes_no_sense_is_refused() {
    let v4 = Match {
        source: Some("10.0.0.0/8".parse().expect("a prefix")),
        protocol: Some(Protocol::Tcp),
        ..Match::default()
    };
    let to = |address: &str| Rewrite {
        destination: Some(address.parse().expect("an address")),
        ..Rewrite::default()
    };
    let of_tcp = |tcp| Rewrite {
        tcp,
        ..Rewrite::default()
    };
    let port = Rewrite {
        source_port: Some(0),
        ..Rewrite::default()
    };
    let mss = RewriteTcp {
        mss_max: Some(0),
        ..RewriteTcp::default()
    };
    let timestamps = RewriteTcp {
        timestamps: Timestamps::Add { value: 0, echo: 0 },
        ..RewriteTcp::default()
    };
    let sequence = RewriteTcp {
        sequence: 1,
        ..RewriteTcp::default()
    };
    for (packets, rewrite, part) in [
        (
            &v4,
            Rewrite::default(),
            "say what is to change, or pass the packets",
        ),
        (
            &v4,
            to("fd00::1"),
            "fd00::1 cannot stand in every packet that it takes: give a source or destination prefix of IPv6 (for all of it, ::/0)",
        ),
        (
            &Match::default(),
            to("10.0.0.1"),
            "(for all of it, 0.0.0.0/0)",
        ),
        (&v4, to("0.0.0.0"), "0.0.0.0 is nobody's address"),
        (&v4, port, "0 is no source port"),
        (&v4, of_tcp(mss), "no segment has 0 bytes"),
        (
            &v4,
            of_tcp(timestamps),
            "adding 0 to timestamps changes nothing",
        ),
        (
            &Match::default(),
            of_tcp(sequence),
            "set its protocol to TCP",
        ),
    ] {
        let text = refusal(packets.clone(), Action::Rewrite(rewrite));
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_set_that_is_too_large_is_refused() {
    let rule = Rule {
        name: String::new(),
        packets: Match::default(),
        action: Action::Drop,
    };
    let rules = vec![rule; RULES_MAX + 1];
    let error = PacketRules::attach(&rules, &[]).expect_err("too many");
    assert_eq!(error, RulesError::TooMany { count: 65 });
    let text = error.to_string();
    assert!(
        text.contains("65 packet rules") && text.contains("at most 64"),
        "{text}"
    );
}
