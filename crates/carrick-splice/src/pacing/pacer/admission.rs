//! Relayed requests wait for their worker, too: connecting to a server and two heads take as much work as
//! some ten KB of a body, and would delay a cache hit.

use super::{Pacer, Slot};
use crate::PaceHandle;
use crate::pacing::queue::{Place, VirtualTime};
use crate::pacing::skeleton::types::pace_class;
use crate::sys::clock::now_ns;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::mem::offset_of;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

/// A response that has received less than this goes before requests that have not begun: those under way are
/// to end, not to become more.
const BEGUN_BYTES: u64 = 256 << 10;

/// A place in the queue, given up when dropped.
struct Waiting<'a> {
    pacer: &'a Pacer,
    slot: Rc<Slot>,
    place: Place,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.slot.is_granted.get() {
            self.pacer.leave(self.place);
        }
    }
}

impl Pacer {
    /// Whether work for a request whose response is paced so waits for the worker.
    #[must_use]
    pub fn waits(&self, handle: PaceHandle) -> bool {
        !handle.is_none() && self.must_wait(handle.class())
    }

    /// Waits until a request whose response is paced so may be worked on, behind what has begun: at once if its class never waits
    /// for the worker, otherwise at its turn, at the latest after the class's longest hold. Charges neither
    /// rate nor credit.
    pub async fn admit(&self, handle: PaceHandle) {
        let behind = self.0.queue.borrow().behind(BEGUN_BYTES);
        self.wait_for_leave(handle, behind).await;
    }

    /// Likewise, until its response may be read: before bodies that have begun.
    pub async fn admit_response(&self, handle: PaceHandle) {
        self.wait_for_leave(handle, VirtualTime::default()).await;
    }

    async fn wait_for_leave(&self, handle: PaceHandle, virtual_time: VirtualTime) {
        if !self.waits(handle) {
            return;
        }
        let class = handle.class();
        let counts = self.pacing().counts(class);
        counts.yields.fetch_add(1, Relaxed);
        let begun_ns = now_ns();
        let block = &self.pacing().0.block;
        let hold_max = block.class(class, offset_of!(pace_class, hold_max_ns));
        let slot = Rc::new(Slot {
            waker: RefCell::new(None),
            is_granted: Cell::new(false),
            is_charged: Cell::new(false),
            since_ns: begun_ns,
            hold_max_ns: hold_max.load(Relaxed),
            class,
        });
        let (priority, _) = self.priority_of(class);
        let waiting = Waiting {
            pacer: self,
            place: self.wait(priority, virtual_time, Rc::clone(&slot)),
            slot,
        };
        poll_fn(|cx| {
            if waiting.slot.is_granted.get() {
                return Poll::Ready(());
            }
            waiting.slot.waker.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
        let waited_ns = now_ns().saturating_sub(begun_ns);
        counts.waited_ns.fetch_add(waited_ns, Relaxed);
    }
}
