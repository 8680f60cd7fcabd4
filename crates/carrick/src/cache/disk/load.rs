//! Loading an object into memory: its head, and its body if that is short. A long body stays in its file.
use super::Disk;
use super::entry::{Entry, Stage};
use super::file::File;
use super::folder::{CallError, Patience};
use super::format::{Head, Sum, body_start};
use super::health::Operation;
use super::resident::is_resident;
use super::write::PIECE_BYTES;
use crate::cache::flights::{Flight, Lead};
use crate::cache::index::Item;
use carrick_logic::cache::Meta;
use rustix::io::Errno;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::oneshot;

/// Bodies up to this length are read into memory. Reading longer ones costs more than sending them from their files.
pub(super) const SHORT_BYTES_MAX: u64 = 16 << 10;

/// A loaded object.
#[derive(Debug)]
pub(in crate::cache) struct Loaded {
    pub(in crate::cache) meta: Meta,
    /// The address of the server that sent it, if a rule about addresses applies to it.
    pub(in crate::cache) origin: Option<IpAddr>,
    /// The field lines.
    pub(in crate::cache) fields: Box<[u8]>,
    pub(in crate::cache) body: LoadedBody,
    /// [`Entry::version`] before the file was read.
    pub(in crate::cache) version: u64,
}

/// Where the body of a loaded object is.
#[derive(Debug)]
pub(in crate::cache) enum LoadedBody {
    Heap(Box<[u8]>),
    File(File, u64),
}

/// Why an object was not loaded.
#[derive(Debug)]
enum NotLoaded {
    /// It was removed meanwhile.
    Gone,
    /// The bytes are not in the page cache, or were not checked yet.
    Waits,
    /// A call failed.
    Call(CallError),
    /// The file is not what was written.
    Damaged(&'static str),
}

impl From<CallError> for NotLoaded {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl Disk {
    /// Reads an object and checks it, at once if it is in the page cache, else in a thread of the pool. `None`: it was removed, or
    /// another request has just loaded an object under the same key, which is in memory then. Other requests wait until the lead is
    /// dropped.
    pub(in crate::cache) async fn load(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
    ) -> Option<(Loaded, Lead)> {
        let lead = match self.loads.board(entry.key().bytes()) {
            Flight::Lead(lead) => lead,
            Flight::Follow(mut follow) => {
                follow.over().await;
                return None;
            }
        };
        // On any failure, the pool tries again.
        if self.folder.answers_at_once()
            && let Ok(loaded) = self.try_read(entry, Patience::AtOnce)
        {
            self.counters.loads_at_once.fetch_add(1, Relaxed);
            entry.note_hit();
            return Some((loaded, lead));
        }
        let (done, loaded) = oneshot::channel();
        let (disk, job_entry) = (Arc::clone(self), Arc::clone(entry));
        // If the pool refuses, the sender is dropped.
        let _ = self.pool.try_read(move || {
            let _ = done.send(disk.read(&job_entry));
        });
        let loaded = loaded.await.ok()??;
        entry.note_hit();
        Some((loaded, lead))
    }

    /// Counts a loaded object that was put into memory.
    pub(in crate::cache) fn count_load(&self) {
        self.counters.loads.fetch_add(1, Relaxed);
    }

    /// Called by a thread of the pool.
    fn read(self: &Arc<Self>, entry: &Arc<Entry>) -> Option<Loaded> {
        match self.try_read(entry, Patience::Waits) {
            Ok(loaded) => Some(loaded),
            Err(NotLoaded::Gone | NotLoaded::Waits) => None,
            Err(NotLoaded::Damaged(what)) => {
                self.health.note_damage(&entry.name, what);
                self.remove(entry);
                None
            }
            Err(NotLoaded::Call(error)) => {
                match error.errno {
                    // Descriptors or memory are short: the file may be readable later.
                    Errno::MFILE | Errno::NFILE | Errno::NOMEM => {}
                    _ => drop(self.remove(entry)),
                }
                if entry.is_kept() || error.errno != Errno::NOENT {
                    self.health.note(Operation::Reading, &error);
                } else {
                    self.health
                        .note_damage(&entry.name, "is not there any more");
                }
                None
            }
        }
    }

    fn try_read(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        patience: Patience,
    ) -> Result<Loaded, NotLoaded> {
        if entry.stage() != Stage::There {
            return Err(NotLoaded::Gone);
        }
        let is_short = entry.body_bytes <= SHORT_BYTES_MAX;
        let may_wait = patience == Patience::Waits;
        if !may_wait && !is_short && !entry.is_checked.load(Relaxed) {
            return Err(NotLoaded::Waits);
        }
        // Before the file is read: a change that is written meanwhile counts as well, whichever head is read.
        let (version, change) = entry.version_and_change();
        let (name, start) = (&entry.name, body_start(entry.name.class));
        let file = self.folder.open_to_read(name, patience).map_err(|error| {
            // The entry may have just been removed.
            if entry.is_kept() {
                NotLoaded::Call(error)
            } else {
                NotLoaded::Gone
            }
        })?;
        let status = self.folder.status_of(&file, name)?;
        if status.bytes != start.saturating_add(entry.body_bytes) {
            return Err(NotLoaded::Damaged("has another length than was written"));
        }
        let body_bytes = if is_short { entry.body_bytes } else { 0 };
        if !may_wait && is_resident(&file, 0, start + body_bytes) != Some(true) {
            return Err(NotLoaded::Waits);
        }
        let [mut head, mut body] =
            [start, body_bytes].map(|bytes| vec![0; usize::try_from(bytes).unwrap_or(0)]);
        let places = (head.as_mut_slice(), body.as_mut_slice());
        let read = self.folder.read_first(&file, name, places, patience)?;
        let is_all = read == head.len() + body.len();
        if !may_wait && !is_all {
            return Err(NotLoaded::Waits);
        }
        let mut head = Head::newest(
            head.get(..read.min(head.len())).unwrap_or_default(),
            name.class,
        )
        .filter(|head| entry.is_of(head))
        .ok_or(NotLoaded::Damaged("has no head that is right"))?;
        if let Some(change) = change {
            change.apply(&mut head);
        }
        let body = if is_short {
            let mut sum = Sum::default();
            sum.add(&body);
            if !is_all || sum.value() != head.body_sum {
                return Err(WRONG_SUM);
            }
            LoadedBody::Heap(body.into())
        } else {
            let is_known =
                entry.is_checked.load(Relaxed) && entry.stamp.load(Relaxed) == status.stamp;
            if !is_known {
                if !may_wait {
                    return Err(NotLoaded::Waits);
                }
                self.check_long(&file, entry, &head)?;
                entry.stamp.store(status.stamp, Relaxed);
                entry.is_checked.store(true, Relaxed);
            }
            LoadedBody::File(File::of(self, entry, file), entry.body_bytes)
        };
        if entry.stage() != Stage::There {
            return Err(NotLoaded::Gone);
        }
        Ok(Loaded {
            meta: head.meta,
            origin: head.origin,
            fields: head.fields,
            body,
            version,
        })
    }

    /// Reads a long body and compares its checksum.
    fn check_long(&self, file: &OwnedFd, entry: &Entry, head: &Head) -> Result<(), NotLoaded> {
        let (mut at, end) = (0, entry.body_bytes);
        let start = body_start(entry.name.class);
        let mut piece = vec![0; PIECE_BYTES];
        let mut sum = Sum::default();
        while at < end {
            let count = usize::try_from(end - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let buffer = piece.get_mut(..count).unwrap_or_default();
            let read = self.folder.read_at(file, &entry.name, buffer, start + at)?;
            if read != count || entry.stage() != Stage::There {
                return Err(if read == count {
                    NotLoaded::Gone
                } else {
                    WRONG_SUM
                });
            }
            sum.add(buffer);
            at += count as u64;
        }
        if sum.value() == head.body_sum {
            Ok(())
        } else {
            Err(WRONG_SUM)
        }
    }
}

const WRONG_SUM: NotLoaded = NotLoaded::Damaged("has a body with a wrong checksum");
