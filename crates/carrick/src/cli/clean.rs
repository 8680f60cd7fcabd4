//! `carrick clean`, and the rule supervisor of transparent listeners.
use super::check::report;
use crate::cli::args::{FAILED, FINE, PinsArgs, WRONG};
use crate::config;
use crate::config::plan::Plan;
use crate::transparent;
use carrick_splice::{Cleaned, PacketService};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// Removes what dead carricks have left in the kernel, and lists it.
#[must_use]
pub fn run(arguments: &PinsArgs) -> ExitCode {
    let pins = match plan(arguments) {
        Ok(plan) => plan.pins,
        Err(rejected) => {
            report(&rejected.problems);
            return ExitCode::from(WRONG);
        }
    };
    let (mut cleaned, mut failures) = (Cleaned::default(), Vec::new());
    match transparent::clean() {
        Ok(rules) => {
            cleaned.removed = rules.removed;
            cleaned.in_use = rules.in_use;
        }
        Err(error) => failures.push(error.to_string()),
    }
    match pins.map(|pins| PacketService::clean(&pins)).transpose() {
        Ok(pinned) => {
            let pinned = pinned.unwrap_or_default();
            cleaned.removed.extend(pinned.removed);
            cleaned.in_use.extend(pinned.in_use);
            failures.extend(pinned.failed);
        }
        Err(error) => failures.push(error.to_string()),
    }
    let mut text = String::new();
    for what in &cleaned.removed {
        let _ = writeln!(text, "removed: {what}");
    }
    for what in &cleaned.in_use {
        let _ = writeln!(text, "kept, in use by a running carrick: {what}");
    }
    if cleaned.removed.is_empty() && failures.is_empty() {
        text += "nothing was left over\n";
    }
    let _ = anstream::stdout().lock().write_all(text.as_bytes());
    for failure in &failures {
        let _ = writeln!(anstream::stderr().lock(), "carrick: {failure}");
    }
    ExitCode::from(if failures.is_empty() { FINE } else { FAILED })
}

/// The plan of the given file, or of a start without one.
pub(super) fn plan(arguments: &PinsArgs) -> Result<Plan, config::Rejected> {
    config::load(arguments.config.as_deref()).map(|loaded| loaded.plan)
}

/// Runs the rule supervisor.
#[must_use]
pub fn keep_rules() -> ExitCode {
    match transparent::keep() {
        Ok(()) => ExitCode::from(FINE),
        Err(error) => failed(&error),
    }
}

fn failed(error: &std::io::Error) -> ExitCode {
    let _ = writeln!(anstream::stderr().lock(), "carrick: {error}");
    ExitCode::from(FAILED)
}
