//! Measurements of legs, sizes and gains; `life` has the rule over time, `cells` the paper's cells.
mod cells;
mod life;

use super::gain::Total;
use super::model::likely_gain;
use super::*;
use crate::split::evidence::Evidence;
use std::net::SocketAddr;

pub(super) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn leg(rtt_ms: u64, again: u64) -> LegState {
    let mut leg = LegState::default();
    let seen = LegSeen {
        rtt: Duration::from_millis(rtt_ms),
        rtt_min: Duration::from_millis(rtt_ms),
        segments: 10_000,
        again,
        rate: 0,
    };
    leg.learn(&seen, 1.0);
    leg
}

#[test]
fn a_pair_is_the_networks_of_its_addresses() {
    let prefixes = Prefixes::default();
    let pair = |client: &str, server: &str| {
        Pair::of(client.parse().unwrap(), server.parse().unwrap(), prefixes)
    };
    let one = pair("192.0.2.7", "2001:db8:1:2::3");
    assert_eq!(one.client.to_string(), "192.0.2.0/24");
    assert_eq!(one.server.to_string(), "2001:db8:1::/48");
    assert_eq!(one, pair("::ffff:192.0.2.99", "2001:db8:1:ffff::1"));
    assert_ne!(one, pair("192.0.3.7", "2001:db8:1:2::3"));
    let all = Prefixes { v4: 200, v6: 200 };
    let host = Pair::of(
        "192.0.2.7".parse().unwrap(),
        "2001:db8::1".parse().unwrap(),
        all,
    );
    assert_eq!(host.client.to_string(), "192.0.2.7/32");
    assert_eq!(host.server.to_string(), "2001:db8::1/128");
}

#[test]
fn what_a_leg_has_shown_is_kept_and_fades() {
    let mut leg = LegState::default();
    assert_eq!((leg.rtt(), leg.loss()), (None, 0.0));
    let seen = LegSeen {
        rtt_min: Duration::from_millis(80),
        rtt: Duration::from_millis(100),
        segments: 1000,
        again: 10,
        rate: 500_000,
    };
    leg.learn(&seen, 1.0);
    assert_eq!(leg.rtt(), Some(Duration::from_millis(100)));
    assert_eq!(leg.rtt_min(), Some(Duration::from_millis(80)));
    assert!((leg.loss() - 0.01).abs() < 1e-9);
    let longer = LegSeen {
        rtt_min: Duration::from_millis(180),
        rtt: Duration::from_millis(180),
        ..seen
    };
    leg.learn(&longer, 1.0);
    assert_eq!(leg.rtt(), Some(Duration::from_millis(110)));
    // A new route shows in the minimum after a while.
    for _ in 0..1000 {
        leg.learn(&longer, 1.0);
    }
    assert!(leg.rtt_min().unwrap() > Duration::from_millis(175));
    // Old losses no longer count.
    let fine = LegSeen { again: 0, ..seen };
    leg.learn(&fine, 0.001);
    assert!(leg.loss() < 0.01, "{}", leg.loss());
}

#[test]
fn few_segments_show_no_loss_and_short_connections_no_rate() {
    let mut leg = LegState::default();
    let seen = LegSeen {
        segments: 10,
        again: 5,
        rate: 20_000,
        ..LegSeen::default()
    };
    leg.learn(&seen, 1.0);
    assert_eq!(leg.loss(), 0.0);
    assert_eq!((leg.rate(), leg.full_rate()), (20_000.0, 0.0));
    leg.learn(
        &LegSeen {
            segments: 700,
            ..seen
        },
        1.0,
    );
    assert_eq!(leg.full_rate(), 20_000.0);
}

#[test]
fn the_model_gains_where_one_leg_is_long_and_sizes_are_beyond_the_first_window() {
    let window = 65_536.0;
    let gain = |legs: [LegState; 2], bytes| likely_gain(&legs, window, bytes).exp_m1();
    let satellite = [leg(600, 0), leg(30, 0)];
    assert!(gain(satellite, 1_000).abs() < 0.01);
    assert!(gain(satellite, 10_000).abs() < 0.01);
    assert!(gain(satellite, 60_000) > 0.5);
    // It rises and falls, as in Figure 4.
    assert!(gain(satellite, 60_000) > gain(satellite, 20_000));
    assert!(gain(satellite, 60_000) > gain(satellite, 30_000_000));
    // Legs in a data center: relaying costs more than it gains.
    for bytes in [1_000, 10_000, 60_000] {
        assert!(gain([leg(1, 0), leg(1, 0)], bytes) < -0.02, "{bytes}");
    }
    // Loss on one leg hurts more over both.
    let lossy = [leg(300, 100), leg(30, 0)];
    assert!(gain(lossy, 30_000_000) > 0.05);
    // The longer the other leg, the more each loss costs.
    assert!(gain([leg(300, 0), leg(30, 100)], 30_000_000) > 1.0);
}

#[test]
fn a_gain_is_shown_with_its_interval_once_there_is_enough() {
    let mut evidence = Evidence::default();
    let mut random = fastrand::Rng::with_seed(7);
    let gain = |evidence: &Evidence| {
        let mut total = Total::default();
        total.add(evidence);
        total.gain()
    };
    for count in 0..40 {
        assert_eq!(gain(&evidence).is_some(), count >= 8, "{count}");
        evidence.split.learn(1.0 + 0.2 * random.f64());
        evidence.joined.learn(0.5 + 0.2 * random.f64());
    }
    let gain = gain(&evidence).unwrap();
    let truth = 0.5f64.exp_m1();
    assert!(
        gain.interval[0] < truth && truth < gain.interval[1],
        "{gain:?}"
    );
    assert!(gain.interval[1] - gain.interval[0] < 0.2, "{gain:?}");
    assert_eq!((gain.split, gain.joined), (40.0, 40.0));
}

#[test]
fn nineteen_of_twenty_intervals_hold_the_truth() {
    let mut random = fastrand::Rng::with_seed(11);
    // The sum of twelve uniform values is nearly normal.
    let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    let (runs, truth) = (2000, 0.1);
    let held = (0..runs).filter(|_| {
        let mut total = Total::default();
        // Pairs with unrelated throughputs.
        for pair in 0..4 {
            let mut evidence = Evidence::default();
            for _ in 0..20 {
                evidence
                    .split
                    .learn(f64::from(pair) + truth + 0.3 * normal());
            }
            for _ in 0..5 {
                evidence.joined.learn(f64::from(pair) + 0.3 * normal());
            }
            total.add(&evidence);
        }
        let [low, high] = total.gain().unwrap().interval;
        low < truth.exp_m1() && truth.exp_m1() < high
    });
    let share = held.count() as f64 / f64::from(runs);
    assert!((0.93..0.98).contains(&share), "{share}");
}

#[test]
fn a_share_of_connections_is_chosen_always_the_same() {
    let server = address("198.51.100.1:80");
    let clients = (0..100_000u32).map(|number| {
        let port = 1024 + (number % 60_000) as u16;
        SocketAddr::new([10, 0, (number / 60_000) as u8, 1].into(), port)
    });
    let clients: Vec<_> = clients.collect();
    let count = |purpose, share| {
        let chosen = clients
            .iter()
            .filter(|client| is_chosen(**client, server, purpose, share));
        chosen.count()
    };
    assert_eq!(count(Purpose::Control, 0.0), 0);
    assert_eq!(count(Purpose::Control, 1.0), clients.len());
    // Four standard deviations.
    assert!(count(Purpose::Control, 0.01).abs_diff(1000) < 126);
    assert_eq!(count(Purpose::Control, 0.05), count(Purpose::Control, 0.05));
    // Connections in the control group do not explore more often than others.
    let both = clients.iter().filter(|client| {
        is_chosen(**client, server, Purpose::Control, 0.1)
            && is_chosen(**client, server, Purpose::Explore, 0.1)
    });
    assert!(both.count().abs_diff(1000) < 126);
    let mapped = address("[::ffff:10.0.0.1]:2000");
    for share in [0.1, 0.3, 0.5, 0.7, 0.9] {
        assert_eq!(
            is_chosen(mapped, server, Purpose::Control, share),
            is_chosen(address("10.0.0.1:2000"), server, Purpose::Control, share)
        );
    }
}
