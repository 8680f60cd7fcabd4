//! Popular programs through carrick, against servers on loopback, with real TLS inside `CONNECT`.
mod browser;
mod browser_cache;
mod browser_prefetch;
mod curl;
mod git;
mod packages;
mod python;
pub mod site;
pub mod tool;
pub mod websocket;

use crate::support::{Carrick, Line, wait_for};

/// A forward proxy's log: waits for `count` lines; all of them must report success.
fn expect_lines(carrick: &Carrick, count: usize) -> Vec<Line> {
    let lines = carrick.access_log(count);
    for line in &lines {
        assert!(line.status() < 400, "{line:?}");
        assert_eq!(line.text("ended"), "complete", "{line:?}");
        assert_eq!(line.text("mode"), "forward", "{line:?}");
    }
    lines
}

/// Number of lines with this method, and a target that contains this text.
fn count(lines: &[Line], method: &str, target: &str) -> usize {
    lines
        .iter()
        .filter(|line| line.text("method") == method && line.text("target").contains(target))
        .count()
}

/// Waits until the log has a line for each of these methods and parts of targets: workers write in turns, so lines of
/// one connection may follow those of a later one.
fn lines_with(carrick: &Carrick, wanted: &[(&str, &str)]) -> Vec<Line> {
    wait_for(&format!("{wanted:?} in the log"), || {
        let lines = carrick.access_log(1);
        let has = |&(method, target): &(&str, &str)| count(&lines, method, target) > 0;
        wanted.iter().all(has).then_some(lines)
    })
}
