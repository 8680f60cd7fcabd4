//! Tests of reading a process's CPU time.

use super::*;

#[test]
fn times_are_counted_behind_the_name() {
    let stat = "12 (a) b (c)) S 7 12 12 0 -1 4194304 100 0 0 0 11 22 33 44 20 0 1 0 100 0 0";
    assert_eq!(
        parse(stat),
        Some(Usage {
            parent: 7,
            ticks: 110
        })
    );
    assert_eq!(parse("12 (a) S 7"), None);
}

#[test]
fn a_thread_that_works_is_seen_to() {
    assert_eq!(parse_schedstat("540595 69373 2\n"), Some(540_595));
    assert_eq!(parse_schedstat(""), None);
    let mut busy = std::process::Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .unwrap();
    let given_up = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let mut seen = scheduled_nanoseconds(busy.id());
    while seen.is_some_and(|used| used < 20_000_000) && std::time::Instant::now() < given_up {
        std::thread::sleep(std::time::Duration::from_millis(5));
        seen = scheduled_nanoseconds(busy.id());
    }
    busy.kill().unwrap();
    busy.wait().unwrap();
    match seen {
        None => carrick_test::lacks!("this kernel has no /proc/PID/task/TID/schedstat"),
        Some(used) => assert!(used >= 20_000_000, "{used}"),
    }
}
