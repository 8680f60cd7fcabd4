//! Tests of the readers of idle time.

use super::*;

const TIMER_LIST_TEXT: &str = "\
Timer List Version: v0.10
now at 5 nsecs

cpu: 0
 clock 0:
  .base:       0000000000000000
  .idle_sleeptime : 1000 nsecs
  .iowait_sleeptime: 20 nsecs
cpu: 1
  .idle_sleeptime : 7000000000 nsecs
  .iowait_sleeptime: 3 nsecs
";

const STAT_TEXT: &str = "\
cpu  21514 0 4640 194733 1619 0 75 37 0 0
cpu0 7546 0 1720 100 50 0 12 14 0 0
cpu10 7546 0 1720 300 50 0 12 2 0 0
intr 1
";

#[test]
fn timer_list_is_read_per_core() {
    assert_eq!(
        idle_in_timer_list(TIMER_LIST_TEXT, 0),
        Some(Duration::from_nanos(1020))
    );
    assert_eq!(
        idle_in_timer_list(TIMER_LIST_TEXT, 1),
        Some(Duration::from_nanos(7_000_000_003))
    );
    assert_eq!(idle_in_timer_list(TIMER_LIST_TEXT, 2), None);
    assert_eq!(
        idle_in_timer_list("cpu: 0\n .idle_sleeptime : 5 nsecs\n", 0),
        None
    );
}

#[test]
fn stat_is_read_per_core_and_adds_iowait() {
    let fields = stat_fields(STAT_TEXT, 0).unwrap();
    assert_eq!(fields.idle, Duration::from_millis(1500));
    assert_eq!(fields.stolen, Duration::from_millis(140));
    assert_eq!(
        fields.sampled,
        Duration::from_millis((7546 + 1720 + 12) * 10)
    );
    assert_eq!(
        stat_fields(STAT_TEXT, 10).unwrap().idle,
        Duration::from_millis(3500)
    );
    assert!(stat_fields(STAT_TEXT, 1).is_none());
}

#[test]
fn busy_is_wall_less_idle_and_never_negative() {
    let start = Instant::now();
    let reading = |wall_ms: u64, idle_ms: u64| Reading {
        at: start + Duration::from_millis(wall_ms),
        idle: Duration::from_millis(idle_ms),
        stolen: Duration::ZERO,
        sampled: Duration::ZERO,
        taken: Duration::ZERO,
    };
    let busy = reading(1000, 900).since(&reading(0, 100));
    assert!((busy.busy_seconds - 0.2).abs() < 1e-9);
    assert_eq!(reading(100, 300).since(&reading(0, 100)).busy_seconds, 0.0);
}
