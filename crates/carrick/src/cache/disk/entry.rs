//! What is known in memory of an object on the disk.
use super::format::{Head, file_bytes};
use super::name::Name;
use super::ticket::Ticket;
use crate::cache::index::Item;
use crate::cache::key::Key;
use crate::cache::memory::Object;
use crate::cache::purge::Pattern;
use carrick_logic::cache::{Fields, UnixTime, Variant, tags};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// Most looks that are remembered for eviction.
const FREQUENCY_MAX: u8 = 3;

static NO_VARIANT: LazyLock<Variant> = LazyLock::new(Variant::default);

/// How far it is with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is being written, and not to be read yet.
    Writing,
    /// It is there.
    There,
    /// It is not wanted any more: nobody begins to read it, and it is removed.
    Gone,
}

/// A head that is not on the medium yet.
#[derive(Debug)]
pub(super) struct Change {
    /// Which has it; `None`: it is the one in the file.
    object: Option<Arc<Object>>,
    /// Whether it is made out of date.
    is_outdated: bool,
    /// Held until it is written.
    tickets: Vec<Arc<Ticket>>,
}

impl Change {
    /// Whether somebody was told, or will be, that it counts also after a loss of power.
    pub(super) fn must_last(&self) -> bool {
        self.is_outdated || !self.tickets.is_empty()
    }

    /// Makes the head that is to be of the one in the file.
    pub(super) fn apply(&self, head: &mut Head) {
        if let Some(object) = &self.object {
            head.meta = object.meta().clone();
            head.origin = object.origin();
            head.fields = object.head().into();
        }
        if self.is_outdated {
            head.meta = head.meta.outdated();
        }
    }
}

/// Of one object: what its head is to be, and whether somebody writes it.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Counts up with each.
    version: u64,
    pending: Option<Arc<Change>>,
    is_begun: bool,
}

impl Changes {
    /// Notes another head, which counts from now on; `None`: the present one, made out of date.
    pub(super) fn note(
        &mut self,
        object: Option<&Arc<Object>>,
        is_outdated: bool,
        ticket: Option<&Arc<Ticket>>,
    ) {
        self.version += 1;
        let before = self.pending.take();
        let before = before.as_deref();
        let mut tickets = before
            .map(|before| before.tickets.clone())
            .unwrap_or_default();
        tickets.extend(ticket.cloned());
        self.pending = Some(Arc::new(Change {
            object: object
                .or(before.and_then(|before| before.object.as_ref()))
                .cloned(),
            is_outdated,
            tickets,
        }));
    }

    /// Whether there is something to be written by the caller.
    pub(super) fn begin(&mut self) -> bool {
        self.pending.is_some() && !std::mem::replace(&mut self.is_begun, true)
    }

    /// Whether somebody writes.
    pub(super) fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// The object goes: nothing is to be written any more. What was pending is given to be dropped without the lock.
    pub(super) fn clear(&mut self) -> Option<Arc<Change>> {
        self.pending.take()
    }

    /// How many there were.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// What counts, though it may not be written yet.
    pub(super) fn pending(&self) -> Option<Arc<Change>> {
        self.pending.clone()
    }

    /// What is to be written next; `None`: who writes is done.
    pub(super) fn next(&mut self) -> Option<Arc<Change>> {
        self.is_begun = self.pending.is_some();
        self.pending.clone()
    }

    /// This one is written.
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

/// An object on the disk, or on its way there. About 200 bytes, its key and tags besides.
#[derive(Debug)]
pub struct Entry {
    hash: u64,
    key: Box<[u8]>,
    variant: Option<Box<Variant>>,
    /// With line ends between them.
    tags: Option<Box<[u8]>>,
    pub(super) name: Name,
    /// When the response was made, to choose between variants.
    pub(super) date: UnixTime,
    pub(super) body_bytes: u64,
    stage: AtomicU8,
    frequency: AtomicU8,
    /// Whether the body was read, and was right, or was written by this process.
    pub(super) is_checked: AtomicBool,
    /// The file's stamp after carrick's own last write; 0: not known.
    pub(super) stamp: AtomicU64,
    /// How often it is open to be sent.
    pub(super) open_files: AtomicU32,
    changes: Mutex<Changes>,
}

/// What the index and a new file's head have in common.
pub(super) struct Described<'d> {
    pub(super) key: Key<'d>,
    pub(super) variant: &'d Variant,
    pub(super) fields: &'d [u8],
    pub(super) date: UnixTime,
    pub(super) body_bytes: u64,
}

impl Entry {
    pub(super) fn new(of: &Described<'_>, name: Name, stage: Stage) -> Self {
        let tags = tags(Fields::of_text(of.fields)).join(b"\n".as_slice());
        let variant = (!of.variant.names().is_empty()).then(|| Box::new(of.variant.clone()));
        Self {
            hash: of.key.hash(),
            key: of.key.bytes().into(),
            variant,
            tags: (!tags.is_empty()).then(|| tags.into()),
            name,
            date: of.date,
            body_bytes: of.body_bytes,
            stage: AtomicU8::new(stage as u8),
            frequency: AtomicU8::new(0),
            is_checked: AtomicBool::new(stage == Stage::Writing),
            stamp: AtomicU64::new(0),
            open_files: AtomicU32::new(0),
            changes: Mutex::default(),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        stage_of(self.stage.load(Ordering::Acquire))
    }

    /// Whether it can be found on the disk, now or soon.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.stage() != Stage::Gone
    }

    /// The file is there. `false`: it is not wanted any more.
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

    /// It is not wanted any more; what it was before.
    pub(super) fn leave(&self) -> Stage {
        stage_of(self.stage.swap(Stage::Gone as u8, Ordering::AcqRel))
    }

    /// How many changes of its head there were. What was loaded before is not to be used after one.
    pub(in crate::cache) fn version(&self) -> u64 {
        self.changes().version()
    }

    /// Notes a look, by plain stores.
    pub(in crate::cache) fn note_hit(&self) {
        let frequency = self.frequency.load(Ordering::Relaxed);
        if frequency < FREQUENCY_MAX {
            self.frequency.store(frequency + 1, Ordering::Relaxed);
        }
    }

    /// The name under which it is stored.
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
            let mut tags = (self.tags.iter()).flat_map(|tags| tags.split(|byte| *byte == b'\n'));
            tags.any(|own| own == tag)
        })
    }

    /// Whether a file with this head is its own.
    pub(super) fn is_of(&self, head: &Head) -> bool {
        head.key == self.key
            && head.variant == *self.variant()
            && head.body_bytes == self.body_bytes
    }

    pub(super) fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
