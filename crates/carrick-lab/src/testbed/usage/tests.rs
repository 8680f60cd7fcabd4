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
