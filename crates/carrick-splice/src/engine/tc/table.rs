//! The maps of the packet engine, and the assignment of their slots.

use super::command::{Answer, Command, ask};
use super::state;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After its end, a splice stays for so long: for what the peers send again (twice the maximum segment lifetime, as Linux has it).
const LINGER: Duration = Duration::from_secs(60);

/// So many slots whose splices are over are looked at at once.
const REAPED_AT_ONCE: usize = 64;

/// The maps.
pub(super) struct Table {
    flows: MapHandle,
    splices: MapHandle,
    command: OwnedFd,
    /// `None`: of another process, where nothing new begins.
    placing: Option<Placing>,
    places_max: u32,
    slots: Mutex<Slots>,
}

/// By which connections get a slot: only those of sockets that this process has.
pub(super) struct Placing {
    pub(super) program: OwnedFd,
    /// The sockets that it has shown.
    pub(super) owned: MapHandle,
}

struct Slots {
    free: VecDeque<u32>,
    /// Those whose splice is over, and when to look whether its connections are.
    over: VecDeque<(Instant, u32)>,
}

/// How many slots there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Of splices that may have packets to forward.
    pub open: u32,
    /// Of splices that are over, for what the peers may send again, or whose connections go on by themselves.
    pub over: u32,
    /// There are no more than these.
    pub max: u32,
}

impl Table {
    pub(super) fn new(
        flows: MapHandle,
        splices: MapHandle,
        command: OwnedFd,
        placing: Option<Placing>,
        places_max: u32,
    ) -> Table {
        Table {
            flows,
            splices,
            command,
            placing,
            places_max,
            slots: Mutex::new(Slots {
                free: (0..places_max).collect(),
                over: VecDeque::new(),
            }),
        }
    }

    /// The maps of another process, which may be gone.
    pub(super) fn of_others(
        flows: MapHandle,
        splices: MapHandle,
        command: OwnedFd,
        places_max: u32,
    ) -> Table {
        let table = Table::new(flows, splices, command, None, places_max);
        table.slots().free.clear();
        table
    }

    /// Takes over from a process that is gone: the slots of splices that need no local socket. What needs one is over as soon as it
    /// has none.
    pub(super) fn take_over(&self) -> Vec<u32> {
        let (mut spliced, now) = (Vec::new(), Instant::now());
        for slot in self.known_slots() {
            let splice = self.read(slot).unwrap_or_default();
            if state::is_spliced(&splice) {
                spliced.push(slot);
            } else {
                self.slots().over.push_back((now, slot));
            }
        }
        spliced
    }

    /// The slots that have connections.
    fn known_slots(&self) -> BTreeSet<u32> {
        let numbers = self.flows.keys().filter_map(|key| self.number(&key));
        numbers.map(|number| number / 2).collect()
    }

    /// The kernel's number of the map `flows`, which all of the programs have.
    pub(super) fn flows_id(&self) -> io::Result<u32> {
        let info = self.flows.info().map_err(io::Error::other)?;
        Ok(info.info.id)
    }

    /// How many splices there are that need no local socket.
    pub(super) fn spliced(&self) -> usize {
        let slots = self.known_slots().into_iter();
        slots
            .filter_map(|slot| self.read(slot))
            .filter(|splice| state::is_spliced(splice))
            .count()
    }

    /// Whether all splices that were over have been forgotten.
    pub(super) fn has_none_over(&self) -> bool {
        self.slots().over.is_empty()
    }

    /// Of how many splices that are over a peer has not acknowledged all that the local socket has sent, its end included.
    pub(super) fn unacknowledged(&self) -> usize {
        let slots: Vec<_> = self.slots().over.iter().map(|(_, slot)| *slot).collect();
        let is_busy = |slot: &u32| matches!(self.ask(*slot, Command::Look), Ok(Answer::Busy));
        slots.into_iter().filter(is_busy).count()
    }

    /// Whether the packets of a splice are looked at any more.
    pub(super) fn is_known(&self, slot: u32) -> bool {
        self.keys(slot).next().is_some()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn taken(&self) -> Taken {
        let slots = self.slots();
        let over = u32::try_from(slots.over.len()).unwrap_or(u32::MAX);
        let free = u32::try_from(slots.free.len()).unwrap_or(u32::MAX);
        Taken {
            open: self.places_max - free - over,
            over,
            max: self.places_max,
        }
    }

    /// A slot for two connections; `None` if there is none.
    pub(super) fn take_slot(&self) -> Option<u32> {
        let slot = self.slots().free.pop_front();
        slot.or_else(|| {
            let _ = self.reap(LINGER);
            self.slots().free.pop_front()
        })
    }

    /// Shows the kernel a socket, without which its connection gets no slot.
    pub(super) fn show(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let Some(placing) = &self.placing else {
            return Ok(());
        };
        let descriptor = socket.as_raw_fd().to_ne_bytes();
        placing
            .owned
            .update(&descriptor, &1_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// Gives a slot to both connections, whose sockets were shown. A connection that has come back from an earlier splice keeps its
    /// offsets: whether there is one.
    pub(super) fn fill(&self, slot: u32, legs: [state::Addresses; 2]) -> io::Result<bool> {
        let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        let Some(placing) = &self.placing else {
            return refused("nothing new begins in the maps of another process".to_owned());
        };
        match super::command::fill_slot(placing.program.as_fd(), slot, legs)? {
            Answer::Done => Ok(false),
            Answer::Continued => Ok(true),
            other => refused(format!("no slot for the two connections: {other:?}")),
        }
    }

    /// Twice the slot of a connection, and its side.
    fn number(&self, key: &[u8]) -> Option<u32> {
        let number = self.flows.lookup(key, MapFlags::ANY).ok().flatten()?;
        Some(u32::from_ne_bytes(*number.first_chunk()?))
    }

    /// What stands at a slot.
    pub(super) fn read(&self, slot: u32) -> Option<Vec<u8>> {
        let splice = self.splices.lookup(&slot.to_ne_bytes(), MapFlags::LOCK);
        splice.ok().flatten()
    }

    pub(super) fn ask(&self, slot: u32, command: Command) -> io::Result<Answer> {
        ask(self.command.as_fd(), slot, command)
    }

    /// The splice at `slot` is over. The slot is free again once nobody can miss it.
    pub(super) fn leave_slot(&self, slot: u32) {
        self.slots().over.push_back((Instant::now() + LINGER, slot));
    }

    /// The splice at `slot` has never been one: the slot is free.
    pub(super) fn give_slot_back(&self, slot: u32) {
        self.clear(slot);
        self.slots().free.push_back(slot);
    }

    /// Frees slots whose splices are over for long enough, at the latest for `early` from now, and whose connections nobody has
    /// any more. True if there may be more of them.
    pub(super) fn reap(&self, early: Duration) -> bool {
        for _ in 0..REAPED_AT_ONCE {
            let mut slots = self.slots();
            match slots.over.front() {
                Some((when, _)) if *when <= Instant::now() + early => {}
                _ => return false,
            }
            let Some((_, slot)) = slots.over.pop_front() else {
                return false;
            };
            drop(slots);
            if self.keys(slot).next().is_none()
                || matches!(self.ask(slot, Command::Look), Ok(Answer::NoSocket))
            {
                self.give_slot_back(slot);
            } else {
                // A connection goes on without the engine: with other numbers than its peer's as long as it lives.
                self.leave_slot(slot);
            }
        }
        true
    }

    /// The keys of the connections that are at `slot`, and of no later splice.
    fn keys(&self, slot: u32) -> impl Iterator<Item = Vec<u8>> {
        let splice = self.read(slot).unwrap_or_default();
        let keys = state::keys(&splice).map(<[u8]>::to_vec);
        (2 * slot..)
            .zip(keys)
            .filter(|(number, key)| self.number(key) == Some(*number))
            .map(|(_, key)| key)
    }

    fn clear(&self, slot: u32) {
        // Cannot fail: the slot exists.
        let _ = self.ask(slot, Command::Forget);
    }
}
