//! The choice of a profile.

use super::*;
use proptest::prelude::*;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn rule(profile: &'static str, when: Conditions) -> Rule<&'static str> {
    Rule { when, profile }
}

fn network(text: &str) -> Option<IpNet> {
    Some(text.parse().unwrap())
}

fn facts(side: ProfileSide, peer: &str) -> LegFacts {
    LegFacts {
        side,
        peer: peer.parse().unwrap(),
        interface: None,
        rtt: None,
    }
}

/// A satellite by interface, then by network, then by time; the rest.
fn selector() -> Selector<&'static str> {
    Selector::new(vec![
        rule(
            "interface",
            Conditions {
                interface: Some("sat0".into()),
                ..Conditions::default()
            },
        ),
        rule(
            "network",
            Conditions {
                side: Some(ProfileSide::Client),
                peer: network("10.1.0.0/16"),
                ..Conditions::default()
            },
        ),
        rule(
            "long",
            Conditions {
                rtt_at_least: Some(MS(400)),
                ..Conditions::default()
            },
        ),
        rule(
            "middling",
            Conditions {
                rtt_at_least: Some(MS(50)),
                rtt_below: Some(MS(400)),
                ..Conditions::default()
            },
        ),
        rule("rest", Conditions::default()),
    ])
}

#[test]
fn the_first_rule_that_is_met_counts() {
    let selector = selector();
    let mut leg = facts(ProfileSide::Client, "10.1.2.3");
    assert_eq!(selector.choose(&leg), Some(&"network"));
    leg.interface = Some("sat0".into());
    assert_eq!(selector.choose(&leg), Some(&"interface"));
    leg.interface = Some("eth0".into());
    assert_eq!(selector.choose(&leg), Some(&"network"));
    leg.peer = "::ffff:10.1.2.3".parse().unwrap();
    assert_eq!(selector.choose(&leg), Some(&"network"));
    leg.side = ProfileSide::Server;
    assert_eq!(selector.choose(&leg), Some(&"rest"));
    for (rtt_ms, profile) in [
        (400, "long"),
        (399, "middling"),
        (50, "middling"),
        (49, "rest"),
    ] {
        leg.rtt = Some(MS(rtt_ms));
        assert_eq!(selector.choose(&leg), Some(&profile), "{rtt_ms} ms");
    }
    let nothing = Selector::<()>::new(Vec::new());
    assert_eq!(nothing.choose(&leg), None);
}

#[test]
fn nothing_is_asked_that_no_rule_needs() {
    let wants = |side, peer: &str| {
        let wanted = selector().wants(side, peer.parse().unwrap());
        (wanted.interface, wanted.rtt)
    };
    // Rules behind the network's are never reached.
    assert_eq!(wants(ProfileSide::Client, "10.1.2.3"), (true, false));
    assert_eq!(wants(ProfileSide::Server, "10.1.2.3"), (true, true));
    let none = Selector::new(vec![rule("all", Conditions::default())]);
    let wanted = none.wants(ProfileSide::Client, "::1".parse().unwrap());
    assert_eq!(wanted, NeededFacts::default());
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let side = prop::option::of(prop_oneof![
        Just(ProfileSide::Client),
        Just(ProfileSide::Server)
    ]);
    let interface = prop::option::of(prop_oneof![Just("a".to_owned()), Just("b".to_owned())]);
    let peer = prop::option::of((0_u8..4, 24_u8..=32).prop_map(|(last, bits)| {
        let address = std::net::Ipv4Addr::new(10, 0, 0, last << 6);
        IpNet::new(address.into(), bits).unwrap()
    }));
    let rtt = || prop::option::of((0_u64..4).prop_map(MS));
    (side, interface, peer, rtt(), rtt()).prop_map(
        |(side, interface, peer, rtt_at_least, rtt_below)| Conditions {
            side,
            interface,
            peer,
            rtt_at_least,
            rtt_below,
        },
    )
}

proptest! {
    /// A property that is not needed would not have changed the choice.
    #[test]
    fn an_unneeded_property_changes_nothing(
        rules in prop::collection::vec(conditions(), 0..6),
        is_client: bool,
        last: u8,
        interface in prop::option::of("[ab]"),
        rtt_ms in prop::option::of(0_u64..4),
    ) {
        let rules = rules.into_iter().enumerate();
        let selector = Selector::new(rules.map(|(profile, when)| Rule { when, profile }).collect());
        let side = if is_client { ProfileSide::Client } else { ProfileSide::Server };
        let peer = IpAddr::from([10, 0, 0, last]);
        let all = LegFacts { side, peer, interface, rtt: rtt_ms.map(MS) };
        let wanted = selector.wants(side, peer);
        let some = LegFacts {
            side,
            peer,
            interface: all.interface.clone().filter(|_| wanted.interface),
            rtt: all.rtt.filter(|_| wanted.rtt),
        };
        prop_assert_eq!(selector.choose(&all), selector.choose(&some));
    }
}
