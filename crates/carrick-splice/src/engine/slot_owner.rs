//! The owner of a slot in an engine's maps, and how it is woken.

use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// The owner of a slot.
#[derive(Default)]
pub(crate) struct SlotOwner {
    /// Incremented when the slot is taken and when it is freed: odd while it is taken.
    stays: AtomicU64,
    /// The owner's number for the splice.
    label: AtomicU64,
    /// Whether the owner must be woken, since it began to wait.
    pub(crate) is_woken: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl SlotOwner {
    /// Takes the slot for a splice with this label.
    pub(crate) fn arrive(&self, label: u64) {
        self.label.store(label, Relaxed);
        self.stays.fetch_add(1, Release);
    }

    /// Frees the slot.
    pub(crate) fn go(&self) {
        self.stays.fetch_add(1, Release);
    }

    /// The generation of the slot: if equal before and after a read, the read was of one owner.
    pub(crate) fn stay(&self) -> u64 {
        self.stays.load(Acquire)
    }

    /// Whether the slot is taken.
    pub(crate) fn is_there(stay: u64) -> bool {
        stay % 2 == 1
    }

    /// The owner's number for the splice.
    pub(crate) fn label(&self) -> u64 {
        self.label.load(Relaxed)
    }

    /// Wakes the owner, if it waits.
    pub(crate) fn wake(&self) {
        self.is_woken.store(true, SeqCst);
        if let Some(waker) = self.waker().take() {
            waker.wake();
        }
    }

    /// Sets the waker.
    pub(crate) fn remember(&self, cx: &Context<'_>) {
        let mut waker = self.waker();
        match &mut *waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }

    /// Clears the waker.
    pub(crate) fn forget(&self) {
        self.waker().take();
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
