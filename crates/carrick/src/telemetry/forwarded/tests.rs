//! When a request that the kernel forwarded is counted.
use super::*;

fn open() -> Open {
    Open::new(RequestEvent {
        time: Duration::ZERO,
        name: 1,
        place: 0,
        sent_bytes: 1000,
        end_before: 0,
        status_before: None,
        table: 0,
        generation: 0,
        route: 0,
        method: "GET",
        head_bytes: 0,
        target: Vec::new(),
        is_target_cut: false,
        host: Vec::new(),
        stands_for: 1,
    })
}

/// Regression test: a stream that paused for a second was taken for complete, and later bytes were not counted.
#[test]
fn only_what_is_known_to_be_whole_is_over_by_itself() {
    for (is_whole, is_partial) in [(true, false), (false, false), (false, true)] {
        let mut open = open();
        let told = ToldResponse {
            end: 1500,
            status: Some(200),
            is_over: false,
            is_partial,
            is_whole,
        };
        let moved = open.moved + QUIET;
        assert!(!open.is_over(told, moved), "it has just moved");
        assert_eq!(open.is_over(told, moved + QUIET), is_whole);
        assert_eq!(open.is_over(told, moved + 100 * QUIET), is_whole);
        let followed = ToldResponse {
            is_over: true,
            ..told
        };
        assert!(open.is_over(followed, moved));
    }
}
