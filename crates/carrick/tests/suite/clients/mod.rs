//! Programs that people use, through carrick, against servers on loopback, with real TLS inside of `CONNECT`.
mod browser;
mod browser_ahead;
mod browser_cache;
mod curl;
mod git;
mod packages;
mod python;
mod site;
mod tool;
mod websocket;

use crate::support::{Carrick, Line};

/// A forward proxy's log: waits for `count` lines; they must all be about requests that went well.
fn expect_lines(carrick: &Carrick, count: usize) -> Vec<Line> {
    let lines = carrick.access_log(count);
    for line in &lines {
        assert!(line.status() < 400, "{line:?}");
        assert_eq!(line.text("ended"), "complete", "{line:?}");
        assert_eq!(line.text("mode"), "forward", "{line:?}");
    }
    lines
}

/// How many lines have this method, and a target that contains this.
fn count(lines: &[Line], method: &str, target: &str) -> usize {
    lines
        .iter()
        .filter(|line| line.text("method") == method && line.text("target").contains(target))
        .count()
}
