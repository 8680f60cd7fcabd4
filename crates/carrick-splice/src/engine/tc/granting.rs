//! Pacing: gives waiting senders their turn, in a thread of its own, which sleeps while none waits
//! (`carrick_grant` of bpf/tc/grant.h).

use super::command::{ETHERNET_HEADER, run};
use libbpf_rs::{MapHandle, RingBufferBuilder};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often waiting ways are served: what comes in that time is granted at once. (Each run wakes an
/// otherwise idle processor, and so does the traffic that each grant causes.)
const TICK: Duration = Duration::from_millis(10);

/// It pauses for as long as a run takes, but no longer than this: a bucket's burst (40 ms) must last. (Most
/// of that time is spent forwarding the packets it sends.)
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Ways served per call (`GRANTS_MAX`), and the most per tick.
pub(super) const GRANTS_AT_ONCE: u32 = 64;
const CALLS_AT_ONCE: u32 = 1024;

/// Room for a window update: `UPDATE_BYTES_MAX`.
const FRAME_BYTES: usize = 14 + 40 + 20 + 12;

/// epoll's tokens for the end of the thread, and for waiting ways.
const STOP: u64 = 0;
const HELD: u64 = 1;

/// The thread.
pub(super) struct Granting {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Granting {
    /// Starts it. `events` is the ring buffer in which programs report the first waiting way.
    pub(super) fn start(grant: &OwnedFd, events: &MapHandle) -> io::Result<Granting> {
        let (grant, events) = (
            grant.try_clone()?,
            MapHandle::try_from(events).map_err(io::Error::other)?,
        );
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let is_stopped = stop.try_clone()?;
        let (begun, has_begun) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("carrick-pace".into())
            .spawn(move || {
                // However the thread ends: waiting senders still probe, which is only slow.
                let _ = attend(grant.as_fd(), &events, is_stopped.as_fd(), &begun);
            })?;
        // If it fails to begin, the channel is closed.
        has_begun.recv().map_err(io::Error::other)?;
        Ok(Granting {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Granting {
    fn drop(&mut self) {
        // Adding to a fresh eventfd cannot fail.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sleeps until a way waits, and serves the queue until it is empty.
fn attend(
    grant: BorrowedFd<'_>,
    events: &MapHandle,
    stop: BorrowedFd<'_>,
    begun: &mpsc::Sender<()>,
) -> io::Result<()> {
    let mut ring = RingBufferBuilder::new();
    ring.add(events, |_| 0).map_err(io::Error::other)?;
    let ring = ring.build().map_err(io::Error::other)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (descriptor, name) in [(stop, STOP), (events.as_fd(), HELD)] {
        epoll::add(&epoll, descriptor, EventData::new_u64(name), EventFlags::IN)?;
    }
    let _ = begun.send(());
    loop {
        let mut happened = Vec::<Event>::with_capacity(2);
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut happened), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_told = |event: &Event| {
            // The record is packed: no references to its fields.
            let data = event.data;
            data.u64() == STOP
        };
        if happened.iter().any(is_told) {
            return Ok(());
        }
        ring.consume().map_err(io::Error::other)?;
        let mut pause = TICK;
        loop {
            let timeout = rustix::event::Timespec {
                tv_sec: pause.as_secs().try_into().unwrap_or(1),
                tv_nsec: pause.subsec_nanos().into(),
            };
            let mut stop = [rustix::event::PollFd::from_borrowed_fd(
                stop,
                rustix::event::PollFlags::IN,
            )];
            match rustix::event::poll(&mut stop, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            let begun = Instant::now();
            if visit(grant)? == 0 {
                break;
            }
            pause = begun.elapsed().clamp(TICK, PAUSE_MAX);
        }
    }
}

/// Serves all waiting ways once. Returns how many wait now.
fn visit(grant: BorrowedFd<'_>) -> io::Result<u32> {
    let mut waiting = grant_some(grant, GRANTS_AT_ONCE)?;
    for _ in 0..(waiting / GRANTS_AT_ONCE).min(CALLS_AT_ONCE) {
        waiting = grant_some(grant, GRANTS_AT_ONCE)?;
    }
    Ok(waiting)
}

/// Serves the first waiting ways. Returns how many wait now.
pub(super) fn grant_some(grant: BorrowedFd<'_>, most: u32) -> io::Result<u32> {
    let mut frame = [0; FRAME_BYTES];
    frame[..ETHERNET_HEADER.len()].copy_from_slice(&ETHERNET_HEADER);
    frame[ETHERNET_HEADER.len()..][..4].copy_from_slice(&most.to_ne_bytes());
    run(grant, &frame)
}
