//! What this program starts itself with, its own file and a runtime; and its notes.

use std::fmt::Display;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tokio::runtime::Runtime;

/// A runtime of one thread, for a subcommand.
///
/// # Errors
/// When the kernel gives no epoll or eventfd.
pub fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// This program, which starts itself again with one of its own subcommands.
///
/// # Errors
/// When the program's own file cannot be found.
pub fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

/// Writes a line to standard error, which may be closed: a note is not worth an error.
pub fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
