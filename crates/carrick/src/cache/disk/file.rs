//! A body's file, from which `sendfile(2)` sends.
use super::Disk;
use super::health::Doing;
use super::resident::is_resident;
use super::write::PIECE_BYTES;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;

/// The file. It is read as long as somebody has it, also when it was removed from its folder.
#[derive(Debug)]
pub struct File {
    disk: Arc<Disk>,
    /// Set before the first byte is made known.
    file: OnceLock<OwnedFd>,
    /// Where the body begins.
    start: u64,
    /// For messages.
    name: String,
}

impl File {
    pub(super) fn new(disk: Arc<Disk>, file: Option<OwnedFd>, start: u64, name: String) -> Self {
        Self {
            disk,
            file: file.map_or_else(OnceLock::new, OnceLock::from),
            start,
            name,
        }
    }

    pub(super) fn set(&self, file: OwnedFd) {
        let _ = self.file.set(file);
    }

    /// Where the body begins.
    pub(in crate::cache) fn start(&self) -> u64 {
        self.start
    }

    /// The descriptor.
    pub(in crate::cache) fn file(&self) -> io::Result<&OwnedFd> {
        self.file
            .get()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether these bytes of the body can be sent at once, without waiting for the medium.
    pub(in crate::cache) fn is_resident(&self, from: u64, bytes: u64) -> bool {
        self.file
            .get()
            .and_then(|file| is_resident(file, self.start + from, bytes))
            .unwrap_or(false)
    }

    /// Has these bytes read into the page cache. The answer says whether they are there; none: there is too much to do.
    pub(in crate::cache) fn fetch(
        self: &Arc<Self>,
        from: u64,
        bytes: u64,
    ) -> oneshot::Receiver<bool> {
        let (done, fetched) = oneshot::channel();
        let file = Arc::clone(self);
        // Dropped, the sender says that nothing comes of it.
        let _ = self.disk.pool.read(move || {
            let _ = done.send(file.read_through(from, bytes));
        });
        fetched
    }

    /// By a thread of the pool.
    fn read_through(&self, from: u64, bytes: u64) -> bool {
        let Some(file) = self.file.get() else {
            return false;
        };
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut left) = (self.start + from, bytes);
        while left > 0 {
            let count = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let buffer = piece.get_mut(..count).unwrap_or_default();
            match self.disk.folder.read_at(file, &self.name, buffer, at) {
                Ok(read) if read == count => {}
                Ok(_) => {
                    self.disk.health.note_damage(&self.name, "was cut short");
                    return false;
                }
                Err(trouble) => {
                    self.disk.health.note(Doing::Reading, &trouble);
                    return false;
                }
            }
            at += count as u64;
            left -= count as u64;
        }
        true
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // It frees the blocks of one that was removed, which takes its time.
            self.disk.pool.chore(move || drop(file));
        }
    }
}
