//! Files that replace others as a whole.
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is written beside the one that it is to replace. Only carrick's user can read it.
#[derive(Debug)]
pub struct NewFile {
    new: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Writes what is to be in `path`. What an earlier process has left there is removed, whatever it is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(path: PathBuf, bytes: &[u8]) -> io::Result<Self> {
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let new = PathBuf::from(new);
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(Self { new, path })
    }

    /// Where it is until it is put in place.
    #[must_use]
    pub fn written(&self) -> &Path {
        &self.new
    }

    /// Puts it in place, where it stays even if the machine fails.
    ///
    /// # Errors
    /// Those of `rename(2)` and `fsync(2)`.
    pub fn put(self) -> io::Result<()> {
        std::fs::rename(self.new, &self.path)?;
        match self.path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_was_left_behind_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "other"].map(|name| folder.path().join(name));
        std::fs::write(&other, "theirs").unwrap();
        symlink(&other, folder.path().join("a.new")).unwrap();
        NewFile::write(path.clone(), b"own").unwrap().put().unwrap();
        assert_eq!(std::fs::read(&other).unwrap(), b"theirs");
        assert_eq!(std::fs::read(&path).unwrap(), b"own");
        let rights = path.symlink_metadata().unwrap().permissions();
        assert_eq!(rights.mode() & 0o777, 0o600);
    }
}
