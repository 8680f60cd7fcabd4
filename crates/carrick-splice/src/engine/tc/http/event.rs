//! What the kernel tells of requests that it has forwarded (`struct request_event`).

use super::skeleton::types::request_event;
use crate::engine::tc::http::{METHODS, status_of};
use crate::sys::readable;
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::fmt;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// A request that the kernel has forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestEvent {
    /// When, by `CLOCK_MONOTONIC`.
    pub time: Duration,
    /// The name under which it is told of ([`ResponseSplice::tell_as`](crate::ResponseSplice::tell_as)).
    pub name: u64,
    /// The place of the splice whose connections it went by.
    pub place: u32,
    /// Bytes of responses that were forwarded before this one's. They are counted from some number on, which is the same for all events of
    /// a name and for [`ResponseWatch::told`](crate::ResponseWatch::told).
    pub sent_bytes: u64,
    /// Likewise, those up to the end of the response to the request of that name that was told of before, if there was one. Less than
    /// `sent_bytes` if the process has passed on a request in between, or if not all are told of.
    pub end_before: u64,
    /// The status of that response; `None` if it is not known.
    pub status_before: Option<u16>,
    /// The place of the table by which it was classified.
    pub table: u32,
    /// And its generation.
    pub generation: u32,
    /// The route that took it, by its place in the table.
    pub route: usize,
    /// Its method.
    pub method: &'static str,
    /// Bytes of the head.
    pub head_bytes: usize,
    /// Its target, path and query, or the first 128 bytes of it.
    pub target: Vec<u8>,
    /// Whether the target was longer.
    pub is_target_cut: bool,
    /// Its host without port; names of more than 63 bytes are not classified.
    pub host: Vec<u8>,
    /// It stands for so many requests, itself included.
    pub stands_for: u32,
}

impl RequestEvent {
    /// Reads an event; `None` if it is none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<RequestEvent> {
        let event = bytes.get(..size_of::<request_event>())?;
        macro_rules! field {
            ($field:ident, $kind:ty) => {{
                let at = offset_of!(request_event, $field);
                <$kind>::from_ne_bytes(*event.get(at..)?.first_chunk()?)
            }};
        }
        let (target_bytes, host_bytes) = (field!(path_bytes, u16), field!(host_bytes, u16));
        let (target, is_target_cut) = shown(
            event,
            offset_of!(request_event, path)..offset_of!(request_event, host),
            target_bytes,
        )?;
        let (host, _) = shown(
            event,
            offset_of!(request_event, host)..size_of::<request_event>(),
            host_bytes,
        )?;
        Some(RequestEvent {
            time: Duration::from_nanos(field!(time_ns, u64)),
            name: field!(told_as, u64),
            place: field!(place, u32),
            sent_bytes: field!(sent_bytes, u64),
            end_before: field!(told_end, u64),
            status_before: status_of(field!(told_status, u32)),
            table: field!(table, u32),
            generation: field!(generation, u32),
            route: usize::from(field!(route, u8)),
            method: METHODS.get(usize::from(field!(method, u8)))?,
            head_bytes: usize::from(field!(head_bytes, u16)),
            target,
            is_target_cut,
            host,
            stands_for: field!(sample_every, u32),
        })
    }
}

/// What there is of a text in its room, and whether that is not all.
fn shown(event: &[u8], room: std::ops::Range<usize>, bytes: u16) -> Option<(Vec<u8>, bool)> {
    let room = event.get(room)?;
    let bytes = usize::from(bytes);
    let text = room.get(..bytes.min(room.len()))?;
    Some((text.to_vec(), bytes > room.len()))
}

/// Reads events. It belongs to one thread.
pub struct Events {
    ring: RingBuffer<'static>,
    map: OwnedFd,
    read: Rc<RefCell<Vec<RequestEvent>>>,
}

impl fmt::Debug for Events {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Events")
    }
}

impl Events {
    /// Of a map `request_events`.
    pub(crate) fn new(events: &MapHandle) -> libbpf_rs::Result<Events> {
        let read = Rc::new(RefCell::new(Vec::new()));
        let mut builder = RingBufferBuilder::new();
        builder.add(events, {
            let read = Rc::clone(&read);
            move |bytes| {
                read.borrow_mut().extend(RequestEvent::decode(bytes));
                0
            }
        })?;
        Ok(Events {
            ring: builder.build()?,
            map: events.as_fd().try_clone_to_owned()?,
            read,
        })
    }

    /// What has been told since the last time, in order; does not wait. To be called at each notification of
    /// [`Events::notifications`], or the ring fills up.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&mut self) -> std::io::Result<Vec<RequestEvent>> {
        self.ring.consume().map_err(std::io::Error::other)?;
        Ok(std::mem::take(&mut self.read.borrow_mut()))
    }

    /// Readable when the ring is half full, and again at each further eighth.
    ///
    /// # Errors
    /// The runtime's, or the kernel's.
    pub fn notifications(&self) -> std::io::Result<AsyncFd<OwnedFd>> {
        readable(self.map.try_clone()?)
    }
}
