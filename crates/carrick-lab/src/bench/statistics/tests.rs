//! Tests of medians and spreads.

use super::*;

#[test]
fn odd_and_even_counts() {
    assert_eq!(
        Summary::of(&[3.0, 1.0, 2.0]),
        Some(Summary {
            median: 2.0,
            min: 1.0,
            max: 3.0,
            runs: 3
        })
    );
    assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
    assert_eq!(Summary::of(&[7.0]).unwrap().spread(), 0.0);
}

#[test]
fn nothing_and_nonsense() {
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(Summary::of(&[f64::NAN]), None);
    assert_eq!(Summary::of(&[f64::NAN, 1.0]).unwrap().runs, 1);
}

#[test]
fn the_spread_is_the_wider_side() {
    assert!((Summary::of(&[8.0, 10.0, 11.0]).unwrap().spread() - 0.2).abs() < 1e-9);
}
