//! `carrick generate`: man pages, shell completions, the configuration reference; for packages and for the
//! documentation.
use crate::cli::args::{Cli, FAILED, FINE, Generate};
use crate::config;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Writes the requested files.
pub fn run(what: &Generate) -> ExitCode {
    let done = match what {
        Generate::Man { directory } => man(directory),
        Generate::Completions { shell } => completions(*shell),
        Generate::Configuration => io::stdout()
            .lock()
            .write_all(config::reference().as_bytes()),
    };
    match done {
        Ok(()) => ExitCode::from(FINE),
        // A closed standard output is not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(FINE),
        Err(error) => {
            let _ = writeln!(anstream::stderr().lock(), "carrick: {error}");
            ExitCode::from(FAILED)
        }
    }
}

/// `carrick.1`, `carrick-run.1` and so on; hidden commands have none.
fn man(directory: &Path) -> io::Result<()> {
    clap_mangen::generate_to(Cli::command(), directory).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("{} cannot be written to: {error}", directory.display()),
        )
    })
}

fn completions(shell: Shell) -> io::Result<()> {
    // Written to memory first: the generator panics when a pipe closes.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "carrick", &mut text);
    io::stdout().lock().write_all(&text)
}
