//! The order of addresses.
use super::{ATTEMPTS_MAX, order};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn families_alternate_and_ipv6_is_first() {
    let rows: [(&[&str], &[&str]); 8] = [
        (&[], &[]),
        (&["1.1.1.1"], &["1.1.1.1"]),
        (
            &["1.1.1.1", "1.1.1.2", "::1", "::2"],
            &["::1", "1.1.1.1", "::2", "1.1.1.2"],
        ),
        (
            &["1.1.1.1", "1.1.1.2", "1.1.1.3", "::9"],
            &["::9", "1.1.1.1", "1.1.1.2", "1.1.1.3"],
        ),
        (&["::2", "::1"], &["::2", "::1"]),
        (&["::2", "1.1.1.1", "::2", "1.1.1.1"], &["::2", "1.1.1.1"]),
        (&["::ffff:1.1.1.1", "1.1.1.1", "::1"], &["::1", "1.1.1.1"]),
        (
            &["::1", "::2", "::3", "::4", "::5", "::6", "::7", "1.1.1.1"],
            &["::1", "1.1.1.1", "::2", "::3", "::4", "::5"],
        ),
    ];
    for (given, expected) in rows {
        assert_eq!(order(&addresses(given)), addresses(expected), "{given:?}");
    }
}

fn some_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0..6_u32).prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
        (0..6_u128).prop_map(|bits| IpAddr::V6(Ipv6Addr::from(bits << 64))),
        (0..6_u32).prop_map(|bits| IpAddr::V6(Ipv4Addr::from(bits).to_ipv6_mapped())),
    ]
}

proptest! {
    #[test]
    fn an_order_is_part_of_what_was_given(given in prop::collection::vec(some_address(), 0..16)) {
        let ordered = order(&given);
        let distinct: std::collections::HashSet<_> = given.iter().map(IpAddr::to_canonical).collect();
        prop_assert_eq!(ordered.len(), distinct.len().min(ATTEMPTS_MAX));
        let once: std::collections::HashSet<_> = ordered.iter().copied().collect();
        prop_assert_eq!(once.len(), ordered.len());
        prop_assert!(once.is_subset(&distinct));
        // Either family is tried by the second attempt.
        for is_v4 in [true, false] {
            if distinct.iter().any(|address| address.is_ipv4() == is_v4) {
                prop_assert!(ordered.iter().take(2).any(|address| address.is_ipv4() == is_v4));
            }
        }
    }
}
