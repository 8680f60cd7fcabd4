//! How servers go down and come up, in virtual time.
use super::{PAUSE_MAX, PAUSE_MIN, PassiveHealth};
use std::time::{Duration, Instant};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn failures_in_a_row_mark_a_server_down() {
    let now = Instant::now();
    let mut health = PassiveHealth::new(3);
    health.failed(now);
    health.failed(now);
    health.succeeded();
    health.failed(now);
    health.failed(now);
    assert!(health.is_up(now));
    health.failed(now);
    assert!(!health.is_up(now));
    assert!(!health.is_up(now + PAUSE_MIN - Duration::from_nanos(1)));
    assert!(health.is_up(now + PAUSE_MIN));
}

#[test]
fn pauses_double_up_to_a_minute() {
    let mut now = Instant::now();
    let mut health = PassiveHealth::new(1);
    health.failed(now);
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert!(
            !health.is_up(now + seconds(pause) - Duration::from_nanos(1)),
            "{pause}"
        );
        now += seconds(pause);
        assert!(health.is_up(now), "{pause}");
        health.chosen(now);
        now += Duration::from_millis(100);
        health.failed(now);
    }
    now += PAUSE_MAX;
    health.chosen(now);
    health.succeeded();
    assert!(health.is_up(now));
    health.failed(now);
    assert!(health.is_up(now + PAUSE_MIN), "the pause is short again");
}

#[test]
fn one_trial_at_a_time() {
    let now = Instant::now();
    let mut health = PassiveHealth::new(1);
    health.failed(now);
    let trial = now + seconds(1);
    assert!(health.is_up(trial));
    health.chosen(trial);
    assert!(!health.is_up(trial));
    assert!(!health.is_up(trial + Duration::from_millis(999)));
    // No report: its client disconnected.
    assert!(health.is_up(trial + seconds(1)));
    health.chosen(trial + seconds(1));
    assert!(!health.is_up(trial + seconds(1)));
    health.succeeded();
    assert!(health.is_up(trial + seconds(1)));
}

#[test]
fn what_was_under_way_does_not_lengthen_the_pause() {
    let now = Instant::now();
    let mut health = PassiveHealth::new(2);
    for _ in 0..100 {
        health.failed(now + Duration::from_millis(500));
    }
    assert!(health.is_up(now + Duration::from_millis(1500)));
}

#[test]
fn a_failure_after_the_pause_counts_even_without_a_choice() {
    let now = Instant::now();
    let mut health = PassiveHealth::new(1);
    health.failed(now);
    health.failed(now + seconds(1));
    assert!(!health.is_up(now + seconds(3) - Duration::from_nanos(1)));
    assert!(health.is_up(now + seconds(3)));
}

#[test]
fn choosing_a_server_that_is_up_or_resting_changes_nothing() {
    let now = Instant::now();
    let mut health = PassiveHealth::new(1);
    health.chosen(now);
    assert!(health.is_up(now));
    health.failed(now);
    health.chosen(now + Duration::from_millis(500));
    assert!(health.is_up(now + PAUSE_MIN));
}

#[test]
fn zero_failures_allowed_means_never_down() {
    let now = Instant::now();
    let mut health = PassiveHealth::new(0);
    (0..1000).for_each(|_| health.failed(now));
    assert!(health.is_up(now));
}
