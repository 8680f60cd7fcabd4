//! Files of reports: replaced as a whole, never half written.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Writes a file; an older one of that name stays until the new one is complete.
///
/// # Errors
/// When it cannot be written, such as on a full disk: then nothing of the new one is left.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let written = fs::write(partial, text)
        .with_context(|| {
            format!(
                "cannot write {} ({} bytes): is there room, and may this user write there?",
                partial.display(),
                text.len()
            )
        })
        .and_then(|()| {
            fs::rename(partial, path).with_context(|| format!("cannot replace {}", path.display()))
        });
    if written.is_err() {
        // It may not even have been made; the first error is the one to tell.
        let _ = fs::remove_file(partial);
    }
    written
}
