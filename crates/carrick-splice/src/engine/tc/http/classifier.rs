//! The classifier by itself: what the kernel would say of a request. For tests, measurements, and those who want to know.

use super::skeleton::types::classify_answer;
use super::{Events, RequestCounts, RequestTables, RequestsError, UpToProcess, skeleton};
use crate::Unavailable;
use crate::engine::tc::command;
use crate::engine::tc::command::ETHERNET_HEADER;
use libbpf_rs::MapHandle;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};

/// `enum classify_wants`.
const ANSWER: u32 = 1;
const TELL: u32 = 2;

/// Room for events, in bytes; a power of two.
const EVENTS_BYTES: u32 = 64 << 10;

/// What the kernel says of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// This route takes it, and it may be forwarded unseen.
    Route {
        /// Its place in the table.
        route: usize,
        /// Whose servers it leads to.
        upstream: u32,
        /// Bytes of the path, without the query.
        path_bytes: u32,
        /// Bytes of the host, without the port.
        host_bytes: u32,
    },
    /// It is up to the process.
    Up(UpToProcess),
}

/// The classifier, loaded by itself, with tables of its own.
#[derive(Debug)]
pub struct Classifier {
    program: OwnedFd,
    tables: RequestTables,
    counters: MapHandle,
    events: MapHandle,
}

impl Classifier {
    /// Loads it. Blocks for some milliseconds.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub fn load() -> Result<Classifier, Unavailable> {
        Unavailable::unless_loaded(Classifier::open_and_load)
    }

    fn open_and_load() -> libbpf_rs::Result<Classifier> {
        let mut object = MaybeUninit::uninit();
        let mut open = skeleton::HttpSkelBuilder::default().open(&mut object)?;
        open.maps.request_events.set_max_entries(EVENTS_BYTES)?;
        let loaded = open.load()?;
        let program = loaded.progs.carrick_classify.as_fd().try_clone_to_owned();
        Ok(Classifier {
            program: program.map_err(libbpf_rs::Error::from)?,
            tables: RequestTables::new(
                MapHandle::try_from(&loaded.maps.request_tables)?,
                loaded.maps.upstream_choices.as_fd(),
                0,
            )?,
            counters: MapHandle::try_from(&loaded.maps.request_counters)?,
            events: MapHandle::try_from(&loaded.maps.request_events)?,
        })
    }

    /// Its tables.
    #[must_use]
    pub fn tables(&self) -> &RequestTables {
        &self.tables
    }

    /// What it has counted.
    ///
    /// # Errors
    /// The kernel's.
    pub fn counts(&self) -> Result<RequestCounts, RequestsError> {
        RequestCounts::read(&self.counters)
    }

    /// What it tells of.
    ///
    /// # Errors
    /// The kernel's.
    pub fn events(&self) -> io::Result<Events> {
        Events::new(&self.events).map_err(io::Error::other)
    }

    /// What it says of these bytes, which come in one packet, by the table in this place, if it is still of this generation. At most some 3 KB.
    ///
    /// # Errors
    /// The kernel cannot run it, as with too many bytes.
    pub fn classify(&self, place: u32, generation: u32, bytes: &[u8]) -> io::Result<Verdict> {
        self.run([place, generation, ANSWER, 0], bytes)
    }

    /// The same, and if it is forwarded, it is told as one of the splice in this place.
    ///
    /// # Errors
    /// As of [`Classifier::classify`].
    pub fn classify_and_tell(
        &self,
        place: u32,
        generation: u32,
        bytes: &[u8],
        splice: u32,
    ) -> io::Result<Verdict> {
        self.run([place, generation, ANSWER | TELL, splice], bytes)
    }

    /// How long it takes to classify these bytes, in nanoseconds: the mean of so many times in a row, with what it takes to call it.
    ///
    /// # Errors
    /// As of [`Classifier::classify`].
    pub fn cost_ns(
        &self,
        place: u32,
        generation: u32,
        bytes: &[u8],
        times: u32,
    ) -> io::Result<u32> {
        let packet = packet([place, generation, 0, 0], bytes);
        // No answer is wanted: it would take the place of the next one's order.
        command::measure(self.program.as_fd(), &packet, times)
    }

    fn run(&self, order: [u32; 4], bytes: &[u8]) -> io::Result<Verdict> {
        let ran = command::run_on(self.program.as_fd(), &packet(order, bytes), &[], 0)?;
        let verdict = i32::from_ne_bytes(ran.verdict.to_ne_bytes());
        let answer = |at: usize| {
            let number = ran.packet.get(ETHERNET_HEADER.len() + at..)?;
            number.first_chunk().copied().map(u32::from_ne_bytes)
        };
        let is_unknown =
            || io::Error::other(format!("the classifier's answer {verdict} is not known"));
        match usize::try_from(verdict) {
            Ok(route) => Ok(Verdict::Route {
                route,
                upstream: answer(offset_of!(classify_answer, upstream)).ok_or_else(is_unknown)?,
                path_bytes: answer(offset_of!(classify_answer, path_bytes))
                    .ok_or_else(is_unknown)?,
                host_bytes: answer(offset_of!(classify_answer, host_bytes))
                    .ok_or_else(is_unknown)?,
            }),
            Err(_) => UpToProcess::of(verdict.unsigned_abs())
                .map(Verdict::Up)
                .ok_or_else(is_unknown),
        }
    }
}

/// A `struct classify_order` and the request behind it.
fn packet(order: [u32; 4], bytes: &[u8]) -> Vec<u8> {
    let mut packet = ETHERNET_HEADER.to_vec();
    for number in order {
        packet.extend_from_slice(&number.to_ne_bytes());
    }
    packet.extend_from_slice(bytes);
    packet
}
