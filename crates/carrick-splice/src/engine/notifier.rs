//! Wakes splices whose connections are outside of tokio's registry: when the verdict program leaves something
//! to the process (ring buffer), and when their connections end or fail (epoll).

use crate::engine::slot_owner::SlotOwner;
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// epoll's tokens for the end of the thread, and for the ring buffer.
const STOP: u64 = u64::MAX;
const RING: u64 = u64::MAX - 1;
/// epoll's token for the chore.
const CHORE: u64 = u64::MAX - 2;

/// Events taken at a time.
const EVENTS: usize = 64;

/// The size of a ring buffer with room for two records of each direction: one for which the process was just
/// woken, and the next. A record takes 16 bytes; the size must be a power of two.
pub(crate) fn ring_bytes(directions: u32) -> u32 {
    directions
        .saturating_mul(2 * 16)
        .max(4096)
        .checked_next_power_of_two()
        .unwrap_or(1 << 31)
}

/// Something that the thread does besides.
pub(crate) struct PeriodicTask {
    /// Triggers a run when readable.
    pub(crate) descriptor: Option<OwnedFd>,
    /// Is told the time, and returns in how long it runs again, unless triggered.
    pub(crate) run: Box<dyn Fn(Instant) -> Duration + Send>,
}

/// The thread that wakes splices. It sleeps while the kernel forwards bytes.
pub(crate) struct Notifier {
    is_working: Arc<AtomicBool>,
    epoll: Arc<OwnedFd>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Notifier {
    /// Starts it. `events` is the ring buffer in which the program names the directions whose process must
    /// wake.
    pub(crate) fn start(events: MapHandle, slot_owners: Arc<[SlotOwner]>) -> io::Result<Notifier> {
        Notifier::start_with(events, slot_owners, None)
    }

    /// Starts it, with a chore.
    pub(crate) fn start_with(
        events: MapHandle,
        slot_owners: Arc<[SlotOwner]>,
        task: Option<PeriodicTask>,
    ) -> io::Result<Notifier> {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let is_working = Arc::new(AtomicBool::new(true));
        epoll::add(
            &epoll,
            &stop,
            EventData::new_u64(STOP),
            EventFlags::IN | EventFlags::ET,
        )?;
        let (begun, has_begun) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("carrick-splice".into())
            .spawn({
                let (epoll, is_working) = (Arc::clone(&epoll), Arc::clone(&is_working));
                move || {
                    match listen(&epoll, &events, &slot_owners) {
                        Ok(ring) => {
                            let _ = begun.send(Ok(()));
                            // However the thread ends, no splice may rely on it or sleep on.
                            let _ = wake_all(&epoll, &ring, &slot_owners, task.as_ref());
                        }
                        Err(error) => drop(begun.send(Err(error))),
                    }
                    is_working.store(false, SeqCst);
                    slot_owners.iter().for_each(SlotOwner::wake);
                }
            })?;
        has_begun.recv().map_err(io::Error::other)??;
        Ok(Notifier {
            is_working,
            epoll,
            stop,
            thread: Some(thread),
        })
    }

    /// Whether splices are woken.
    pub(crate) fn is_working(&self) -> bool {
        self.is_working.load(SeqCst)
    }

    /// Wakes the splice at `slot` when this connection ends or fails.
    pub(crate) fn watch(&self, connection: BorrowedFd<'_>, slot: u32) -> io::Result<()> {
        // Not IN: the kernel reports that for each piece it forwards.
        let flags = EventFlags::RDHUP | EventFlags::ET;
        epoll::add(
            &*self.epoll,
            connection,
            EventData::new_u64(slot.into()),
            flags,
        )?;
        Ok(())
    }

    /// Stops watching.
    pub(crate) fn forget(&self, connection: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&*self.epoll, connection)?)
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        // Adding to a fresh eventfd cannot fail.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Adds the ring buffer to epoll.
fn listen<'t>(
    epoll: &OwnedFd,
    events: &MapHandle,
    slot_owners: &'t [SlotOwner],
) -> io::Result<RingBuffer<'t>> {
    let mut ring = RingBufferBuilder::new();
    ring.add(events, |record| {
        if let Some(bytes) = record.first_chunk() {
            let direction = u32::from_ne_bytes(*bytes);
            wake(slot_owners, u64::from(direction / 2));
        }
        0
    })
    .map_err(io::Error::other)?;
    let ring = ring.build().map_err(io::Error::other)?;
    epoll::add(
        epoll,
        events.as_fd(),
        EventData::new_u64(RING),
        EventFlags::IN,
    )?;
    Ok(ring)
}

/// Waits and wakes until it is stopped.
fn wake_all(
    epoll: &OwnedFd,
    ring: &RingBuffer<'_>,
    slot_owners: &[SlotOwner],
    task: Option<&PeriodicTask>,
) -> io::Result<()> {
    if let Some(descriptor) = task.and_then(|task| task.descriptor.as_ref()) {
        epoll::add(epoll, descriptor, EventData::new_u64(CHORE), EventFlags::IN)?;
    }
    let begun = Instant::now();
    let mut due = task.map(|task| begun + (task.run)(begun));
    loop {
        let timeout = due
            .and_then(|due| Timespec::try_from(due.saturating_duration_since(Instant::now())).ok());
        let mut happened = Vec::<Event>::with_capacity(EVENTS);
        match epoll::wait(
            epoll,
            rustix::buffer::spare_capacity(&mut happened),
            timeout.as_ref(),
        ) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let is_called_for = happened.iter().any(|event| {
            let data = event.data;
            data.u64() == CHORE
        });
        let now = Instant::now();
        if let Some(task) = task
            && (is_called_for || due.is_some_and(|due| now >= due))
        {
            due = Some(now + (task.run)(now));
        }
        for event in &happened {
            // The record is packed: no references to its fields.
            let data = event.data;
            match data.u64() {
                STOP => return Ok(()),
                RING => ring.consume().map_err(io::Error::other)?,
                CHORE => {}
                slot => wake(slot_owners, slot),
            }
        }
    }
}

fn wake(slot_owners: &[SlotOwner], slot: u64) {
    if let Some(slot_owner) = usize::try_from(slot)
        .ok()
        .and_then(|slot| slot_owners.get(slot))
    {
        slot_owner.wake();
    }
}
