//! Activity of connections, with a virtual clock.
use super::{Activity, PAUSE};
use std::time::{Duration, Instant};

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn never() -> Option<[Duration; 2]> {
    Some([Duration::ZERO; 2])
}

#[test]
fn what_follows_quickly_counts_and_ends_with_the_acknowledgement() {
    let start = Instant::now();
    let mut activity = Activity::default();
    activity.note(start, [100, 0], never);
    activity.note(start + ms(40), [100, 5000], never);
    activity.note(start + ms(45), [100, 9000], never);
    // Queried again when nothing has moved.
    activity.note(start + ms(700), [100, 9000], never);
    assert_eq!(activity.until(start + ms(645)), Some(ms(645)));
    assert_eq!((activity.turns(false), activity.turns(true)), (1, 1));
}

#[test]
fn of_an_idle_pause_a_second_counts() {
    let start = Instant::now();
    let mut activity = Activity::default();
    activity.note(start, [100, 0], never);
    activity.note(start + ms(50), [100, 5000], never);
    activity.note(start + ms(60_050), [200, 5000], never);
    activity.note(start + ms(60_100), [200, 9000], never);
    let active = activity.until(start + ms(60_200)).unwrap();
    assert_eq!(active, ms(50) + PAUSE + ms(150));
    assert_eq!((activity.turns(false), activity.turns(true)), (2, 2));
}

#[test]
fn a_pause_counts_as_long_as_something_was_under_way() {
    let start = Instant::now();
    let mut activity = Activity::default();
    activity.note(start, [100, 0], never);
    // Half a megabyte takes eight seconds over the client's leg.
    activity.note(start + ms(50), [100, 500_000], never);
    let busy = || Some([ms(8000), ms(40)]);
    activity.note(start + ms(30_050), [200, 500_000], busy);
    assert_eq!(activity.active(), ms(50) + ms(8000) + PAUSE);
}

#[test]
fn what_a_leg_was_busy_before_does_not_count_again() {
    let start = Instant::now();
    let mut activity = Activity::default();
    activity.note(start, [100, 0], || Some([ms(9000), ms(9000)]));
    activity.note(start + ms(5000), [200, 0], || Some([ms(9100), ms(9000)]));
    assert_eq!(activity.active(), ms(100) + PAUSE);
}

#[test]
fn the_kernel_goes_on_where_the_process_has_left() {
    let start = Instant::now();
    let mut activity = Activity::default();
    assert_eq!(activity.until(start), None);
    activity.note(start, [100, 0], never);
    activity.leave(start + ms(30));
    assert_eq!(activity.active(), ms(30));
    activity.leave(start + ms(9000));
    assert_eq!(activity.active(), ms(30) + PAUSE);
}
