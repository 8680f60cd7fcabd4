//! Who has a slot in the maps of one of the kernel's engines, and how the owner is woken.

use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// Who has a slot.
#[derive(Default)]
pub(crate) struct SlotOwner {
    /// Grows with everybody who comes, and who goes: while it is odd, somebody has the slot.
    stays: AtomicU64,
    /// The owner's number for the splice.
    label: AtomicU64,
    /// Whether something has happened for which the owner is to be woken, since it began to wait.
    pub(crate) is_woken: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl SlotOwner {
    /// Somebody has the slot from now on, who calls it so.
    pub(crate) fn arrive(&self, label: u64) {
        self.label.store(label, Relaxed);
        self.stays.fetch_add(1, Release);
    }

    /// Nobody has it any more.
    pub(crate) fn go(&self) {
        self.stays.fetch_add(1, Release);
    }

    /// Counts who comes and who goes: whoever reads it before and after something else knows whose that was.
    pub(crate) fn stay(&self) -> u64 {
        self.stays.load(Acquire)
    }

    /// Whether somebody has the slot.
    pub(crate) fn is_there(stay: u64) -> bool {
        stay % 2 == 1
    }

    /// The owner's number for the splice.
    pub(crate) fn label(&self) -> u64 {
        self.label.load(Relaxed)
    }

    /// Wakes the owner, if it sleeps.
    pub(crate) fn wake(&self) {
        self.is_woken.store(true, SeqCst);
        if let Some(waker) = self.waker().take() {
            waker.wake();
        }
    }

    /// Whom to wake.
    pub(crate) fn remember(&self, cx: &Context<'_>) {
        let mut waker = self.waker();
        match &mut *waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }

    /// Nobody is to be woken.
    pub(crate) fn forget(&self) {
        self.waker().take();
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
