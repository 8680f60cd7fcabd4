//! Pairs of networks in virtual time.

use super::*;
use std::net::Ipv4Addr;

const SECOND: Duration = Duration::from_secs(1);

fn pair(client: u8, server: u8) -> NetworkPair {
    NetworkPair::of(
        [[192, 0, client, 9], [198, 51, server, 7]].map(|ip| IpAddr::V4(Ipv4Addr::from(ip))),
    )
}

fn seen(segments: u64, again: u64, rtt_ms: u32) -> Seen {
    Seen {
        segments,
        again,
        rtt_us: rtt_ms * 1000,
    }
}

/// Whether a pair with these measurements is lossy.
fn is_lossy(first: Seen, second: Seen) -> bool {
    let (mut paths, now) = (Paths::default(), Instant::now());
    paths.observe(pair(1, 1), [first, second], now);
    paths.is_lossy(pair(1, 1), now)
}

#[test]
fn one_leg_that_loses_is_enough() {
    let good = seen(1000, 0, 1);
    assert!(!is_lossy(good, good));
    assert!(is_lossy(good, seen(1000, 11, 1)));
    assert!(is_lossy(seen(1000, 11, 1), good));
    assert!(!is_lossy(seen(1000, 10, 1), seen(1000, 10, 1)));
}

#[test]
fn a_few_segments_do_not_decide() {
    assert!(!is_lossy(seen(199, 199, 1), seen(199, 199, 1)));
    assert!(is_lossy(seen(200, 3, 1), seen(0, 0, 1)));
}

#[test]
fn where_one_leg_is_far_longer_less_loss_is_too_much() {
    let [short, long] = [seen(10_000, 20, 10), seen(10_000, 0, 50)];
    assert!(is_lossy(short, long));
    assert!(is_lossy(long, short));
    // Length alone is harmless.
    assert!(!is_lossy(seen(10_000, 0, 1), seen(10_000, 0, 600)));
    // Both legs are as long, or neither is.
    assert!(!is_lossy(seen(10_000, 20, 20), long));
    assert!(!is_lossy(seen(10_000, 20, 1), seen(10_000, 0, 49)));
    // Unknown.
    assert!(!is_lossy(seen(10_000, 20, 0), long));
}

#[test]
fn pairs_are_of_networks() {
    let (mut paths, now) = (Paths::default(), Instant::now());
    paths.observe(pair(1, 1), [seen(1000, 100, 1); 2], now);
    let near = |ip: [u8; 4]| IpAddr::V4(Ipv4Addr::from(ip));
    let neighbours = NetworkPair::of([near([192, 0, 1, 200]), near([198, 51, 1, 1])]);
    assert!(paths.is_lossy(neighbours, now));
    // As an IPv6 socket reports it.
    let IpAddr::V4(client) = near([192, 0, 1, 3]) else {
        unreachable!()
    };
    let mapped = NetworkPair::of([client.to_ipv6_mapped().into(), near([198, 51, 1, 1])]);
    assert!(paths.is_lossy(mapped, now));
    for other in [pair(2, 1), pair(1, 2)] {
        assert!(!paths.is_lossy(other, now));
    }
    let of =
        |client: &str| NetworkPair::of([client.parse().unwrap(), "2001:db8::1".parse().unwrap()]);
    assert_eq!(of("2001:db8:1:1::1"), of("2001:db8:1:2::2"));
    assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
}

#[test]
fn what_was_bad_is_tried_again_after_a_while() {
    let (mut paths, begun) = (Paths::default(), Instant::now());
    paths.observe(pair(1, 1), [seen(1000, 100, 1); 2], begun);
    assert!(paths.is_lossy(pair(1, 1), begun + LOSSY_FOR - SECOND));
    assert!(!paths.is_lossy(pair(1, 1), begun + LOSSY_FOR));
    // Good ones in the meantime, by engines with independent legs: the losses fade.
    let mut now = begun;
    while paths.is_lossy(pair(1, 1), now) {
        now += SECOND;
        paths.observe(pair(1, 1), [seen(100, 0, 1); 2], now);
        assert!(now < begun + 3 * LOSSY_FOR);
    }
    // Bad ones: it lasts.
    paths.observe(pair(1, 1), [seen(1000, 100, 1); 2], now);
    for _ in 0..600 {
        now += SECOND;
        paths.observe(pair(1, 1), [seen(100, 5, 1); 2], now);
        assert!(paths.is_lossy(pair(1, 1), now));
    }
}

#[test]
fn round_trip_times_change_slowly() {
    let (mut paths, now) = (Paths::default(), Instant::now());
    // The first round trip is taken as measured; one much longer value changes little.
    paths.observe(pair(1, 1), [seen(1000, 2, 1), seen(1000, 0, 1)], now);
    paths.observe(pair(1, 1), [seen(1000, 2, 1), seen(1000, 0, 80)], now);
    assert!(!paths.is_lossy(pair(1, 1), now));
    for _ in 0..20 {
        paths.observe(pair(1, 1), [seen(1000, 2, 1), seen(1000, 0, 80)], now);
    }
    assert!(paths.is_lossy(pair(1, 1), now));
}

#[test]
fn their_number_is_bounded_and_bad_ones_stay_longest() {
    let (mut paths, mut now) = (Paths::default(), Instant::now());
    paths.observe(pair(0, 0), [seen(1000, 100, 1); 2], now);
    for number in 0..3 * PAIRS_MAX {
        now += Duration::from_millis(1);
        let number = number as u32 + 256;
        let pair = pair((number >> 8) as u8, number as u8);
        paths.observe(pair, [seen(1000, 0, 1); 2], now);
        assert!(paths.0.len() <= PAIRS_MAX);
    }
    assert!(paths.is_lossy(pair(0, 0), now));
    let lossy = paths.lossy(now);
    assert_eq!(lossy.len(), 1);
    assert_eq!(lossy[0].client.to_string(), "192.0.0.0/24");
    assert_eq!(lossy[0].lost_percent, [10.0, 10.0]);
}
