//! Measures the packet engine: the memory of its maps, the time of its programs, and dummy splices that fill
//! it.

use super::PacketService;
use libbpf_rs::MapHandle;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Addresses of dummy connections: 198.18.0.0/15 is for measurements (RFC 2544, appendix C.2.2).
const NOBODY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const NOBODYS_SERVERS: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);

/// Connections that differ only in their ports.
const PORTS: u32 = 50_000;
const PORT_FIRST: u16 = 10_000;

/// The memory of one map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapMemory {
    /// Its name, as the kernel has it.
    pub name: String,
    /// Its kernel memory (`memlock` of proc_pid_fdinfo(5)).
    pub bytes: u64,
}

/// A program's runs since it was loaded, counted while a [`Counting`] exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRuns {
    /// Its name.
    pub name: String,
    /// How often.
    pub runs: u64,
    /// Total time, interrupts included.
    pub time: Duration,
}

/// While this lives, the kernel counts runs and times of all BPF programs, which costs some 20 ns per run.
#[derive(Debug)]
pub struct Counting(#[expect(dead_code, reason = "it is held")] OwnedFd);

impl Counting {
    /// Begins to count. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The kernel's, of `BPF_ENABLE_STATS`.
    #[expect(unsafe_code, reason = "libbpf-rs does not have it")]
    pub fn start() -> io::Result<Counting> {
        // SAFETY: it takes no pointers.
        let descriptor = unsafe {
            libbpf_rs::libbpf_sys::bpf_enable_stats(libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME)
        };
        if descriptor < 0 {
            let error = io::Error::from_raw_os_error(-descriptor);
            return Err(io::Error::new(
                error.kind(),
                format!("BPF_ENABLE_STATS: {error}"),
            ));
        }
        // SAFETY: it is a new descriptor, which is nobody's yet.
        Ok(Counting(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }
}

/// Dummy splices. They hold their slots until this is dropped.
#[derive(Debug)]
pub struct DummySplices {
    service: PacketService,
    slots: Vec<u32>,
}

impl PacketService {
    /// The memory of the maps that its programs have; empty if it is not loaded. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn map_memory(&self) -> io::Result<Vec<MapMemory>> {
        let maps: BTreeSet<u32> = self
            .programs()?
            .into_iter()
            .flat_map(|program| program.map_ids)
            .collect();
        maps.into_iter().map(memory_of).collect()
    }

    /// The runs of its programs, in load order; empty if it is not loaded. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn program_runs(&self) -> io::Result<Vec<ProgramRuns>> {
        let programs = self.programs()?.into_iter();
        Ok(programs
            .map(|program| ProgramRuns {
                name: program.name.to_string_lossy().into_owned(),
                runs: program.run_cnt,
                time: Duration::from_nanos(program.run_time_ns),
            })
            .collect())
    }

    /// The number of tunnels in the kernel. Takes some system calls for each connection it knows.
    #[must_use]
    pub fn spliced(&self) -> usize {
        self.engine().map_or(0, |engine| engine.table.spliced())
    }

    /// An engine that also accepts connections that do not exist, for [`dummy_splices`](PacketService::dummy_splices). Not
    /// for real traffic.
    #[must_use]
    pub fn for_measuring() -> PacketService {
        PacketService {
            connections: super::Connections::Nobodys,
            ..PacketService::default()
        }
    }

    /// Takes this many slots for connections that do not exist: two flows each. Needs an engine made
    /// [`for_measuring`](PacketService::for_measuring).
    ///
    /// There are not enough slots, the engine is not loaded, or the kernel refuses.
    pub fn dummy_splices(&self, splices: u32) -> io::Result<DummySplices> {
        let engine = self
            .engine()
            .ok_or_else(|| io::Error::other("the packet engine is not loaded"))?;
        let mut dummies = DummySplices {
            service: self.clone(),
            slots: Vec::new(),
        };
        for number in 0..splices {
            let slot = engine.table.take_slot().ok_or_else(|| {
                io::Error::other(format!("there are only slots for {number} more splices"))
            })?;
            dummies.slots.push(slot);
            engine.table.fill(slot, nobodys(number))?;
        }
        Ok(dummies)
    }

    /// Its programs: all in the kernel that use its map of flows.
    fn programs(&self) -> io::Result<Vec<ProgramInfo>> {
        let Some(engine) = self.engine() else {
            return Ok(Vec::new());
        };
        let flows = engine.table.flows_id()?;
        let options = ProgInfoQueryOptions::default().include_map_ids(true);
        let programs = ProgInfoIter::with_query_opts(options);
        Ok(programs
            .filter(|program| program.map_ids.contains(&flows))
            .collect())
    }
}

impl Drop for DummySplices {
    fn drop(&mut self) {
        // A loaded engine stays loaded.
        let Some(engine) = self.service.engine() else {
            return;
        };
        for slot in &self.slots {
            engine.table.give_slot_back(*slot);
        }
    }
}

/// Both connections of a dummy splice: this side, the peer's.
fn nobodys(number: u32) -> [(SocketAddr, SocketAddr); 2] {
    let host = |network: Ipv4Addr, host: u32| Ipv4Addr::from(u32::from(network) + host);
    let port = PORT_FIRST + u16::try_from(number % PORTS).unwrap_or_default();
    let far = 2 + number / PORTS;
    [
        (
            (host(NOBODY, 1), 80).into(),
            (host(NOBODY, far), port).into(),
        ),
        (
            (host(NOBODYS_SERVERS, 1), port).into(),
            (host(NOBODYS_SERVERS, far), 80).into(),
        ),
    ]
}

fn memory_of(id: u32) -> io::Result<MapMemory> {
    let map = MapHandle::from_map_id(id).map_err(io::Error::other)?;
    let about = format!("/proc/self/fdinfo/{}", map.as_fd().as_raw_fd());
    let text = std::fs::read_to_string(&about)?;
    let bytes = text
        .lines()
        .find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok());
    Ok(MapMemory {
        name: libbpf_rs::MapCore::name(&map)
            .to_string_lossy()
            .into_owned(),
        bytes: bytes.ok_or_else(|| io::Error::other(format!("{about} has no `memlock`")))?,
    })
}
