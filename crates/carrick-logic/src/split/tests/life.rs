//! The rule over many connections: it converges, follows changes, does not flap, and its memory is bounded.
use super::address;
use crate::split::*;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A pair whose split connections are faster or slower than its joined ones by a random factor.
struct World {
    table: Table,
    random: fastrand::Rng,
    now: Instant,
    port: u16,
    rtt: [Duration; 2],
    can_join: bool,
    can_leave_out: bool,
    /// Whether connections that should be joined are.
    joins_hold: bool,
}

impl World {
    fn new(seed: u64, rtt_ms: [u64; 2]) -> Self {
        Self {
            table: Table::new(Settings::default()),
            random: fastrand::Rng::with_seed(seed),
            now: Instant::now(),
            port: 1024,
            rtt: rtt_ms.map(Duration::from_millis),
            can_join: true,
            can_leave_out: true,
            joins_hold: true,
        }
    }

    /// One more connection; `gain` is the true value, as the logarithm of 1 + GoS.
    fn step(&mut self, gain: f64, deviation: f64) -> Decision {
        self.port = self.port.checked_add(1).unwrap_or(1024);
        let client = SocketAddr::new([10, 0, 0, self.random.u8(..)].into(), self.port);
        let server = address("198.51.100.1:80");
        let known = FirstKnown {
            rtt: self.rtt.map(Some),
            client_window_bytes: 65_536,
            can_join: self.can_join,
            can_leave_out: self.can_leave_out,
        };
        let decision = self.table.decide(client, server, &known);
        if decision.way == Way::LeaveOut {
            self.table.left_out(client, server, self.now);
        }
        let was = match decision.way {
            Way::Join if self.joins_hold => Some(Way::Join),
            Way::Join => None,
            Way::Split | Way::LeaveOut => Some(Way::Split),
        };
        let chance = (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0;
        let bytes = 20_000 + self.random.u64(..30_000);
        let better = if was == Some(Way::Split) { gain } else { 0.0 };
        let throughput = 50_000.0 * (better + deviation * chance).exp();
        let legs = self.rtt.map(|rtt| LegSeen {
            rtt,
            rtt_min: rtt,
            segments: bytes / 1448,
            ..LegSeen::default()
        });
        let outcome = Outcome {
            client,
            server,
            wanted: decision.way,
            was,
            legs,
            bytes,
            turns: 1,
            active: Duration::from_secs_f64(bytes as f64 / throughput),
            client_window_bytes: 65_536,
        };
        self.table.learn(&outcome, self.now);
        self.now += Duration::from_secs(1);
        decision
    }

    fn is_split(&self) -> bool {
        self.table.view(self.now)[0].decision.way == Way::Split
    }

    /// Number of changed decisions over this many connections.
    fn changes(&mut self, count: usize, gain: f64, deviation: f64) -> usize {
        let mut changes = 0;
        let mut since = DWELL;
        for _ in 0..count {
            let before = self.table.is_empty() || self.is_split();
            let is_first = self.table.is_empty();
            self.step(gain, deviation);
            since += 1;
            if !is_first && self.is_split() != before {
                assert!(since >= DWELL, "it changes its mind after {since}");
                (changes, since) = (changes + 1, 0);
            }
        }
        changes
    }
}

const LONG: [u64; 2] = [600, 20];
const SHORT: [u64; 2] = [1, 1];

#[test]
fn it_finds_out_whatever_the_model_believes() {
    for seed in 0..10 {
        for (rtt, gain) in [
            (LONG, -0.1),
            (LONG, -0.5),
            (LONG, 0.7),
            (SHORT, 0.1),
            (SHORT, 0.5),
            (SHORT, -0.3),
        ] {
            let mut world = World::new(seed, rtt);
            world.changes(3000, gain, 0.3);
            assert_eq!(world.is_split(), gain > 0.0, "{rtt:?} {gain} {seed}");
            let right = if gain > 0.0 { Way::Split } else { Way::Join };
            let wrong = (0..1000)
                .filter(|_| world.step(gain, 0.3).way != right)
                .count();
            assert!(wrong < 270, "{wrong} of 1000: {rtt:?} {gain} {seed}");
            let view = &world.table.view(world.now)[0];
            assert!((view.believed.ln_1p() - gain).abs() < 0.2, "{view:?}");
        }
    }
}

#[test]
fn it_follows_changes() {
    for seed in 0..10 {
        let mut world = World::new(seed, LONG);
        for (round, gain) in [0.4, -0.3, 0.4, -0.3].into_iter().enumerate() {
            world.changes(4000, gain, 0.3);
            assert_eq!(world.is_split(), gain > 0.0, "{round} {seed}");
        }
    }
}

#[test]
fn it_does_not_flap() {
    for seed in 0..10 {
        for gain in [-0.02, -0.01, 0.0, 0.01, 0.02] {
            let mut world = World::new(seed, [60, 40]);
            let changes = world.changes(5000, gain, 0.4);
            assert!(changes <= 12, "{changes} changes: {gain} {seed}");
        }
        let mut world = World::new(seed, LONG);
        assert_eq!(world.changes(5000, 0.5, 0.4), 0);
    }
}

#[test]
fn exploring_costs_little_and_never_ends() {
    let mut world = World::new(3, LONG);
    world.changes(500, 1.0, 0.3);
    let explores = |decision: &Decision| decision.reason == Reason::Explore;
    let count = (0..10_000)
        .map(|_| world.step(1.0, 0.3))
        .filter(explores)
        .count();
    // One in 64, within four standard deviations.
    assert!(count.abs_diff(156) < 50, "{count}");
    // If there is nothing to lose, more.
    let mut world = World::new(3, LONG);
    world.changes(3000, 0.0, 0.3);
    let count = (0..2000)
        .map(|_| world.step(0.0, 0.3))
        .filter(explores)
        .count();
    assert!((100..=600).contains(&count), "{count}");
}

#[test]
fn at_first_sight_the_handshakes_decide() {
    let decide = |rtt_ms: [u64; 2]| {
        let mut world = World::new(0, rtt_ms);
        world.step(0.0, 0.1)
    };
    assert_eq!(decide([600, 20]).reason, Reason::LikelyGain);
    assert_eq!(decide([600, 20]).way, Way::Split);
    assert_eq!(decide([1, 1]).reason, Reason::NoLikelyGain);
    assert_eq!(decide([1, 1]).way, Way::Join);
}

#[test]
fn pairs_that_cannot_be_joined_are_excluded_and_measured_again() {
    let mut world = World::new(5, SHORT);
    world.joins_hold = false;
    let ways: Vec<_> = (0..200).map(|_| world.step(-0.2, 0.2).way).collect();
    assert!(ways[..8].contains(&Way::Join));
    let outs = ways.iter().filter(|way| **way == Way::LeaveOut).count();
    // Each time, some are measured first.
    assert!((5..=13).contains(&outs), "{outs}");
    let first = ways.iter().position(|way| *way == Way::LeaveOut).unwrap();
    assert!(first >= 8, "{first}");

    let mut world = World::new(5, SHORT);
    (world.can_join, world.can_leave_out) = (false, false);
    for count in 0..50 {
        let decision = world.step(-0.2, 0.2);
        assert_eq!(decision.way, Way::Split);
        if count > 0 {
            assert_eq!(decision.reason, Reason::CannotJoin);
        }
    }
}

#[test]
fn the_pair_that_was_used_least_lately_leaves() {
    let settings = Settings {
        pairs_max: 100,
        ..Settings::default()
    };
    let mut table = Table::new(settings);
    let now = Instant::now();
    let learn = |table: &mut Table, number: u32| {
        let client = SocketAddr::new(std::net::Ipv4Addr::from(number << 8).into(), 1000);
        let outcome = Outcome {
            client,
            server: address("198.51.100.1:80"),
            wanted: Way::Split,
            was: Some(Way::Split),
            legs: [LegSeen::default(); 2],
            bytes: 1000,
            turns: 0,
            active: Duration::from_millis(1),
            client_window_bytes: 0,
        };
        table.learn(&outcome, now);
    };
    for number in 0..10_000 {
        learn(&mut table, 1 + number);
        // This one is in constant use.
        learn(&mut table, 0);
        assert!(table.len() <= 100);
    }
    assert_eq!(table.evicted(), 10_001 - 100);
    let view = table.view(now);
    assert_eq!(view.len(), 100);
    assert_eq!(view[0].pair.client.to_string(), "0.0.0.0/24");
    assert_eq!(view[0].connections, 10_000);
}

fn outcomes() -> impl Strategy<Value = (Outcome, u64)> {
    let extreme = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        any::<u64>(),
        0..100_000u64
    ];
    let times = prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..10_000_000_000u64).prop_map(Duration::from_nanos)
    ];
    let way = prop_oneof![Just(Way::Split), Just(Way::Join), Just(Way::LeaveOut)];
    let seen = (
        times.clone(),
        times.clone(),
        extreme.clone(),
        extreme.clone(),
        extreme.clone(),
    );
    let seen = seen.prop_map(|(rtt_min, rtt, segments, again, rate)| LegSeen {
        rtt_min,
        rtt,
        segments,
        again,
        rate,
    });
    let was = prop::option::of(way.clone());
    let what = (
        way,
        was,
        [seen.clone(), seen],
        extreme.clone(),
        times,
        extreme,
    );
    (what, 0..4u8, 0..10_000u64).prop_map(|(what, network, pause_s)| {
        let (wanted, was, legs, bytes, active, client_window_bytes) = what;
        let outcome = Outcome {
            client: SocketAddr::new([10, 0, network, 1].into(), 1000),
            server: address("[2001:db8::1]:80"),
            wanted,
            was,
            legs,
            bytes,
            turns: bytes as u32,
            active,
            client_window_bytes,
        };
        (outcome, pause_s)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_is_seen_it_stays_sane(all in prop::collection::vec(outcomes(), 1..60)) {
        let mut table = Table::new(Settings::default());
        let mut now = Instant::now() + Duration::from_secs(1_000_000);
        for (outcome, pause_s) in all {
            // Time may seem to go back: threads read it before they take the lock.
            now = if pause_s % 7 == 0 { now - Duration::from_secs(1) } else { now + Duration::from_secs(pause_s) };
            table.learn(&outcome, now);
            let known = FirstKnown { can_join: true, can_leave_out: true, ..FirstKnown::default() };
            let decision = table.decide(outcome.client, outcome.server, &known);
            prop_assert_eq!(decision, table.decide(outcome.client, outcome.server, &known));
            for view in table.view(now) {
                prop_assert!(!view.believed.is_nan() && view.believed >= -1.0);
                prop_assert!((1.0 / 64.0..=0.25).contains(&view.exploring));
                for leg in &view.legs {
                    prop_assert!((0.0..=1.0).contains(&leg.loss()) && leg.rate().is_finite());
                }
                if let Some(gain) = view.gain {
                    prop_assert!(gain.interval[0] <= gain.gos && gain.gos <= gain.interval[1]);
                }
            }
        }
    }
}
