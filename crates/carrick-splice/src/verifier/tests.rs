//! Parses the kernel's log.
use super::*;

/// Linux 6.18; earlier ones write the same lines.
const LOG: &str = "verification time 215 usec\nstack depth 24+8\n\
    processed 312 insns (limit 1000000) max_states_per_insn 1 total_states 22 peak_states 21 mark_read 9\n";

#[test]
fn statistics_are_read() {
    let expected = Cost {
        program: "a".to_owned(),
        instructions: 100,
        processed: 312,
        states: 21,
        stack: "24+8".to_owned(),
    };
    assert_eq!(read("a".to_owned(), 100, LOG), Some(expected));
}

#[test]
fn other_words_are_not_taken_for_statistics() {
    for log in [
        "",
        "processed many insns",
        "stack depth 8",
        "processed 1 insns peak_states 2",
    ] {
        assert_eq!(read("a".to_owned(), 1, log), None, "{log:?}");
    }
}
