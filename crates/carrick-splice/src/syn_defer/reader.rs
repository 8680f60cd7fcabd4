//! Reads what is held, one part of it, and says to the kernel that somebody does.

use super::{DeferredSyn, Inner};
use crate::sys::clock::now_ns;
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often it is said that somebody reads: `UNATTENDED_NS` of bpf/syn_defer/syn_defer.bpf.c is four times as long.
const BEAT_EVERY: Duration = Duration::from_millis(250);

/// What is told of, and was not asked for yet.
type Told = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// Has the runtime tell when there is something to read.
#[expect(unsafe_code, reason = "tokio has no safe one")]
fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` gives the same descriptor every time, and is open until it is dropped.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    Ok(registered?)
}

/// One reader of what is held. Dropped, its part of the SYNs passes; what it had not read yet passes when it is repeated.
pub struct Reader {
    inner: Arc<Inner>,
    number: usize,
    ring: RingBuffer<'static>,
    is_told: AsyncFd<OwnedFd>,
    told: Told,
    beats: Interval,
}

impl Reader {
    pub(super) fn open(inner: Arc<Inner>, number: usize) -> io::Result<Reader> {
        let map = inner
            .rings
            .get(number)
            .ok_or_else(|| io::Error::other("there is no such reader"))?;
        let told = Told::default();
        let mut ring = RingBufferBuilder::new();
        let queue = Rc::clone(&told);
        ring.add(map, move |record| {
            queue.borrow_mut().push_back(record.to_vec());
            0
        })
        .map_err(io::Error::other)?;
        let ring = ring.build().map_err(io::Error::other)?;
        let descriptor = map.as_fd().try_clone_to_owned()?;
        let mut beats = interval(BEAT_EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reader = Reader {
            is_told: register(descriptor)?,
            inner,
            number,
            ring,
            told,
            beats,
        };
        reader.beat(now_ns());
        Ok(reader)
    }

    /// The next SYN that is held. Somebody must wait for it almost all the time: nobody does for a second, and SYNs pass. May be
    /// dropped at any moment.
    ///
    /// # Errors
    /// The runtime's, or the kernel's.
    pub async fn next(&mut self) -> io::Result<DeferredSyn> {
        loop {
            // What is no SYN after all is nobody's business; what has a wrong checksum no host would have taken.
            while let Some(record) = self.take() {
                if let Some(held) = DeferredSyn::read(&record, &self.inner) {
                    return Ok(held);
                }
            }
            tokio::select! {
                _ = self.beats.tick() => self.beat(now_ns()),
                ready = self.is_told.readable() => {
                    // First this: what comes from now on makes it ready again.
                    ready?.clear_ready();
                    self.read_all()?;
                }
            }
        }
    }

    /// Takes what the ring has. The kernel tells of a record only if it sees that all before it were taken by then (`bpf_ringbuf_commit`), and the
    /// runtime looks no second time at what it was not told of. So it is looked once more when other processors can see how much was taken:
    /// libbpf may look first, and a record that was written in between would be told of by nobody, nor any after it.
    fn read_all(&self) -> io::Result<()> {
        loop {
            let taken = self.ring.consume_raw();
            if taken < 0 {
                return Err(io::Error::from_raw_os_error(-taken));
            }
            if taken == 0 {
                return Ok(());
            }
            fence(Ordering::SeqCst);
        }
    }

    fn take(&self) -> Option<Vec<u8>> {
        self.told.borrow_mut().pop_front()
    }

    fn beat(&self, now: u64) {
        let beat = self.inner.beats.word(self.number * size_of::<u64>());
        beat.store(now, Ordering::Relaxed);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.beat(0);
        // What was read is forgotten, so that it is asked for when it is repeated, should somebody else read then.
        while let Some(record) = self.take() {
            drop(DeferredSyn::read(&record, &self.inner));
        }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = formatter.debug_struct("Reader");
        debug.field("number", &self.number).finish_non_exhaustive()
    }
}
