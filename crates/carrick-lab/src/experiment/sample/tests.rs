//! Tests of what a runner makes of an outcome.

use super::*;
use crate::load::outcome::ClassOutcome;

fn outcome(completed: u64, failed: &[(&str, u64)]) -> LoadOutcome {
    LoadOutcome {
        measured_seconds: 1.0,
        classes: vec![ClassOutcome {
            name: String::from("get"),
            completed,
            failed: failed
                .iter()
                .map(|(kind, count)| ((*kind).to_owned(), *count))
                .collect(),
            first_failure: (!failed.is_empty()).then(|| String::from("byte 7 is wrong")),
            ..ClassOutcome::default()
        }],
        ..LoadOutcome::default()
    }
}

#[test]
fn any_failed_request_is_a_failure_of_the_cell() {
    assert_eq!(failure(&outcome(10, &[])), None);
    let said = failure(&outcome(10, &[("reset", 2), ("wrong_byte", 1)])).unwrap();
    assert_eq!(
        said,
        "3 of 13 requests failed: class get: reset 2, wrong_byte 1 (the first: byte 7 is wrong)"
    );
    let said = failure(&outcome(0, &[])).unwrap();
    assert!(said.contains("no request was completed"), "{said}");
}
