//! Tickets, by which a purge learns that it is on the medium.
use super::Disk;
use super::health::Operation;
use super::name::Name;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Held by each job that a purge has on the disk. When the last one drops it, the folders are synchronised and the purger is told.
#[derive(Debug)]
pub(in crate::cache) struct PurgeTicket {
    done: Mutex<Option<oneshot::Sender<()>>>,
    /// Folders from which a file was removed, one bit each.
    folders: [AtomicU64; 4],
    disk: Arc<Disk>,
}

impl PurgeTicket {
    /// A ticket, and a receiver that completes when all is done.
    pub(in crate::cache) fn new(disk: &Arc<Disk>) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (done, over) = oneshot::channel();
        let ticket = Self {
            done: Mutex::new(Some(done)),
            folders: Default::default(),
            disk: Arc::clone(disk),
        };
        (Arc::new(ticket), over)
    }

    /// A file was removed from the folder with this number.
    pub(super) fn note_folder(&self, number: u8) {
        if let Some(word) = self.folders.get(usize::from(number / 64)) {
            word.fetch_or(1 << (number % 64), Ordering::Relaxed);
        }
    }
}

impl Drop for PurgeTicket {
    fn drop(&mut self) {
        let done = self
            .done
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let disk = Arc::clone(&self.disk);
        let folders: [u64; 4] = std::array::from_fn(|word| {
            self.folders
                .get(word)
                .map_or(0, |word| word.load(Ordering::Relaxed))
        });
        // By the pool: if there was nothing to do, this thread is a worker.
        self.disk.pool.chore(move || {
            for number in Name::folders() {
                let word = folders.get(usize::from(number / 64)).copied().unwrap_or(0);
                if word >> (number % 64) & 1 == 1
                    && let Err(error) = disk.folder.sync(number)
                {
                    disk.health.note(Operation::Removing, &error);
                }
            }
            if let Some(done) = done {
                // The purger may have stopped waiting.
                let _ = done.send(());
            }
        });
    }
}
