//! The files of a run, in memory: with a hint when there is no room for them.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::testbed::name::memory_directory;

/// Room that a run wants to find: logs, configurations, and the origin's files.
const FREE_BYTES_MIN: u64 = 8 * 1024 * 1024;

/// Makes the directory of a run.
///
/// # Errors
/// When there is no room, or it exists.
pub(crate) fn create_directory(directory: &Path) -> Result<()> {
    let memory = memory_directory();
    let room = rustix::fs::statvfs(&memory)
        .with_context(|| format!("cannot look at the room in {}", memory.display()))?;
    // Some file systems have no limit and say 0 of 0.
    let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
    if room.f_blocks > 0 && free_bytes < FREE_BYTES_MIN {
        bail!(
            "{} is full: {} KiB are left, and a run needs {} KiB for its files there: remove something (df {})",
            memory.display(),
            free_bytes / 1024,
            FREE_BYTES_MIN / 1024,
            memory.display()
        );
    }
    explain(fs::create_dir(directory), directory)
}

/// Writes a file of a run.
///
/// # Errors
/// When it cannot be written: with the room that is left, if that is the reason.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    explain(fs::write(path, content), path)
}

fn explain(done: io::Result<()>, path: &Path) -> Result<()> {
    done.map_err(|error| {
        let hint = if error.kind() == io::ErrorKind::StorageFull {
            format!(
                ": the file system is full (df {})",
                path.parent().unwrap_or(path).display()
            )
        } else {
            String::new()
        };
        anyhow::Error::from(error).context(format!("cannot write {}{hint}", path.display()))
    })
}

#[cfg(test)]
mod tests;
