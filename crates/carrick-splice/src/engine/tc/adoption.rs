//! Adoption: another process attends to splices that have outlived theirs: counts them, times them out, and
//! removes them at their end.
//!
//! The programs go on forwarding by themselves. This does what the dead process would have done, except what
//! needs its sockets: nothing can be returned to a process.

use super::generation::{Base, Generation, LOCK_WAIT, Name, attend};
use super::hooks::pins::OwnersRights;
use super::hooks::{HookError, clsact};
use super::state::{self, Addresses, Holder};
use super::table::SpliceTable;
use super::{PacketEngine, PacketService};
use crate::Unavailable;
use crate::sys::clock::now_ns;
use rustix::process::{Resource, getrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// Splices of each generation checked per call.
const LOOKED_AT_ONCE: usize = 8192;

/// The most ports that are reserved; and at most this fraction of the process's descriptors.
const PORTS_MAX: usize = 4096;
const DESCRIPTORS_PART: u64 = 8;

/// A splice that has outlived its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adopted {
    /// The peer of leg `a`, and the address that it has connected to.
    pub a: SocketAddr,
    /// This machine's address towards `a`.
    pub a_own: SocketAddr,
    /// The peer of leg `b`.
    pub b: SocketAddr,
    /// This machine's address towards `b`.
    pub b_own: SocketAddr,
    /// Bytes acknowledged from `a` to `b` and from `b` to `a`, since it was spliced.
    pub bytes: [u64; 2],
    /// Time since a packet was last forwarded.
    pub quiet: Duration,
}

/// Counts of adopted splices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdoptedTotals {
    /// All of them.
    pub adopted: u64,
    /// Both connections have ended.
    pub closed: u64,
    /// A peer has reset its connection, or begun another one with the same addresses.
    pub reset: u64,
    /// Timed out.
    pub idle: u64,
    /// Bytes from `a` to `b` and from `b` to `a`.
    pub bytes: [u64; 2],
}

/// The content of one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    /// The folder.
    pub folder: PathBuf,
    /// Whether a running process owns it, or attends to it.
    pub is_in_use: bool,
    /// Hooks of network interfaces.
    pub hooks: usize,
    /// Tunnels that need no process; or why they cannot be counted.
    pub tunnels: Result<usize, String>,
}

/// The result of [`PacketService::clean`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// What was removed.
    pub removed: Vec<String>,
    /// What a process that runs has, or looks after.
    pub in_use: Vec<String>,
    /// What could not be removed, and why.
    pub failed: Vec<String>,
}

/// What this process attends to.
#[derive(Default)]
pub(super) struct Adoption {
    folder: Option<PathBuf>,
    base: Option<Base>,
    /// Generations of processes that ran at the last check. Kept open, so that adopting them takes no
    /// privileges.
    others: Vec<Orphan>,
    orphans: Vec<Orphan>,
    /// Folders that are named like a generation but are none; and why.
    foreign: Vec<(PathBuf, String)>,
    totals: AdoptedTotals,
}

/// A generation whose process is dead, or may be.
struct Orphan {
    generation: Generation,
    /// Or why its maps cannot be read.
    table: Result<SpliceTable, String>,
    live: VecDeque<Live>,
}

/// A splice that has outlived its process.
struct Live {
    slot: u32,
    counted: [u64; 2],
    /// When the last bytes were acknowledged, as far as known.
    moved_ns: u64,
    /// Reserves this machine's port, which new connections cannot use.
    port: Port,
}

enum Port {
    Wanted,
    #[expect(dead_code, reason = "it is kept by being open")]
    Kept(Socket),
    /// The address is not this machine's (transparent mode).
    Unkept,
}

/// What became of a splice.
enum Fate {
    Lives,
    Closed,
    Reset,
    Idle,
}

impl PacketService {
    /// Looks for splices below `folder` that have outlived their process, of the same network namespace, and
    /// attends to them from now on, as [`tend`](PacketService::tend) does repeatedly, with this `idle`. Must be called with
    /// privileges, before the engine is loaded; it need not be loaded at all. A folder that does not exist
    /// has none.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn adopt(&self, folder: &Path, idle: Duration) -> Result<(), Unavailable> {
        let mut adoption = self.adoption();
        adoption.folder = Some(folder.to_owned());
        let engine = self.engine().map(|engine| &**engine);
        adoption
            .look(engine, LOCK_WAIT)
            .map_err(|error| Unavailable::new(error.to_string()))?;
        // Removes what ended while only unprivileged processes could attend to it.
        adoption.tend(idle);
        if let Some(base) = &adoption.base {
            let _lock = base
                .lock()
                .map_err(|error| Unavailable::new(error.to_string()))?;
            let _ = base.remove_strays();
        }
        Ok(())
    }

    /// Attends to splices that have outlived their process, and tells the kernel so: call it every few
    /// seconds. Ends those in which no byte has moved for `idle`. May take some milliseconds.
    pub fn tend(&self, idle: Duration) {
        let engine = self.engine().map(|engine| &**engine);
        if let Some(engine) = engine.filter(|engine| engine.is_pinned()) {
            attend(&engine.pulse);
        }
        let mut adoption = self.adoption();
        // What cannot be read now may be the next time.
        let _ = adoption.look(engine, Duration::ZERO);
        adoption.tend(idle);
    }

    /// The splices that it attends to.
    #[must_use]
    pub fn adopted(&self) -> Vec<Adopted> {
        let adoption = self.adoption();
        let now = now_ns();
        let tables = adoption
            .orphans
            .iter()
            .filter_map(|orphan| Some((orphan.table.as_ref().ok()?, &orphan.live)));
        tables
            .flat_map(|(table, live)| {
                live.iter()
                    .filter_map(move |one| Some(seen(&table.read(one.slot)?, now)))
            })
            .collect()
    }

    /// Counts of what became of them.
    #[must_use]
    pub fn adopted_totals(&self) -> AdoptedTotals {
        self.adoption().totals
    }

    /// What it does not attend to: tunnels of other versions, and folders with a name of carrick's that are
    /// not its own.
    #[must_use]
    pub fn not_adopted(&self) -> Vec<String> {
        let adoption = self.adoption();
        let illegible = adoption.orphans.iter().filter_map(|orphan| {
            let why = orphan.table.as_ref().err()?;
            let folder = orphan.generation.folder().display();
            Some(format!("{folder}: {why}"))
        });
        let foreign = adoption.foreign.iter().map(|(_, why)| why.clone());
        illegible.chain(foreign).collect()
    }

    /// What is pinned below `folder` for this network namespace; empty if there is no such folder.
    ///
    /// It cannot be read.
    pub fn pinned(folder: &Path) -> Result<Vec<Pinned>, Unavailable> {
        let explain = |error: HookError| Unavailable::new(error.to_string());
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let _rights = OwnersRights::of(folder).map_err(explain)?;
        let base = Base::look(folder).map_err(explain)?;
        let _lock = base.lock().map_err(explain)?;
        let generations = base.generations().map_err(explain)?;
        let pinned = generations.into_iter().map(|(name, path)| {
            let opened = Generation::open(&path).and_then(|mut generation| {
                let is_in_use = !generation.lock()?;
                Ok((Orphan::new(&name, generation), is_in_use))
            });
            match opened {
                Ok((orphan, is_in_use)) => Pinned {
                    folder: path,
                    is_in_use,
                    hooks: orphan.generation.hooks(),
                    tunnels: orphan.table.map(|table| table.spliced()),
                },
                Err(error) => Pinned {
                    folder: path,
                    is_in_use: false,
                    hooks: 0,
                    tunnels: Err(error.to_string()),
                },
            }
        });
        Ok(pinned.collect())
    }

    /// Removes what dead processes have left in this network namespace: what is pinned below `folder`,
    /// including tunnels that still forward, and tc filters. Keeps what a running process owns or attends to.
    ///
    /// It cannot be read: privileges are missing.
    pub fn clean(folder: &Path) -> Result<Cleaned, Unavailable> {
        let explain = |error: HookError| Unavailable::new(error.to_string());
        let mut cleaned = Cleaned::default();
        if folder.exists() {
            let _rights = OwnersRights::of(folder).map_err(explain)?;
            let base = Base::look(folder).map_err(explain)?;
            let _lock = base.lock().map_err(explain)?;
            let strays = base.remove_strays().map_err(explain)?;
            cleaned.removed.extend(
                strays
                    .iter()
                    .map(|path| format!("{}: of a network namespace that is gone", path.display())),
            );
            for (name, path) in base.generations().map_err(explain)? {
                let file = path.display();
                let outcome = Generation::open(&path).and_then(|mut generation| {
                    if !generation.lock()? {
                        cleaned.in_use.push(file.to_string());
                        return Ok(());
                    }
                    let hooks = generation.hooks();
                    let mut orphan = Orphan::new(&name, generation);
                    let tunnels = match &orphan.table {
                        Ok(table) => table.spliced().to_string(),
                        Err(_) => "an unknown number of".to_owned(),
                    };
                    orphan.generation.remove()?;
                    cleaned.removed.push(format!(
                        "{file}: {tunnels} spliced tunnels, {hooks} programs at network interfaces"
                    ));
                    Ok(())
                });
                if let Err(error) = outcome {
                    cleaned.failed.push(error.to_string());
                }
            }
        }
        match clsact::clean() {
            Ok(filters) => cleaned.removed.extend(filters),
            Err(error) => cleaned.failed.push(error.to_string()),
        }
        Ok(cleaned)
    }

    /// Removes generations without splices, even if their peers may still retransmit. Returns the number of
    /// splices in the others.
    pub(super) fn leave_adopted(&self) -> usize {
        let mut adoption = self.adoption();
        let adoption = &mut *adoption;
        let lock = adoption
            .base
            .as_ref()
            .and_then(|base| base.lock_within(Duration::ZERO).ok());
        for orphan in &mut adoption.orphans {
            if lock.is_some() && orphan.table.is_ok() && orphan.live.is_empty() {
                // What needs privileges is left to the next process that has them.
                let _ = orphan.generation.remove();
            }
        }
        adoption
            .orphans
            .iter()
            .map(|orphan| orphan.live.len())
            .sum()
    }

    fn adoption(&self) -> MutexGuard<'_, Adoption> {
        self.adoption.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Adoption {
    /// Lists the generations, and adopts those whose processes are dead.
    fn look(&mut self, engine: Option<&PacketEngine>, wait: Duration) -> Result<(), HookError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        if self.base.is_none() {
            if !folder.exists() {
                return Ok(());
            }
            self.base = Some(Base::look(folder)?);
        }
        let Some(base) = &self.base else {
            return Ok(());
        };
        let _lock = base.lock_within(wait)?;
        // Without privileges, those opened before are still adopted.
        let generations = base.generations().unwrap_or_default();
        let own = engine.and_then(PacketEngine::folder);
        for (name, path) in generations {
            let known = self.others.iter().chain(&self.orphans);
            let mut known = known.map(|orphan| orphan.generation.folder());
            let is_known = own == Some(&*path)
                || known.any(|folder| folder == path)
                || self.foreign.iter().any(|(folder, _)| *folder == path);
            if is_known {
                continue;
            }
            match Generation::open(&path) {
                Ok(generation) => self.others.push(Orphan::new(&name, generation)),
                Err(error) if error.is_permission() => {}
                Err(error) => self.foreign.push((path, error.to_string())),
            }
        }
        let others = std::mem::take(&mut self.others);
        for mut orphan in others {
            match orphan.generation.lock() {
                Ok(true) => self.totals.adopted += orphan.take_over(),
                Ok(false) | Err(_) => {
                    self.others.push(orphan);
                    continue;
                }
            }
            self.orphans.push(orphan);
        }
        Ok(())
    }

    fn tend(&mut self, idle: Duration) {
        let kept = self.orphans.iter().flat_map(|orphan| &orphan.live);
        let kept = kept.filter(|one| matches!(one.port, Port::Kept(_))).count();
        let mut ports = ports_max().saturating_sub(kept);
        for orphan in &mut self.orphans {
            orphan.tend(idle, &mut self.totals, &mut ports);
        }
        let Some(base) = &self.base else {
            return;
        };
        if self.orphans.iter().all(|orphan| !orphan.is_over(idle)) {
            return;
        }
        let Ok(_lock) = base.lock_within(Duration::ZERO) else {
            return;
        };
        self.orphans.retain_mut(|orphan| {
            let is_over = orphan.is_over(idle);
            if is_over {
                // The programs are gone in any case. A later process with privileges removes the names.
                let _ = orphan.generation.remove();
            }
            !is_over
        });
    }
}

impl Orphan {
    fn new(name: &Name, generation: Generation) -> Orphan {
        let table = if name.is_legible() {
            generation.table()
        } else {
            Err("tunnels of another version of carrick, which go on until they end".to_owned())
        };
        Orphan {
            generation,
            table,
            live: VecDeque::new(),
        }
    }

    /// Begins to attend to what is there; returns the number of splices.
    fn take_over(&mut self) -> u64 {
        let Ok(table) = &self.table else {
            return 0;
        };
        self.live = table
            .take_over()
            .into_iter()
            .map(|slot| {
                let splice = table.read(slot).unwrap_or_default();
                Live {
                    slot,
                    counted: state::read(&splice).bytes,
                    moved_ns: state::seen_ns(&splice),
                    port: Port::Wanted,
                }
            })
            .collect();
        self.live.len() as u64
    }

    fn tend(&mut self, idle: Duration, totals: &mut AdoptedTotals, ports: &mut usize) {
        let Ok(table) = &self.table else {
            return;
        };
        self.generation.attend();
        let now = now_ns();
        for _ in 0..self.live.len().min(LOOKED_AT_ONCE) {
            let Some(mut one) = self.live.pop_front() else {
                break;
            };
            let splice = table.read(one.slot).unwrap_or_default();
            match one.look(table, &splice, (now, idle), totals) {
                Fate::Lives => {
                    one.keep_port(&splice, ports);
                    self.live.push_back(one);
                }
                Fate::Closed => {
                    totals.closed += 1;
                    table.leave_slot(one.slot);
                }
                Fate::Reset => {
                    totals.reset += 1;
                    table.leave_slot(one.slot);
                }
                Fate::Idle => {
                    totals.idle += 1;
                    // The next packet of each peer is answered with a reset: no socket has the connection.
                    table.give_slot_back(one.slot);
                }
            }
        }
        while table.reap(Duration::ZERO) {}
    }

    /// Whether nothing is left in use.
    fn is_over(&self, idle: Duration) -> bool {
        match &self.table {
            Ok(table) => self.live.is_empty() && table.has_none_over(),
            Err(_) => {
                !self.generation.is_begun()
                    || self.generation.has_no_hook()
                    || self
                        .generation
                        .silence()
                        .is_some_and(|silence| silence > idle)
            }
        }
    }
}

impl Live {
    /// Counts what has moved; returns whether the splice goes on.
    fn look(
        &mut self,
        table: &SpliceTable,
        splice: &[u8],
        (now, idle): (u64, Duration),
        totals: &mut AdoptedTotals,
    ) -> Fate {
        let state = state::read(splice);
        let before = std::mem::replace(&mut self.counted, state.bytes);
        for (total, (now, before)) in totals.bytes.iter_mut().zip(state.bytes.iter().zip(before)) {
            *total += now.saturating_sub(before);
        }
        if before != state.bytes {
            self.moved_ns = state::seen_ns(splice);
        }
        match state.holder {
            Holder::Ended => Fate::Closed,
            Holder::Reset { .. } => Fate::Reset,
            _ if !state::is_spliced(splice) || !table.is_known(self.slot) => Fate::Reset,
            _ if Duration::from_nanos(now.saturating_sub(self.moved_ns)) > idle => Fate::Idle,
            _ => Fate::Lives,
        }
    }

    /// Reserves this machine's port of leg `b`, which the kernel regards as free.
    fn keep_port(&mut self, splice: &[u8], ports: &mut usize) {
        if *ports == 0 || !matches!(self.port, Port::Wanted) {
            return;
        }
        let [_, (own, _)] = state::addresses(splice);
        self.port = match keep_port(own) {
            Ok(socket) => {
                *ports -= 1;
                Port::Kept(socket)
            }
            // The dead process's socket still exists.
            Err(error) if error.kind() == ErrorKind::AddrInUse => Port::Wanted,
            Err(_) => Port::Unkept,
        };
    }
}

fn keep_port(own: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(own), Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&own.into())?;
    Ok(socket)
}

fn ports_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors / DESCRIPTORS_PART).map_or(PORTS_MAX, |part| part.min(PORTS_MAX))
}

fn seen(splice: &[u8], now: u64) -> Adopted {
    let [(a_own, a), (b_own, b)]: [Addresses; 2] = state::addresses(splice);
    Adopted {
        a,
        a_own,
        b,
        b_own,
        bytes: state::read(splice).bytes,
        quiet: Duration::from_nanos(now.saturating_sub(state::seen_ns(splice))),
    }
}
