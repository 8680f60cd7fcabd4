//! `carrick lab`: executes `carrick-lab`, which is not linked into a program that may run with privileges.
use crate::cli::args::LabArgs;
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The laboratory's program.
const PROGRAM: &str = "carrick-lab";

/// The exit code of shells for a command that is not found.
const NOT_FOUND: u8 = 127;

/// Executes the program beside this one, or the one in `PATH`.
pub fn run(given: &LabArgs) -> ExitCode {
    let beside = std::env::current_exe().map(|own| own.with_file_name(PROGRAM));
    let program = beside.ok().filter(|program| program.exists());
    let program = program.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(&given.arguments).exec();
    let why = if error.kind() == ErrorKind::NotFound {
        format!(
            "{PROGRAM} is a separate program, and not installed beside carrick or in PATH: `make build-lab` builds it into target/release"
        )
    } else {
        format!("{}: {error}", program.display())
    };
    let _ = writeln!(std::io::stderr(), "carrick lab: {why}");
    ExitCode::from(NOT_FOUND)
}
