//! Tests of random choices: against their laws by chi-square, and for repetition.

use statrs::distribution::{ChiSquared, ContinuousCDF as _};

use super::*;

/// The probability that so large a deviation from the law is chance. The draws are fixed by the seed, so that a test cannot
/// fail one day out of a thousand.
fn p_value(observed: &[u64], probabilities: &[f64]) -> f64 {
    let total: u64 = observed.iter().sum();
    let statistic: f64 = observed
        .iter()
        .zip(probabilities)
        .map(|(seen, probability)| {
            let expected = probability * total as f64;
            assert!(expected >= 5.0, "too few draws for chi-square");
            (*seen as f64 - expected).powi(2) / expected
        })
        .sum();
    let freedom = (observed.len() - 1) as f64;
    1.0 - ChiSquared::new(freedom).unwrap().cdf(statistic)
}

fn draw(weighted: &Weighted, kinds: usize, draws: usize) -> Vec<u64> {
    let mut chance = Chance::new(1, 2);
    let mut seen = vec![0; kinds];
    for _ in 0..draws {
        seen[weighted.choose(&mut chance)] += 1;
    }
    seen
}

#[test]
fn zipf_follows_its_law() {
    for alpha in [0.0, 0.8, 1.0, 1.8] {
        let max = 20;
        let weights: Vec<f64> = (1..=max).map(|n| f64::from(n).powf(-alpha)).collect();
        let sum: f64 = weights.iter().sum();
        let law: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let seen = draw(&Weighted::zipf(alpha, max), max as usize, 100_000);
        let p = p_value(&seen, &law);
        assert!(p > 0.001, "alpha {alpha}: {seen:?}, p = {p}");
        // The test can fail: a law that is a little different is refused.
        let other = Weighted::zipf(alpha + 0.1, max);
        let p = p_value(&draw(&other, max as usize, 100_000), &law);
        assert!(p < 0.001, "alpha {alpha}: p = {p}");
    }
}

#[test]
fn classes_come_by_their_weights() {
    let seen = draw(&Weighted::new([3.0, 1.0, 0.0, 6.0]), 4, 50_000);
    assert_eq!(seen[2], 0);
    let p = p_value(&[seen[0], seen[1], seen[3]], &[0.3, 0.1, 0.6]);
    assert!(p > 0.001, "{seen:?}, p = {p}");
    assert_eq!(draw(&Weighted::new([7.0]), 1, 10), [10]);
}

#[test]
fn numbers_below_are_even_and_shares_happen() {
    let mut chance = Chance::new(9, 9);
    let mut seen = vec![0; 7];
    for _ in 0..70_000 {
        seen[usize::try_from(chance.below(7)).unwrap()] += 1;
    }
    assert!(p_value(&seen, &[1.0 / 7.0; 7]) > 0.001, "{seen:?}");
    assert_eq!(chance.below(0), 0);
    let happened = (0..50_000).filter(|_| chance.happens(0.6)).count() as u64;
    assert!(p_value(&[happened, 50_000 - happened], &[0.6, 0.4]) > 0.001);
    assert!((0..100).all(|_| chance.happens(1.0) && !chance.happens(0.0)));
}

#[test]
fn a_seed_repeats_and_purposes_differ() {
    let take = |seed, purpose| -> Vec<u64> {
        let mut chance = Chance::new(seed, purpose);
        (0..8).map(|_| chance.number()).collect()
    };
    assert_eq!(take(5, 1), take(5, 1));
    assert_ne!(take(5, 1), take(5, 2));
    assert_ne!(take(5, 1), take(6, 1));
}
