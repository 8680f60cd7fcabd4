//! Putting tables into the kernel, one for each listener, and reading what it has counted.

use super::skeleton::types::{request_counts, request_table};
use super::{RequestTable, TABLES_MAX, UPSTREAMS_MAX, UpToProcess};
use crate::engine::tc::state::u64_at;
use crate::sys::mmap::Mmap;
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use std::collections::HashMap;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why a table is not in the kernel, or counts cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestsError {
    /// There is no such place.
    #[error("there is no place {0} for a table of routes: there are {TABLES_MAX}, counted from 0")]
    Place(u32),
    /// The kernel refuses it.
    #[error("{call} of the tables of routes: {cause}")]
    Kernel {
        /// The call.
        call: &'static str,
        /// What the kernel said, and what can be done.
        cause: String,
    },
}

impl RequestsError {
    fn kernel(call: &'static str, error: &libbpf_rs::Error) -> RequestsError {
        let cause = match error.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => {
                "the privilege CAP_BPF is missing (start as root, or grant it)".into()
            }
            _ => format!("{error:#}"),
        };
        RequestsError::Kernel { call, cause }
    }
}

/// The tables that the kernel classifies by, by the place of each. A connection remembers place and generation of the table under which it
/// was bound; once another table stands there, or none, its requests are up to the process.
#[derive(Debug)]
pub struct RequestTables {
    tables: MapHandle,
    /// `upstream_choices`
    choices: Mmap,
    pool: Mutex<TablePool>,
    /// Never 0, which is nobody's.
    last: AtomicU32,
}

/// Tables that exist: making one takes a privilege that a process may have given up, filling one does not.
#[derive(Debug, Default)]
struct TablePool {
    spare: Vec<MapHandle>,
    placed: HashMap<u32, MapHandle>,
}

impl TablePool {
    fn take(&mut self) -> Result<MapHandle, RequestsError> {
        match self.spare.pop() {
            Some(table) => Ok(table),
            None => make_table().map_err(|error| RequestsError::kernel("BPF_MAP_CREATE", &error)),
        }
    }

    /// The table of a place is another one, or none.
    fn put(&mut self, place: u32, table: Option<MapHandle>) {
        let before = match table {
            Some(table) => self.placed.insert(place, table),
            None => self.placed.remove(&place),
        };
        self.spare.extend(before);
    }
}

fn make_table() -> libbpf_rs::Result<MapHandle> {
    let options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as libbpf_rs::libbpf_sys::size_t,
        ..Default::default()
    };
    let bytes = size_of::<request_table>() as u32;
    MapHandle::create(
        MapType::Array,
        Some("carrick_routes"),
        4,
        bytes,
        1,
        &options,
    )
}

impl RequestTables {
    /// Of the maps `request_tables` and `upstream_choices`; so many tables are made at once, for when the process may make none any more.
    pub(crate) fn new(
        tables: MapHandle,
        choices: BorrowedFd<'_>,
        spare: usize,
    ) -> libbpf_rs::Result<RequestTables> {
        let pool = TablePool {
            spare: (0..spare).map(|_| make_table()).collect::<Result<_, _>>()?,
            placed: HashMap::new(),
        };
        Ok(RequestTables {
            tables,
            choices: Mmap::map(choices, UPSTREAMS_MAX as usize * size_of::<u32>())?,
            pool: Mutex::new(pool),
            last: AtomicU32::new(0),
        })
    }

    fn pool(&self) -> MutexGuard<'_, TablePool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the process choose a server for the next request of each client of this upstream, whose servers have changed. Without effect
    /// from [`UPSTREAMS_MAX`] on.
    pub fn choose_again(&self, upstream: u32) {
        if let Some(choices) = self.choices_of(upstream) {
            choices.fetch_add(1, Ordering::Release);
        }
    }

    /// How often that was so.
    pub(crate) fn choices(&self, upstream: u32) -> u32 {
        self.choices_of(upstream)
            .map_or(0, |choices| choices.load(Ordering::Acquire))
    }

    fn choices_of(&self, upstream: u32) -> Option<&AtomicU32> {
        let is_there = upstream < UPSTREAMS_MAX;
        is_there.then(|| self.choices.half_word(upstream as usize * size_of::<u32>()))
    }

    /// Puts a table into a place, from 0 to [`TABLES_MAX`] - 1, and tells its generation. When it returns, no request is classified by
    /// the table that was there before; that takes some milliseconds.
    ///
    /// # Errors
    /// There is no such place; the kernel refuses the table. The one that was there stays.
    pub fn install(&self, place: u32, table: &RequestTable) -> Result<u32, RequestsError> {
        if place >= TABLES_MAX {
            return Err(RequestsError::Place(place));
        }
        let generation = self.next_generation();
        let mut pool = self.pool();
        let map = pool.take()?;
        let descriptor = map.as_fd().as_raw_fd().to_ne_bytes();
        let first = 0_u32.to_ne_bytes();
        map.update(&first, &table.draft.bytes(generation), MapFlags::ANY)
            // When it returns, no program has the old one any more (`maybe_wait_bpf_programs` of the kernel).
            .and_then(|()| {
                self.tables
                    .update(&place.to_ne_bytes(), &descriptor, MapFlags::ANY)
            })
            .map_err(|error| RequestsError::kernel("BPF_MAP_UPDATE_ELEM", &error))?;
        pool.put(place, Some(map));
        Ok(generation)
    }

    /// Takes away the table of a place, if there is one: all requests are up to the process then.
    ///
    /// # Errors
    /// There is no such place; the kernel's.
    pub fn remove(&self, place: u32) -> Result<(), RequestsError> {
        if place >= TABLES_MAX {
            return Err(RequestsError::Place(place));
        }
        match self.tables.delete(&place.to_ne_bytes()) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(RequestsError::kernel("BPF_MAP_DELETE_ELEM", &error))
            }
            _ => {
                self.pool().put(place, None);
                Ok(())
            }
        }
    }

    fn next_generation(&self) -> u32 {
        match self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1) {
            0 => self.next_generation(),
            generation => generation,
        }
    }
}

/// What the kernel has counted since the programs were loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestCounts {
    /// Requests for which it found a route.
    pub classified: u64,
    /// Requests that it left to the process, by the reason, in the order of [`UpToProcess::ALL`].
    pub up: [u64; UpToProcess::ALL.len()],
    /// Requests that it told of.
    pub events: u64,
    /// Requests that it could not tell of, since nobody had read what it told before.
    pub events_lost: u64,
}

impl RequestCounts {
    /// Sums up a map `request_counters` over all CPUs.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn read(counters: &MapHandle) -> Result<RequestCounts, RequestsError> {
        let cpus = counters
            .lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| RequestsError::kernel("BPF_MAP_LOOKUP_ELEM", &error))?
            .unwrap_or_default();
        let mut sum = RequestCounts::default();
        for counts in &cpus {
            sum.classified += u64_at(counts, offset_of!(request_counts, classified));
            sum.events += u64_at(counts, offset_of!(request_counts, events));
            sum.events_lost += u64_at(counts, offset_of!(request_counts, events_lost));
            for (place, up) in sum.up.iter_mut().enumerate() {
                // The first reason has the number 1.
                *up += u64_at(counts, offset_of!(request_counts, up) + 8 * (place + 1));
            }
        }
        Ok(sum)
    }
}
