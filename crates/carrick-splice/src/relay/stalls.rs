//! Splices whose receiver takes nothing: how much kernel memory they hold, and which of them end when that is
//! too much.

#[cfg(test)]
mod tests;

use crate::tcp;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// A splice is stalled if it waits for its receiver and has moved next to nothing for this long.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// Less than this is next to nothing: a receiver that takes a little now and then still counts as stalled,
/// but not for long.
const PROGRESS_BYTES: u64 = 16 << 10;

/// The splices of one thread that have waited for their receiver.
#[derive(Default, Clone)]
pub(crate) struct Stalls {
    entries: Rc<RefCell<Slab<Rc<StallEntry>>>>,
}

/// What stalled splices held when last checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stalled {
    /// How many splices.
    pub splices: u64,
    /// Bytes of kernel memory: received from their senders, and not yet sent to their receivers.
    pub bytes: u64,
}

struct StallEntry {
    sockets: Cell<[RawFd; 2]>,
    moved_bytes: Cell<u64>,
    waits: Cell<bool>,
    is_ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// Bytes moved at the last progress, and when that was seen.
    seen: Cell<(u64, Instant)>,
    /// Bytes it holds, if it is stalled.
    held_bytes: Cell<u64>,
}

/// One splice among them.
pub(crate) struct Stall {
    stalls: Stalls,
    key: usize,
    entry: Rc<StallEntry>,
}

impl Stalls {
    /// Checks all of them.
    pub(crate) fn look(&self, now: Instant, held: impl Fn([RawFd; 2]) -> u64) -> Stalled {
        let mut stalled = Stalled::default();
        for (_, entry) in &*self.entries.borrow() {
            entry.held_bytes.set(0);
            let (seen_bytes, since) = entry.seen.get();
            let moved_bytes = entry.moved_bytes.get().abs_diff(seen_bytes);
            if !entry.waits.get() || moved_bytes >= PROGRESS_BYTES {
                entry.seen.set((entry.moved_bytes.get(), now));
            } else if now.saturating_duration_since(since) >= STALLED_AFTER {
                // One that appears to hold nothing still holds something.
                let bytes = held(entry.sockets.get()).max(1);
                entry.held_bytes.set(bytes);
                stalled.splices += 1;
                stalled.bytes += bytes;
            }
        }
        stalled
    }

    /// Ends the longest stalled splices until this many bytes are free. Returns how many.
    pub(crate) fn end_oldest(&self, bytes: u64) -> u64 {
        let mut stalled: Vec<Rc<StallEntry>> = (self.entries.borrow().iter())
            .filter(|(_, entry)| entry.held_bytes.get() > 0 && !entry.is_ended.get())
            .map(|(_, entry)| Rc::clone(entry))
            .collect();
        stalled.sort_by_key(|entry| entry.seen.get().1);
        let (mut freed, mut ended) = (0, 0);
        for entry in stalled {
            if freed >= bytes {
                break;
            }
            freed += entry.held_bytes.get();
            ended += 1;
            entry.is_ended.set(true);
            if let Some(waker) = entry.waker.take() {
                waker.wake();
            }
        }
        ended
    }
}

impl Stall {
    /// Records where a poll has left a splice. It is added once it has waited for its receiver.
    pub(crate) fn note(
        stall: &mut Option<Box<Stall>>,
        stalls: &Stalls,
        waits: bool,
        moved_bytes: u64,
        sockets: impl FnOnce() -> Option<[RawFd; 2]>,
        cx: &Context<'_>,
    ) {
        if stall.is_none() {
            if !waits {
                return;
            }
            let Some(sockets) = sockets() else { return };
            *stall = Some(Box::new(Stall::new(stalls, sockets, moved_bytes)));
        }
        let Some(stall) = stall else { return };
        let entry = &*stall.entry;
        entry.waits.set(waits);
        entry.moved_bytes.set(moved_bytes);
        if waits {
            let mut waker = entry.waker.borrow_mut();
            match &mut *waker {
                Some(known) => known.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
        }
    }

    fn new(stalls: &Stalls, sockets: [RawFd; 2], moved_bytes: u64) -> Stall {
        let entry = Rc::new(StallEntry {
            sockets: Cell::new(sockets),
            moved_bytes: Cell::new(moved_bytes),
            waits: Cell::new(true),
            is_ended: Cell::new(false),
            waker: RefCell::default(),
            seen: Cell::new((moved_bytes, Instant::now())),
            held_bytes: Cell::new(0),
        });
        let key = stalls.entries.borrow_mut().insert(Rc::clone(&entry));
        Stall {
            stalls: stalls.clone(),
            key,
            entry,
        }
    }

    /// Whether it must end, since stalled splices hold too much.
    pub(crate) fn is_ended(stall: &Option<Box<Stall>>) -> bool {
        stall
            .as_ref()
            .is_some_and(|stall| stall.entry.is_ended.get())
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        drop(self.stalls.entries.borrow_mut().try_remove(self.key));
    }
}

/// The descriptors of two connections.
pub(crate) fn descriptors(one: &TcpStream, other: &TcpStream) -> [RawFd; 2] {
    [one.as_raw_fd(), other.as_raw_fd()]
}

/// What two connections hold in the kernel, in both directions.
pub(crate) fn held_bytes(sockets: [RawFd; 2]) -> u64 {
    sockets.iter().map(|socket| tcp::held_bytes(*socket)).sum()
}
