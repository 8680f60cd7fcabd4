//! How many bytes and objects a store may have and has, and how many bytes of removed objects readers still hold.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much a store may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of bodies, heads, keys and the overhead of each object.
    pub bytes: u64,
    /// Stored responses. Each variant counts.
    pub objects: u64,
    /// Bytes of a body; an eighth of `bytes` is another limit.
    pub object_bytes_max: u64,
}

/// Counts what is taken and given back. It never exceeds the limits. `loose` is what readers hold of objects that are not stored any more:
/// above `bytes_max`, the store takes no bodies.
#[derive(Debug)]
pub(in crate::cache) struct Ledger {
    bytes_max: AtomicU64,
    objects_max: u64,
    object_bytes_max: u64,
    used: AtomicU64,
    loose: AtomicU64,
    objects: AtomicU64,
}

impl Ledger {
    pub(in crate::cache) fn new(limits: Limits) -> Self {
        Self {
            bytes_max: AtomicU64::new(limits.bytes),
            objects_max: limits.objects,
            object_bytes_max: limits.object_bytes_max.min(limits.bytes / 8),
            used: AtomicU64::new(0),
            loose: AtomicU64::new(0),
            objects: AtomicU64::new(0),
        }
    }

    /// Changes the limit of bytes. The caller evicts what exceeds it.
    pub(in crate::cache) fn limit_bytes(&self, bytes: u64) {
        self.bytes_max.store(bytes, Relaxed);
    }

    pub(in crate::cache) fn is_above_limit(&self) -> bool {
        self.used() > self.bytes_max()
    }

    /// The limit of bytes.
    pub(in crate::cache) fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Relaxed)
    }

    /// The longest body.
    pub(in crate::cache) fn object_bytes_max(&self) -> u64 {
        self.object_bytes_max
    }

    pub(in crate::cache) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    pub(in crate::cache) fn loose(&self) -> u64 {
        self.loose.load(Relaxed)
    }

    pub(in crate::cache) fn objects(&self) -> u64 {
        self.objects.load(Relaxed)
    }

    /// Whether an empty store would have room for `bytes`.
    pub(in crate::cache) fn could_take(&self, bytes: u64) -> bool {
        bytes <= self.bytes_max()
    }

    /// Takes `bytes`, if there is room.
    pub(in crate::cache) fn try_take(&self, bytes: u64) -> bool {
        take(&self.used, bytes, self.bytes_max())
    }

    /// Takes `bytes`, even if there is no room.
    fn take_anyway(&self, bytes: u64) {
        self.used.fetch_add(bytes, Relaxed);
    }

    /// Counts one more object, if that is allowed.
    pub(in crate::cache) fn try_take_object(&self) -> bool {
        take(&self.objects, 1, self.objects_max)
    }

    /// Gives `bytes` back.
    pub(in crate::cache) fn give_back(&self, bytes: u64) {
        let before = self.used.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "gave back more than was taken");
    }

    pub(in crate::cache) fn give_back_object(&self) {
        let before = self.objects.fetch_sub(1, Relaxed);
        debug_assert!(before >= 1, "gave back an object too many");
    }

    /// Counts stored bytes as held by readers only.
    pub(in crate::cache) fn loosen(&self, bytes: u64) {
        self.loose.fetch_add(bytes, Relaxed);
        self.give_back(bytes);
    }

    /// Stops counting bytes that only readers held.
    pub(in crate::cache) fn forget_loose(&self, bytes: u64) {
        let before = self.loose.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "forgot more than was loose");
    }
}

fn take(counter: &AtomicU64, amount: u64, most: u64) -> bool {
    counter
        .try_update(Relaxed, Relaxed, |now| {
            now.checked_add(amount).filter(|after| *after <= most)
        })
        .is_ok()
}

/// What one body or object has taken, and whether it is stored, or *loose*: held by readers only. All is in one word, so that threads
/// that let it grow and loosen it at the same time agree.
#[derive(Debug, Default)]
pub(in crate::cache) struct Charge(AtomicU64);

const LOOSE: u64 = 1;
const STORED: u64 = 2;
const BYTES_SHIFT: u32 = 2;

impl Charge {
    /// The charge of something that took `bytes`.
    pub(in crate::cache) fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes << BYTES_SHIFT))
    }

    pub(in crate::cache) fn bytes(&self) -> u64 {
        self.0.load(Relaxed) >> BYTES_SHIFT
    }

    /// Marks it as stored; `false`: it was stored before.
    pub(in crate::cache) fn mark_stored(&self) -> bool {
        self.0.fetch_or(STORED, Relaxed) & STORED == 0
    }

    /// Takes the mark away, as it was not stored.
    pub(in crate::cache) fn unmark_stored(&self) {
        self.0.fetch_and(!STORED, Relaxed);
    }

    pub(in crate::cache) fn is_loose(&self) -> bool {
        self.0.load(Relaxed) & LOOSE != 0
    }

    /// Marks it as loose.
    pub(in crate::cache) fn loosen(&self, ledger: &Ledger) {
        let before = self
            .0
            .update(Relaxed, Relaxed, |word| (word | LOOSE) & !STORED);
        if before & LOOSE == 0 {
            ledger.loosen(before >> BYTES_SHIFT);
        }
    }

    /// Marks it as not loose. `taken` was taken for that; what it has grown by since is taken as well.
    pub(in crate::cache) fn tighten(&self, ledger: &Ledger, taken: u64) {
        let before = self.0.fetch_and(!LOOSE, Relaxed);
        if before & LOOSE != 0 {
            ledger.forget_loose(before >> BYTES_SHIFT);
            ledger.take_anyway(before >> BYTES_SHIFT);
        }
        ledger.give_back(taken);
    }

    /// Adds bytes that were taken from the ledger.
    pub(in crate::cache) fn grow(&self, ledger: &Ledger, bytes: u64) {
        if self.0.fetch_add(bytes << BYTES_SHIFT, Relaxed) & LOOSE != 0 {
            ledger.loosen(bytes);
        }
    }

    /// Gives some bytes back.
    pub(in crate::cache) fn shrink(&self, ledger: &Ledger, bytes: u64) {
        if self.0.fetch_sub(bytes << BYTES_SHIFT, Relaxed) & LOOSE == 0 {
            ledger.give_back(bytes);
        } else {
            ledger.forget_loose(bytes);
        }
    }

    /// Gives all bytes back.
    pub(in crate::cache) fn settle(&self, ledger: &Ledger) {
        self.shrink(ledger, self.bytes());
    }
}
