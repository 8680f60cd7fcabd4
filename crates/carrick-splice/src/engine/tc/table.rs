//! The maps of the packet engine, and the allocation of their slots.

use super::command::{Answer, Command, ask};
use super::state;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an ended splice stays, for retransmissions of the peers (twice the maximum segment lifetime, as
/// in Linux).
const LINGER: Duration = Duration::from_secs(60);

/// Ended splices checked at a time.
const REAPED_AT_ONCE: usize = 64;

/// The maps.
pub(super) struct SpliceTable {
    flows: MapHandle,
    splices: MapHandle,
    command: OwnedFd,
    /// `None` for another process's maps, where no splice begins.
    slot_program: Option<SlotProgram>,
    places_max: u32,
    slots: Mutex<Slots>,
}

/// Only this process's sockets get a slot.
pub(super) struct SlotProgram {
    pub(super) program: OwnedFd,
    /// The process's sockets.
    pub(super) owned: MapHandle,
}

struct Slots {
    free: VecDeque<u32>,
    /// Slots of ended splices, and when to check whether they can be freed.
    over: VecDeque<(Instant, u32)>,
}

/// How many slots there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Of active splices.
    pub open: u32,
    /// Of ended splices, kept for retransmissions, or because their connections go on by themselves.
    pub over: u32,
    /// The maximum.
    pub max: u32,
}

impl SpliceTable {
    pub(super) fn new(
        flows: MapHandle,
        splices: MapHandle,
        command: OwnedFd,
        slot_program: Option<SlotProgram>,
        places_max: u32,
    ) -> SpliceTable {
        SpliceTable {
            flows,
            splices,
            command,
            slot_program,
            places_max,
            slots: Mutex::new(Slots {
                free: (0..places_max).collect(),
                over: VecDeque::new(),
            }),
        }
    }

    /// The maps of another process, which may be dead.
    pub(super) fn of_others(
        flows: MapHandle,
        splices: MapHandle,
        command: OwnedFd,
        places_max: u32,
    ) -> SpliceTable {
        let table = SpliceTable::new(flows, splices, command, None, places_max);
        table.slots().free.clear();
        table
    }

    /// Adopts a dead process's splices that need no local socket. One that needs it is over once the socket
    /// is gone.
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

    /// The id of the map `flows`, which all of the programs use.
    pub(super) fn flows_id(&self) -> io::Result<u32> {
        let info = self.flows.info().map_err(io::Error::other)?;
        Ok(info.info.id)
    }

    /// The number of splices that need no local socket.
    pub(super) fn spliced(&self) -> usize {
        let slots = self.known_slots().into_iter();
        slots
            .filter_map(|slot| self.read(slot))
            .filter(|splice| state::is_spliced(splice))
            .count()
    }

    /// Whether all ended splices have been freed.
    pub(super) fn has_none_over(&self) -> bool {
        self.slots().over.is_empty()
    }

    /// The number of ended splices with data, or a FIN, of a local socket that a peer has not acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        let slots: Vec<_> = self.slots().over.iter().map(|(_, slot)| *slot).collect();
        let is_busy = |slot: &u32| matches!(self.ask(*slot, Command::Look), Ok(Answer::Busy));
        slots.into_iter().filter(is_busy).count()
    }

    /// Whether the splice's connections are still in `flows`.
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

    /// Registers a socket, which its connection needs for a slot.
    pub(super) fn show(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let Some(slot_program) = &self.slot_program else {
            return Ok(());
        };
        let descriptor = socket.as_raw_fd().to_ne_bytes();
        slot_program
            .owned
            .update(&descriptor, &1_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// Gives a slot to both connections, whose sockets were registered. A connection that an earlier splice
    /// has returned keeps its offsets: returns whether there is one.
    pub(super) fn fill(&self, slot: u32, legs: [state::Addresses; 2]) -> io::Result<bool> {
        let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        let Some(slot_program) = &self.slot_program else {
            return refused("nothing new begins in the maps of another process".to_owned());
        };
        match super::command::fill_slot(slot_program.program.as_fd(), slot, legs)? {
            Answer::Done => Ok(false),
            Answer::Continued => Ok(true),
            other => refused(format!("no slot for the two connections: {other:?}")),
        }
    }

    /// A connection's slot times two, plus its side.
    fn number(&self, key: &[u8]) -> Option<u32> {
        let number = self.flows.lookup(key, MapFlags::ANY).ok().flatten()?;
        Some(u32::from_ne_bytes(*number.first_chunk()?))
    }

    /// The content of a slot.
    pub(super) fn read(&self, slot: u32) -> Option<Vec<u8>> {
        let splice = self.splices.lookup(&slot.to_ne_bytes(), MapFlags::LOCK);
        splice.ok().flatten()
    }

    pub(super) fn ask(&self, slot: u32, command: Command) -> io::Result<Answer> {
        ask(self.command.as_fd(), slot, command)
    }

    /// Ends the splice at `slot`. The slot is freed once it is no longer needed.
    pub(super) fn leave_slot(&self, slot: u32) {
        self.slots().over.push_back((Instant::now() + LINGER, slot));
    }

    /// Frees a slot whose splice never began.
    pub(super) fn give_slot_back(&self, slot: u32) {
        self.clear(slot);
        self.slots().free.push_back(slot);
    }

    /// Frees slots of splices that ended long enough ago, or will have within `early`, and whose connections
    /// are unused. True if there may be more of them.
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
                // A connection goes on without the engine: its numbers differ from its peer's as long as it
                // lives.
                self.leave_slot(slot);
            }
        }
        true
    }

    /// The keys of the connections that belong to `slot`, and not to a later splice.
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
