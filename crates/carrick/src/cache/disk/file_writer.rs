//! The file of a body that is too long for memory, written while the body comes.
use super::Disk;
use super::entry::{Entry, Response, Stage};
use super::file::File;
use super::folder::CallError;
use super::format::{Head, Sum, body_start, file_bytes, slot_bytes};
use super::name::Name;
use super::write::{PIECE_BYTES, is_short, unreadable};
use crate::cache::index::Item;
use crate::cache::key::Key;
use carrick_logic::cache::Variant;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Heads of up to 16 KB, as the head is not known when the body begins. Unwritten parts of it take no room.
const CLASS: u8 = 5;

/// Long bodies that are received at the same time.
const WRITERS_MAX: u64 = 64;

/// Capacity is taken in steps of this for a body of unknown length.
const STEP_BYTES: u64 = 4 << 20;

/// Whether the file of a body that is too long for memory can have the head of this response.
#[must_use]
pub fn fits_file(key: Key<'_>, variant: &Variant, fields: &[u8]) -> bool {
    is_short(key, variant)
        && Head::bytes_of(key.bytes(), variant, fields) as u64 <= slot_bytes(CLASS)
}

/// The disk cannot take the bytes; why has been logged and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cache) struct NotWritten;

/// Writes the file. Its methods are called by threads of the pool.
#[derive(Debug)]
pub(in crate::cache) struct FileWriter {
    disk: Arc<Disk>,
    /// The file, from which readers read what is written.
    file: Arc<File>,
    serial: u64,
    descriptor: Option<OwnedFd>,
    written_bytes: u64,
    sum: Sum,
}

impl Disk {
    /// Begins a long body; returns its writer, and how many bytes of capacity were taken for it. `None`: the disk cannot take it.
    pub(in crate::cache) fn begin_file(
        self: &Arc<Self>,
        announced_bytes: Option<u64>,
    ) -> Option<(FileWriter, u64)> {
        let first_bytes = announced_bytes.unwrap_or(STEP_BYTES);
        if !self.could_take(first_bytes) {
            return None;
        }
        let is_free = |now: u64| (now < WRITERS_MAX).then_some(now + 1);
        if self.writers.try_update(Relaxed, Relaxed, is_free).is_err() {
            self.counters.refused.fetch_add(1, Relaxed);
            return None;
        }
        let taken_bytes = file_bytes(CLASS, first_bytes);
        if !self.take(taken_bytes) {
            self.writers.fetch_sub(1, Relaxed);
            return None;
        }
        let writer = FileWriter {
            disk: Arc::clone(self),
            file: Arc::new(File::begin(self, body_start(CLASS))),
            serial: self.next_serial(),
            descriptor: None,
            written_bytes: 0,
            sum: Sum::default(),
        };
        Some((writer, taken_bytes))
    }

    /// Takes more capacity for a body of unknown length that has grown to `body_bytes`; returns how much it has now. `None`: the disk
    /// cannot take it.
    pub(in crate::cache) fn grow_file(&self, taken_bytes: u64, body_bytes: u64) -> Option<u64> {
        let wanted = file_bytes(CLASS, body_bytes);
        if wanted <= taken_bytes {
            return Some(taken_bytes);
        }
        let more = (wanted - taken_bytes).max(STEP_BYTES);
        let is_taken = body_bytes <= self.ledger.object_bytes_max() && self.take_bytes(more);
        is_taken.then_some(taken_bytes + more)
    }
}

impl FileWriter {
    /// The file.
    pub(in crate::cache) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Bytes of the body that are written.
    pub(in crate::cache) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Creates the file, with room for a body of this length if that is known.
    pub(in crate::cache) fn create(
        &mut self,
        announced_bytes: Option<u64>,
    ) -> Result<(), NotWritten> {
        let created = self.try_create(announced_bytes.unwrap_or(0));
        self.noted(created)
    }

    /// Appends bytes of the body.
    pub(in crate::cache) fn append(&mut self, bytes: &[u8]) -> Result<(), NotWritten> {
        let appended = self.try_append(bytes);
        self.noted(appended)
    }

    /// Appends the first `bytes` of a body, which `read` reads from an offset.
    pub(in crate::cache) fn append_from(
        &mut self,
        bytes: u64,
        mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> Result<(), NotWritten> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < bytes {
            let count = read(&mut piece, at).unwrap_or(0);
            let appended = match piece.get(..count) {
                Some(piece) if count > 0 => self.try_append(piece),
                _ => Err(unreadable()),
            };
            self.noted(appended)?;
            at += count as u64;
        }
        Ok(())
    }

    /// Puts an entry for the body into the index: from now on a purge finds it. `taken_bytes` is what was taken for it; what it does not
    /// need is given back. `None`: it is not stored.
    pub(in crate::cache) fn enter(
        &self,
        response: &Response<'_>,
        taken_bytes: u64,
    ) -> Option<Arc<Entry>> {
        let is_created = self.descriptor.is_some();
        if !is_created
            || response.head_bytes() as u64 > slot_bytes(CLASS)
            || !response.is_worth_storing()
        {
            return None;
        }
        let name = Name::new(response.key.bytes(), self.serial, CLASS);
        let entry = Arc::new(Entry::new(response, name, Stage::Writing));
        let charged_bytes = entry.charged_bytes();
        (self.disk.ledger).give_back(taken_bytes.saturating_sub(charged_bytes));
        self.file.belongs_to(&entry);
        self.disk.put(&entry);
        Some(entry)
    }

    /// Writes the head, and gives the file its name. Where that fails, the entry is removed.
    pub(in crate::cache) fn publish(&self, entry: &Arc<Entry>, response: &Response<'_>) {
        let published = match &self.descriptor {
            Some(file) => (self.disk).publish(file, entry, response, self.sum.value()),
            None => Err(unreadable()),
        };
        match published {
            Ok(()) => self.disk.arrived(entry),
            Err(error) => {
                self.disk.remove(entry);
                self.disk.note_unwritten(&error);
                self.disk.folder.discard(self.serial);
            }
        }
    }

    /// Ends it. `taken_bytes` is what was taken for a body that has no entry: its file is removed.
    pub(in crate::cache) fn end(self, unused_bytes: Option<u64>) {
        self.disk.writers.fetch_sub(1, Relaxed);
        if let Some(bytes) = unused_bytes {
            self.disk.folder.discard(self.serial);
            self.disk.give_back(bytes);
        }
    }

    fn try_create(&mut self, bytes: u64) -> Result<(), CallError> {
        let folder = &self.disk.folder;
        let file = folder.create(self.serial)?;
        if bytes > 0 {
            folder.reserve(&file, self.serial, body_start(CLASS), bytes)?;
        }
        let shared = file.try_clone().map_err(|error| CallError {
            call: "dup",
            on: "a file".to_owned(),
            errno: Errno::from_io_error(&error).unwrap_or(Errno::MFILE),
        })?;
        self.file.set(shared);
        self.descriptor = Some(file);
        Ok(())
    }

    fn try_append(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        let file = self.descriptor.as_ref().ok_or_else(unreadable)?;
        let at = body_start(CLASS) + self.written_bytes;
        self.disk.folder.write_at(file, &self.serial, bytes, at)?;
        self.sum.add(bytes);
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    fn noted(&self, result: Result<(), CallError>) -> Result<(), NotWritten> {
        result.map_err(|error| {
            self.disk.note_unwritten(&error);
            NotWritten
        })
    }
}
