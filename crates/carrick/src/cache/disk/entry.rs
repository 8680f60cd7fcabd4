//! What memory has of each object on the disk.
use super::format::{Head, file_bytes};
use super::name::Name;
use super::purge_ticket::PurgeTicket;
use crate::cache::index::Item;
use crate::cache::key::Key;
use crate::cache::purge::Pattern;
use carrick_logic::cache::{Fields, Meta, UnixTime, Variant, tags};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// Hits that are counted for eviction, at most.
const FREQUENCY_MAX: u8 = 3;

static NO_VARIANT: LazyLock<Variant> = LazyLock::new(Variant::default);

/// How far its file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is being written, and cannot be read yet.
    Writing,
    /// It can be read.
    There,
    /// It is being removed, and cannot be read any more.
    Gone,
}

/// The head of a response, as it replaces one on the disk.
#[derive(Debug, Clone)]
pub(in crate::cache) struct NewHead {
    pub(in crate::cache) meta: Meta,
    /// The address of the server that sent it, if a rule about addresses applies to it.
    pub(in crate::cache) origin: Option<IpAddr>,
    /// The field lines.
    pub(in crate::cache) fields: Box<[u8]>,
}

/// A change of a head that is not on the medium yet.
#[derive(Debug)]
pub(super) struct Change {
    /// `None`: the one in the file stays.
    head: Option<NewHead>,
    /// Whether the object is put out of date.
    is_outdated: bool,
    /// Held until it is written.
    tickets: Vec<Arc<PurgeTicket>>,
}

impl Change {
    /// Whether it must survive a loss of power, as a purge depends on it.
    pub(super) fn must_last(&self) -> bool {
        self.is_outdated || !self.tickets.is_empty()
    }

    /// Applies it to the head in the file.
    pub(super) fn apply(&self, head: &mut Head) {
        if let Some(new) = &self.head {
            head.meta = new.meta.clone();
            head.origin = new.origin;
            head.fields = new.fields.clone();
        }
        if self.is_outdated {
            head.meta = head.meta.outdated();
        }
    }
}

/// What changes of an entry: its tags, and the pending change and whether a thread writes it.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Separated by line ends.
    tags: Option<Box<[u8]>>,
    /// Counts changes.
    version: u64,
    pending: Option<Arc<Change>>,
    is_begun: bool,
}

impl Changes {
    /// Adds a change. It counts from now on, before it is written.
    pub(super) fn note(
        &mut self,
        head: Option<NewHead>,
        is_outdated: bool,
        ticket: Option<&Arc<PurgeTicket>>,
    ) {
        self.version += 1;
        let before = self.pending.take();
        let before = before.as_deref();
        let mut tickets = before.map_or_else(Vec::new, |before| before.tickets.clone());
        tickets.extend(ticket.cloned());
        self.pending = Some(Arc::new(Change {
            head: head.or_else(|| before?.head.clone()),
            is_outdated,
            tickets,
        }));
    }

    /// Whether there is a change that the caller has to write.
    pub(super) fn begin(&mut self) -> bool {
        self.pending.is_some() && !std::mem::replace(&mut self.is_begun, true)
    }

    /// Whether a thread writes.
    pub(super) fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Removes the pending change, as the object is removed. The caller drops it without the lock.
    pub(super) fn clear(&mut self) -> Option<Arc<Change>> {
        self.pending.take()
    }

    /// The change to write next; `None`: the writing thread is done.
    pub(super) fn next(&mut self) -> Option<Arc<Change>> {
        self.is_begun = self.pending.is_some();
        self.pending.clone()
    }

    /// Notes that a change is written.
    pub(super) fn done(&mut self, change: &Arc<Change>) {
        if self
            .pending
            .as_ref()
            .is_some_and(|pending| Arc::ptr_eq(pending, change))
        {
            self.pending = None;
        }
    }
}

/// An object on the disk, which may still be written. About 200 bytes, and its key and tags.
#[derive(Debug)]
pub struct Entry {
    hash: u64,
    key: Box<[u8]>,
    variant: Option<Box<Variant>>,
    pub(super) name: Name,
    /// When the response was made; the newest matching variant is sent.
    date: AtomicU64,
    pub(super) body_bytes: u64,
    stage: AtomicU8,
    frequency: AtomicU8,
    /// Whether this process has written the body, or has read it and found it right.
    pub(super) is_checked: AtomicBool,
    /// The file's stamp after carrick's last write; 0: unknown.
    pub(super) stamp: AtomicU64,
    /// How many [`File`](super::file::File)s have it open.
    pub(super) open_files: AtomicU32,
    changes: Mutex<Changes>,
}

/// A response, without its body.
#[derive(Debug)]
pub(in crate::cache) struct Response<'r> {
    pub(in crate::cache) key: Key<'r>,
    pub(in crate::cache) variant: &'r Variant,
    pub(in crate::cache) meta: Meta,
    /// The field lines.
    pub(in crate::cache) fields: &'r [u8],
    /// The address of the server that sent it, if a rule about addresses applies to it.
    pub(in crate::cache) origin: Option<IpAddr>,
    pub(in crate::cache) body_bytes: u64,
}

impl Response<'_> {
    /// Bytes of its head in the file.
    pub(super) fn head_bytes(&self) -> usize {
        Head::bytes_of(self.key.bytes(), self.variant, self.fields)
    }

    /// Its head in a new file. `body_sum` is the body's checksum.
    pub(super) fn head(&self, body_sum: u64) -> Head {
        Head {
            revision: 0,
            body_bytes: self.body_bytes,
            body_sum,
            origin: self.origin,
            meta: self.meta.clone(),
            key: self.key.bytes().into(),
            variant: self.variant.clone(),
            fields: self.fields.into(),
        }
    }
}

impl Entry {
    pub(super) fn new(of: &Response<'_>, name: Name, stage: Stage) -> Self {
        let variant = (!of.variant.names().is_empty()).then(|| Box::new(of.variant.clone()));
        Self {
            hash: of.key.hash(),
            key: of.key.bytes().into(),
            variant,
            name,
            date: AtomicU64::new(of.meta.date.0),
            body_bytes: of.body_bytes,
            stage: AtomicU8::new(stage as u8),
            frequency: AtomicU8::new(0),
            is_checked: AtomicBool::new(stage == Stage::Writing),
            stamp: AtomicU64::new(0),
            open_files: AtomicU32::new(0),
            changes: Mutex::new(Changes {
                tags: tags_of(of.fields),
                ..Changes::default()
            }),
        }
    }

    /// Notes a new head, with its date and tags. It counts from now on, before it is written.
    pub(super) fn freshen(&self, head: NewHead) {
        let tags = tags_of(&head.fields);
        self.date.store(head.meta.date.0, Ordering::Relaxed);
        let mut changes = self.changes();
        changes.tags = tags;
        changes.note(Some(head), false, None);
    }

    /// When the response was made; the newest matching variant is sent.
    pub(super) fn date(&self) -> UnixTime {
        UnixTime(self.date.load(Ordering::Relaxed))
    }

    pub(super) fn stage(&self) -> Stage {
        stage_of(self.stage.load(Ordering::Acquire))
    }

    /// Whether it can be read, now or soon.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.stage() != Stage::Gone
    }

    /// Notes that the file can be read; `false`: the entry was removed.
    pub(super) fn arrive(&self) -> bool {
        self.stage
            .compare_exchange(
                Stage::Writing as u8,
                Stage::There as u8,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    }

    /// Marks it as removed; returns the stage before.
    pub(super) fn leave(&self) -> Stage {
        stage_of(self.stage.swap(Stage::Gone as u8, Ordering::AcqRel))
    }

    /// How many changes of its head there were. What was loaded before a change must not be used after it.
    pub(in crate::cache) fn version(&self) -> u64 {
        self.changes().version
    }

    /// The same, and the change that counts though it is not written yet.
    pub(super) fn version_and_change(&self) -> (u64, Option<Arc<Change>>) {
        let changes = self.changes();
        (changes.version, changes.pending.clone())
    }

    /// Counts a hit, with plain stores.
    pub(in crate::cache) fn note_hit(&self) {
        let frequency = self.frequency.load(Ordering::Relaxed);
        if frequency < FREQUENCY_MAX {
            self.frequency.store(frequency + 1, Ordering::Relaxed);
        }
    }

    /// The key under which it is stored.
    #[must_use]
    pub fn key_bytes(&self) -> &[u8] {
        &self.key
    }

    /// Bytes that its file takes.
    #[must_use]
    pub fn file_bytes_taken(&self) -> u64 {
        self.charged_bytes()
    }

    /// Whether a purge of this pattern is about it.
    #[must_use]
    pub fn matches(&self, which: &Pattern) -> bool {
        which.matches(&self.key, |tag| {
            let changes = self.changes();
            let mut tags = (changes.tags.iter()).flat_map(|tags| tags.split(|byte| *byte == b'\n'));
            tags.any(|own| own == tag)
        })
    }

    /// Whether a file with this head is this entry's.
    pub(super) fn is_of(&self, head: &Head) -> bool {
        head.key == self.key
            && head.variant == *self.variant()
            && head.body_bytes == self.body_bytes
    }

    pub(super) fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tags in these field lines, separated by line ends; `None`: there are none.
fn tags_of(fields: &[u8]) -> Option<Box<[u8]>> {
    let tags = tags(Fields::of_text(fields)).join(b"\n".as_slice());
    (!tags.is_empty()).then(|| tags.into())
}

fn stage_of(number: u8) -> Stage {
    match number {
        0 => Stage::Writing,
        1 => Stage::There,
        _ => Stage::Gone,
    }
}

impl Item for Entry {
    fn key(&self) -> Key<'_> {
        Key::hashed(&self.key, self.hash)
    }

    fn variant(&self) -> &Variant {
        self.variant.as_deref().unwrap_or(&NO_VARIANT)
    }

    fn charged_bytes(&self) -> u64 {
        file_bytes(self.name.class, self.body_bytes)
    }

    fn is_under_way(&self) -> bool {
        self.stage() == Stage::Writing
    }

    fn frequency(&self) -> u8 {
        self.frequency.load(Ordering::Relaxed)
    }

    fn set_frequency(&self, frequency: u8) {
        self.frequency.store(frequency, Ordering::Relaxed);
    }
}
