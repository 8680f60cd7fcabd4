//! Reads one part of the deferred SYNs, and sends the heartbeat.

use super::{DeferredSyn, Inner};
use crate::sys::clock::now_ns;
use crate::sys::readable;
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// The interval of heartbeats, a quarter of [`UNATTENDED`](super::UNATTENDED).
const BEAT_EVERY: Duration = Duration::from_millis(250);

/// Records read but not requested yet.
type Told = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// One reader of deferred SYNs. Dropped, its part of new SYNs passes; what it had not read passes when it is
/// retransmitted.
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
            is_told: readable(descriptor)?,
            inner,
            number,
            ring,
            told,
            beats,
        };
        reader.beat(now_ns());
        Ok(reader)
    }

    /// Waits for the next deferred SYN. Cancel-safe. Call it again at once: after a second without a waiting
    /// task, SYNs are no longer deferred.
    ///
    /// # Errors
    /// The runtime's, or the kernel's.
    pub async fn next(&mut self) -> io::Result<DeferredSyn> {
        loop {
            // Skips what is not a SYN after all, and wrong checksums, which no host would accept.
            while let Some(record) = self.take() {
                if let Some(syn) = DeferredSyn::read(&record, &self.inner) {
                    return Ok(syn);
                }
            }
            tokio::select! {
                _ = self.beats.tick() => self.beat(now_ns()),
                ready = self.is_told.readable() => {
                    // Cleared first: what arrives from now on makes it ready again.
                    ready?.clear_ready();
                    self.read_all()?;
                }
            }
        }
    }

    /// Takes what the ring has. The kernel reports a record only if it sees that all before it were consumed
    /// (`bpf_ringbuf_commit`), and the runtime does not check again. So this reads once more when other
    /// processors can see how much was consumed: otherwise a record written in between, and all after it,
    /// would never be reported.
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
        // What was read is forgotten, so that its retransmission is reported to another reader, if there is
        // one.
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
