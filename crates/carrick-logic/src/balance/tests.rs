//! Distribution of choices, and which keys move when servers come and go.
use super::{Algorithm, Balancer, ServerView};
use proptest::prelude::*;

const METHODS: [Algorithm; 4] = [
    Algorithm::RoundRobin,
    Algorithm::LeastConnections,
    Algorithm::TwoChoices,
    Algorithm::Hash,
];

fn server(weight: u32) -> ServerView {
    ServerView {
        weight,
        active: 0,
        eligible: true,
    }
}

fn servers(weights: &[u32]) -> Vec<ServerView> {
    weights.iter().map(|&weight| server(weight)).collect()
}

fn keys(count: u32) -> impl Iterator<Item = [u8; 4]> {
    (0..count).map(u32::to_be_bytes)
}

/// How often each server is chosen, for different keys.
fn counts(balancer: &mut Balancer, servers: &[ServerView], picks: u32) -> Vec<u32> {
    let mut counts = vec![0; servers.len()];
    for key in keys(picks) {
        counts[balancer.pick(servers, Some(&key)).unwrap()] += 1;
    }
    counts
}

#[track_caller]
fn assert_near(counts: &[u32], weights: &[u32], tolerance: f64) {
    let picks: f64 = counts.iter().copied().map(f64::from).sum();
    let total: f64 = weights.iter().copied().map(f64::from).sum();
    for (count, weight) in counts.iter().zip(weights) {
        let expected = picks * f64::from(*weight) / total;
        assert!(
            (f64::from(*count) - expected).abs() <= expected * tolerance,
            "{counts:?} for {weights:?}"
        );
    }
}

#[test]
fn round_robin_is_exact_and_smooth() {
    let weights = [5, 1, 1];
    let mut balancer = Balancer::new(Algorithm::RoundRobin, 0);
    let picks: Vec<_> = (0..7)
        .map(|_| balancer.pick(&servers(&weights), None).unwrap())
        .collect();
    assert_eq!(picks, [0, 0, 1, 0, 2, 0, 0]);
    for seed in [0, 1, 6, 99, u64::MAX] {
        let mut balancer = Balancer::new(Algorithm::RoundRobin, seed);
        assert_eq!(
            counts(&mut balancer, &servers(&weights), 700),
            [500, 100, 100],
            "{seed}"
        );
    }
}

#[test]
fn workers_begin_differently() {
    let three = servers(&[1, 1, 1]);
    for algorithm in [Algorithm::RoundRobin, Algorithm::LeastConnections] {
        let first = |seed| Balancer::new(algorithm, seed).pick(&three, None).unwrap();
        assert_eq!([first(0), first(1), first(2), first(3)], [0, 1, 2, 0]);
    }
    let first = |seed| {
        Balancer::new(Algorithm::TwoChoices, seed)
            .pick(&three, None)
            .unwrap()
    };
    let firsts: std::collections::HashSet<_> = (0..50).map(first).collect();
    assert_eq!(firsts.len(), 3);
}

#[test]
fn least_connections_takes_the_least_for_its_weight() {
    let busy = |weight, active| ServerView {
        weight,
        active,
        eligible: true,
    };
    let rows: [(&[ServerView], usize); 5] = [
        (&[busy(1, 3), busy(1, 2), busy(1, 4)], 1),
        (&[busy(1, 2), busy(4, 7), busy(1, 3)], 1),
        (&[busy(1, 2), busy(4, 9), busy(1, 3)], 0),
        (&[busy(1000, u32::MAX), busy(1, 4_294_968)], 0),
        (&[busy(1000, u32::MAX), busy(1, 4_294_967)], 1),
    ];
    for (servers, expected) in rows {
        for seed in 0..5 {
            assert_eq!(
                Balancer::new(Algorithm::LeastConnections, seed).pick(servers, None),
                Some(expected),
                "{servers:?}"
            );
        }
    }
}

#[test]
fn equals_take_turns_by_weight() {
    let mut balancer = Balancer::new(Algorithm::LeastConnections, 3);
    assert_eq!(counts(&mut balancer, &servers(&[3, 1]), 400), [300, 100]);
    // The busy one is not in the rotation.
    let mut three = servers(&[1, 1, 1]);
    three[1].active = 1;
    assert_eq!(counts(&mut balancer, &three, 100), [50, 0, 50]);
}

#[test]
fn two_choices_spreads_by_weight_and_avoids_the_busiest() {
    let weights = [1, 2, 3];
    let mut balancer = Balancer::new(Algorithm::TwoChoices, 7);
    let mut three = servers(&weights);
    // With lasting connections, active counts follow the weights closely: that is the point of two choices.
    for _ in 0..6000 {
        let chosen = balancer.pick(&three, None).unwrap();
        three[chosen].active += 1;
    }
    let active: Vec<_> = three.iter().map(|server| server.active).collect();
    assert_near(&active, &weights, 0.05);
    // The busiest of all loses every comparison.
    let mut three = servers(&[1, 1, 1]);
    three[2].active = 9;
    let counts = counts(&mut balancer, &three, 2000);
    assert_eq!(counts[2], 0);
    assert_near(&counts[..2], &[1, 1], 0.15);
}

#[test]
fn hash_spreads_by_weight() {
    let weights = [1, 1, 2, 4];
    let mut balancer = Balancer::new(Algorithm::Hash, 0);
    assert_near(
        &counts(&mut balancer, &servers(&weights), 40_000),
        &weights,
        0.06,
    );
}

#[test]
fn hash_is_the_same_for_all_workers() {
    let four = servers(&[1, 2, 3, 4]);
    let mut one = Balancer::new(Algorithm::Hash, 1);
    let mut other = Balancer::new(Algorithm::Hash, 2);
    for key in keys(500) {
        let chosen = one.pick(&four, Some(&key));
        assert_eq!(chosen, other.pick(&four, Some(&key)));
        // Active requests do not matter.
        let busy: Vec<_> = four
            .iter()
            .map(|server| ServerView {
                active: u32::from(key[3]),
                ..*server
            })
            .collect();
        assert_eq!(chosen, one.pick(&busy, Some(&key)));
    }
}

/// The choices of this version; a later one must make the same, or caches behind a half-updated fleet become useless.
#[test]
fn hash_does_not_change_between_versions() {
    let four = servers(&[1, 1, 1, 1]);
    let mut balancer = Balancer::new(Algorithm::Hash, 0);
    let paths = ["/", "/a", "/b", "/images/1.gif", "", "/index.html"];
    let chosen: Vec<_> = paths
        .iter()
        .map(|path| balancer.pick(&four, Some(path.as_bytes())).unwrap())
        .collect();
    assert_eq!(chosen, HASH_OF_PATHS);
}
const HASH_OF_PATHS: [usize; 6] = [0, 0, 2, 1, 2, 2];

#[test]
fn a_server_that_leaves_moves_only_its_own_keys() {
    let mut four = servers(&[1, 2, 1, 3]);
    let mut balancer = Balancer::new(Algorithm::Hash, 0);
    let before: Vec<_> = keys(5000)
        .map(|key| balancer.pick(&four, Some(&key)).unwrap())
        .collect();
    four[1].eligible = false;
    let mut heirs = [0; 4];
    for (key, before) in keys(5000).zip(&before) {
        let now = balancer.pick(&four, Some(&key)).unwrap();
        if *before == 1 {
            heirs[now] += 1;
        } else {
            assert_eq!(now, *before);
        }
    }
    // Its keys are distributed by weight.
    assert_near(&[heirs[0], heirs[2], heirs[3]], &[1, 1, 3], 0.2);
    four[1].eligible = true;
    let again: Vec<_> = keys(5000)
        .map(|key| balancer.pick(&four, Some(&key)).unwrap())
        .collect();
    assert_eq!(before, again);
}

#[test]
fn with_names_keys_stay_with_their_server_over_a_reload() {
    let names: [&[u8]; 4] = [
        b"10.0.0.1:80",
        b"10.0.0.2:80",
        b"10.0.0.3:80",
        b"10.0.0.4:80",
    ];
    let reloaded: [&[u8]; 4] = [
        b"10.0.0.9:80",
        b"10.0.0.4:80",
        b"10.0.0.2:80",
        b"10.0.0.1:80",
    ];
    let four = servers(&[1, 1, 1, 1]);
    let mut before = Balancer::new(Algorithm::Hash, 0).with_names(names);
    let mut after = Balancer::new(Algorithm::Hash, 5).with_names(reloaded);
    let mut moved = 0;
    for key in keys(4000) {
        let was = names[before.pick(&four, Some(&key)).unwrap()];
        let is = reloaded[after.pick(&four, Some(&key)).unwrap()];
        if was != is {
            // Only from the removed server, and to the added one.
            assert!(was == names[2] || is == reloaded[0]);
            moved += 1;
        }
    }
    assert!((1200..2000).contains(&moved), "{moved}");
}

#[test]
fn without_a_key_hash_takes_turns() {
    let mut balancer = Balancer::new(Algorithm::Hash, 0);
    let picks: Vec<_> = (0..4)
        .map(|_| balancer.pick(&servers(&[1, 1]), None).unwrap())
        .collect();
    assert_eq!(picks, [0, 1, 0, 1]);
}

#[test]
fn a_server_that_comes_back_is_not_flooded() {
    let mut two = servers(&[1, 1]);
    let mut balancer = Balancer::new(Algorithm::RoundRobin, 0);
    two[1].eligible = false;
    assert_eq!(counts(&mut balancer, &two, 1000), [1000, 0]);
    two[1].eligible = true;
    assert_eq!(counts(&mut balancer, &two, 10), [5, 5]);
}

#[test]
fn the_number_of_servers_may_change() {
    for algorithm in METHODS {
        let mut balancer = Balancer::new(algorithm, 1);
        for weights in [[1, 2, 3].as_slice(), &[1], &[], &[4, 4, 4, 4]] {
            let chosen = balancer.pick(&servers(weights), Some(b"key"));
            assert_eq!(chosen.is_some(), !weights.is_empty());
        }
    }
}

fn some_servers() -> impl Strategy<Value = Vec<ServerView>> {
    let weight = prop_oneof![4 => 0..5_u32, 1 => Just(1000), 1 => Just(u32::MAX)];
    let active = prop_oneof![4 => 0..4_u32, 1 => Just(u32::MAX)];
    let server =
        (weight, active, any::<bool>()).prop_map(|(weight, active, eligible)| ServerView {
            weight,
            active,
            eligible,
        });
    prop::collection::vec(server, 0..8)
}

proptest! {
    #[test]
    fn an_eligible_server_is_chosen_if_there_is_one(rounds in prop::collection::vec(some_servers(), 1..20), seed in any::<u64>(), key in any::<Option<[u8; 3]>>()) {
        for algorithm in METHODS {
            let mut balancer = Balancer::new(algorithm, seed);
            for servers in &rounds {
                match balancer.pick(servers, key.as_ref().map(<[u8; 3]>::as_slice)) {
                    Some(place) => prop_assert!(servers[place].eligible),
                    None => prop_assert!(servers.iter().all(|server| !server.eligible)),
                }
            }
        }
    }

    /// Over each whole cycle, wherever the seed starts it, every server has exactly its share.
    #[test]
    fn round_robin_is_exact(weights in prop::collection::vec(1..9_u32, 1..6), seed in any::<u64>()) {
        let cycle = weights.iter().sum();
        let mut balancer = Balancer::new(Algorithm::RoundRobin, seed);
        for _ in 0..3 {
            prop_assert_eq!(&counts(&mut balancer, &servers(&weights), cycle), &weights);
        }
    }
}
