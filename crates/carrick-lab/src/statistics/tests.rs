//! Tests of medians, and of means and intervals: against the printed table of Student's t, a worked example, and drawn samples.

use super::*;
use crate::content::mix;

/// One-sided 0.95 and 0.975 (two-sided 90 and 95 %), as in any printed table.
const TABLE: &[(usize, f64, f64)] = &[
    (1, 6.314, 12.706),
    (2, 2.920, 4.303),
    (3, 2.353, 3.182),
    (4, 2.132, 2.776),
    (5, 2.015, 2.571),
    (9, 1.833, 2.262),
    (10, 1.812, 2.228),
    (20, 1.725, 2.086),
    (30, 1.697, 2.042),
    (60, 1.671, 2.000),
    (120, 1.658, 1.980),
    (1_000_000, 1.645, 1.960),
];

#[test]
fn quantiles_are_those_of_the_table() {
    for &(freedom, at_90, at_95) in TABLE {
        let one = quantile_of_t(0.95, freedom).unwrap();
        let two = quantile_of_t(0.975, freedom).unwrap();
        assert!((one - at_90).abs() < 6e-4, "{freedom}: {one}");
        assert!((two - at_95).abs() < 6e-4, "{freedom}: {two}");
    }
    assert_eq!(quantile_of_t(0.95, 0), None);
    assert_eq!(quantile_of_t(1.0, 3), None);
}

#[test]
fn a_worked_example() {
    // Mean 5, squares 32, deviation sqrt(32/7); t(0.975, 7) = 2.3646.
    let mean = mean_with_confidence(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 0.95).unwrap();
    assert_eq!((mean.mean, mean.samples), (5.0, 8));
    assert!((mean.deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    let half = 2.364_624 * (32.0_f64 / 7.0).sqrt() / 8.0_f64.sqrt();
    assert!((mean.half_width.unwrap() - half).abs() < 1e-4);
    let narrower = mean_with_confidence(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 0.9).unwrap();
    assert!(narrower.half_width < mean.half_width);
}

#[test]
fn one_sample_has_no_interval_and_none_has_no_mean() {
    let one = mean_with_confidence(&[7.0], 0.95).unwrap();
    assert_eq!((one.mean, one.half_width), (7.0, None));
    assert_eq!(mean_with_confidence(&[], 0.95), None);
    assert_eq!(mean_with_confidence(&[f64::NAN, f64::INFINITY], 0.95), None);
    assert_eq!(
        mean_with_confidence(&[f64::NAN, 1.0], 0.9).unwrap().samples,
        1
    );
    for level in [0.0, 1.0, -0.5, 95.0, f64::NAN] {
        assert_eq!(mean_with_confidence(&[1.0, 2.0], level), None);
    }
    let same = mean_with_confidence(&[3.0, 3.0, 3.0], 0.95).unwrap();
    assert_eq!((same.deviation, same.half_width), (0.0, Some(0.0)));
}

#[test]
fn large_values_lose_no_digits() {
    let values = [1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0];
    let mean = mean_with_confidence(&values, 0.95).unwrap();
    assert!((mean.deviation - 30.0_f64.sqrt()).abs() < 1e-6);
}

/// Of many intervals at 90 %, drawn from a normal distribution with a known mean, 90 % hold it.
#[test]
fn intervals_hold_the_true_mean_as_often_as_they_say() {
    let mut number = 0;
    let mut uniform = || {
        number += 1;
        (mix(number) >> 11) as f64 / (1_u64 << 53) as f64
    };
    let rounds = 4000;
    let mut held = 0;
    for _ in 0..rounds {
        // Box and Muller's normal numbers, with mean 10 and deviation 3.
        let values: Vec<f64> = (0..5)
            .map(|_| {
                let radius = (-2.0 * (1.0 - uniform()).ln()).sqrt();
                10.0 + 3.0 * radius * (std::f64::consts::TAU * uniform()).cos()
            })
            .collect();
        let mean = mean_with_confidence(&values, 0.9).unwrap();
        held += usize::from((mean.mean - 10.0).abs() <= mean.half_width.unwrap());
    }
    // Four standard deviations of the binomial distribution: 4 * sqrt(0.09 / 4000) = 0.019.
    let share = held as f64 / f64::from(rounds);
    assert!((share - 0.9).abs() < 0.019, "{share}");
}

#[test]
fn odd_and_even_counts() {
    assert_eq!(
        Summary::of(&[3.0, 1.0, 2.0]),
        Some(Summary {
            median: 2.0,
            min: 1.0,
            max: 3.0,
            samples: 3
        })
    );
    assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
    assert_eq!(Summary::of(&[7.0]).unwrap().spread(), 0.0);
}

#[test]
fn nothing_and_nonsense() {
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[f64::NAN]), None);
    assert_eq!(Summary::of(&[f64::NAN, 1.0]).unwrap().samples, 1);
}

#[test]
fn the_spread_is_the_wider_side() {
    assert!((Summary::of(&[8.0, 10.0, 11.0]).unwrap().spread() - 0.2).abs() < 1e-9);
}
