//! Tests of what is said of figures that are not whole.

use super::*;
use crate::experiment::results::Cell;
use crate::report::{fixture, values};

fn state(cells: Vec<Cell>) -> (State, Vec<String>) {
    let figure = fixture::figure("figure-4");
    let results = fixture::results(cells, Vec::new());
    let values = values::of(&results, &figure);
    (of(&values), missing(&figure, &values))
}

#[test]
fn states() {
    let (partly, missing) = state(fixture::three_sizes());
    assert_eq!(partly, State::Partly);
    assert_eq!(missing, ["carrick socket: waits for the socket engine"]);
    let mut cells = fixture::three_sizes();
    cells.retain(|cell| cell.waiting_for.is_none());
    assert_eq!(state(cells.clone()), (State::Measured, Vec::new()));
    cells[2].samples.clear();
    cells[2].failure = Some("it died".into());
    let (partly, missing) = state(cells);
    assert_eq!(partly, State::Partly);
    assert_eq!(missing, ["carrick copy at 10 KB: failed: it died"]);
    let mut cells = fixture::three_sizes();
    cells.retain(|cell| cell.waiting_for.is_some());
    assert_eq!(state(cells).0, State::Waiting("the socket engine".into()));
    let failed = fixture::failed("sizes", "a", &[("body_bytes", 1.0)], "no root");
    assert_eq!(state(vec![failed]).0, State::Failed("no root".into()));
    assert_eq!(state(Vec::new()).0, State::Absent);
}

#[test]
fn fewer_samples_than_wanted_are_mentioned() {
    let mut cells = fixture::three_sizes();
    cells.retain(|cell| cell.waiting_for.is_none());
    cells[0].failure = Some("the third sample was cut off".into());
    let (state, missing) = state(cells);
    assert_eq!(state, State::Measured);
    assert_eq!(
        missing,
        ["carrick copy at 1 KB: fewer samples than wanted (the third sample was cut off)"]
    );
}

#[test]
fn noise_is_noticed() {
    let mut results = fixture::results(Vec::new(), Vec::new());
    assert_eq!(noise(&results), None);
    results.machine.load_at_start = "1.20".into();
    assert!(noise(&results).unwrap().contains("1.2"));
    results.machine.load_at_start = "0.10".into();
    results.notes = vec!["NOISY: others kept half a core busy".into()];
    assert_eq!(
        noise(&results).as_deref(),
        Some("NOISY: others kept half a core busy")
    );
}

#[test]
fn a_reader_is_told_that_samples_are_shorter_than_the_experiments() {
    let mut results = crate::report::fixture::everything();
    assert_eq!(scale_words(&results), "quick: a look, not a result");
    results.scale = Scale::Full;
    results.selection = Some(String::from("samples of 60 s"));
    assert_eq!(scale_words(&results), "full; samples of 60 s");
    let page = crate::report::page::render(&[results], &[String::from("x")]);
    assert!(page.contains("full; samples of 60 s"));
}
