//! Tests of the spinner's turns, without a real-time thread.

use super::*;

#[test]
fn turns_begin_a_period_apart_and_those_that_are_over_are_left_out() {
    let at = |micros| Duration::from_micros(micros);
    assert_eq!(next_turn(at(5000), at(5750)), at(6000));
    assert_eq!(next_turn(at(5000), at(6000)), at(7000));
    assert_eq!(next_turn(at(5000), at(8200)), at(9000));
    assert_eq!(next_turn(at(5000), at(4000)), at(6000), "woken early");
}

#[test]
fn a_turn_has_no_more_than_passed() {
    let turn = Duration::from_millis(2);
    let begun = Instant::now();
    let had = spin(turn);
    assert!(had <= begun.elapsed() && begun.elapsed() >= turn, "{had:?}");
    assert!(!had.is_zero());
}
