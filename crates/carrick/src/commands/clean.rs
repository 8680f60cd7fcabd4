//! `carrick clean`, and the keeper of transparent listeners' rules.
use crate::cli::{FAILED, FINE};
use crate::transparent;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// Removes what dead carricks have left, and says what that was.
#[must_use]
pub fn run() -> ExitCode {
    match transparent::clean() {
        Ok(cleaned) => {
            let mut text = String::new();
            for what in &cleaned.removed {
                let _ = writeln!(text, "removed: {what}");
            }
            for what in &cleaned.in_use {
                let _ = writeln!(text, "left alone, a running carrick has it: {what}");
            }
            if cleaned.removed.is_empty() {
                text += "nothing was left over\n";
            }
            let _ = anstream::stdout().lock().write_all(text.as_bytes());
            ExitCode::from(FINE)
        }
        Err(error) => failed(&error),
    }
}

/// Does the keeper's work.
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
