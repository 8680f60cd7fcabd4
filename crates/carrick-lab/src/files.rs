//! Files of results and reports: replaced as a whole, never half written.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Result;

/// Writes a file; an older one of that name stays until the new one is complete.
///
/// # Errors
/// When it cannot be written, such as on a full disk: then nothing of the new one is left.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let partial = path.with_added_extension("partial");
    let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // It may not even have been made; the first error is the one to tell.
        let _ = fs::remove_file(&partial);
    }
    explain(written, "write", path)
}

/// The error of something that was done to a file, with what can be done about it.
///
/// # Errors
/// That error.
pub fn explain(done: io::Result<()>, what: &str, path: &Path) -> Result<()> {
    done.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::StorageFull => {
                ": the disk is full: make room, or name another folder with --out"
            }
            io::ErrorKind::PermissionDenied => ": name another folder with --out",
            _ => "",
        };
        anyhow::Error::from(error).context(format!("cannot {what} {}{hint}", path.display()))
    })
}
