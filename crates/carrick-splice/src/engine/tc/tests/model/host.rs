//! The process on this host, which relays between both local sockets, gives their packets to the kernel and takes them
//! back: the work of `lifecycle/tc.rs`, in virtual time, with the engine's own table and commands.

mod answering;

use super::super::lab::from_bytes;
use super::super::wire::Packet;
use super::endpoint::{Life, MILLISECOND, Tcp};
use super::programs::{Programs, addresses};
use crate::engine::tc::command::{Answer, Command};
use crate::engine::tc::skeleton::types::packet_splice;
use crate::engine::tc::state;
use crate::engine::tc::state::{Holder, PacketState};
use crate::engine::tc::table::SpliceTable;
use answering::Answering;
pub use answering::{Round, Rounds};

/// As in `lifecycle/tc.rs` and `splice.rs`.
const LOOK_FIRST: u64 = MILLISECOND;
const LOOK_LAST: u64 = 256 * MILLISECOND;
const DISARM_LOOKS_MAX: u32 = 200;
const DISARM_LOOK: u64 = 50;

/// Most bytes read at once.
const HELD_MAX: usize = 16 * 1024;

/// What happens to the connections once the process has taken them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// They go through the process to their end.
    Process,
    /// They are given to the kernel again, in the same slot or as another splice.
    Again,
    Anew,
}

/// Counts of events, so that a test can check that they occurred.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Times that the kernel took over; of these, with data of the local sockets in flight.
    pub armed: u64,
    pub armed_in_flight: u64,
    /// Times that it returned the connections; of these, with a peer that had, or may have had, more than was acknowledged.
    pub disarmed: u64,
    pub disarmed_ahead: u64,
    /// They could not be returned, and were reset (docs: Disarming).
    pub gave_up: u64,
    pub ended_in_kernel: u64,
    pub reset_in_kernel: u64,
    /// Ends of streams found by the process after they had passed.
    pub ends_found: u64,
    /// Packets.
    pub forwarded: u64,
    pub copies: u64,
    pub refused: u64,
    /// Packets beyond the receiver's window, but within the local socket's.
    pub behind_windows: u64,
    /// Requests that the kernel has forwarded.
    pub classified: u64,
    /// Responses of which the kernel has forwarded the rest.
    pub bodies: u64,
    /// Window updates for waiting senders.
    pub grants: u64,
}

impl Tally {
    fn all(&mut self) -> [&mut u64; 15] {
        [
            &mut self.armed,
            &mut self.armed_in_flight,
            &mut self.disarmed,
            &mut self.disarmed_ahead,
            &mut self.ended_in_kernel,
            &mut self.reset_in_kernel,
            &mut self.ends_found,
            &mut self.forwarded,
            &mut self.copies,
            &mut self.refused,
            &mut self.behind_windows,
            &mut self.gave_up,
            &mut self.classified,
            &mut self.bodies,
            &mut self.grants,
        ]
    }

    pub fn add(&mut self, other: &Tally) {
        let mut other = *other;
        for (sum, more) in self.all().into_iter().zip(other.all()) {
            *sum += *more;
        }
    }

    /// A model without events proves nothing. (The last five need not occur.)
    pub fn assert_all_has_happened(mut self) {
        let tally = self;
        let seen = self.all();
        assert!(seen[..10].iter().all(|count| **count > 0), "{tally:#?}");
    }

    /// The same, if only responses are forwarded.
    pub fn assert_responses_have_happened(&self) {
        let seen = [
            self.armed,
            self.armed_in_flight,
            self.disarmed,
            self.disarmed_ahead,
            self.forwarded,
            self.copies,
            self.classified,
            self.bodies,
        ];
        assert!(seen.iter().all(|count| *count > 0), "{self:#?}");
    }
}

pub struct Host {
    /// The sockets towards the client and the server.
    pub locals: [Tcp; 2],
    table: SpliceTable,
    slot: u32,
    was_armed: bool,
    pub is_armed: bool,
    wants_kernel: bool,
    held: [Vec<u8>; 2],
    passed: [bool; 2],
    moved: u64,
    looked_at: u64,
    look: Option<(u64, u64)>,
    disarm: Option<(After, u32)>,
    /// When it must run again.
    pub wakes_at: Option<u64>,
    /// It has finished.
    pub is_over: bool,
    pub tally: Tally,
    /// Its actions, for the trace; an error that it found.
    pub told: Vec<String>,
    pub wrong: Option<String>,
    /// If the kernel forwards responses only.
    answering: Option<Answering>,
    /// The pacing of each way (`pace_handle`).
    pub pace: [u64; 2],
}

impl Host {
    pub fn new(locals: [Tcp; 2], programs: &Programs, rounds: Option<Rounds>) -> Host {
        let table = programs.table();
        let slot = table.take_slot().unwrap();
        let mut host = Host {
            locals,
            table,
            slot,
            was_armed: false,
            is_armed: false,
            wants_kernel: true,
            held: [Vec::new(), Vec::new()],
            passed: [false; 2],
            moved: 0,
            looked_at: 0,
            look: None,
            disarm: None,
            wakes_at: None,
            is_over: false,
            tally: Tally::default(),
            told: Vec::new(),
            wrong: None,
            answering: rounds.map(|rounds| Answering::new(rounds, programs)),
            pace: [0; 2],
        };
        host.fill();
        host
    }

    fn fill(&mut self) {
        let legs = [0, 1].map(|side: usize| addresses(&self.locals[side]));
        self.was_armed = self.table.fill(self.slot, legs).unwrap();
    }

    /// The splice's state in the kernel.
    pub fn splice(&self) -> packet_splice {
        from_bytes(&self.table.read(self.slot).unwrap())
    }

    pub fn state(&self) -> PacketState {
        state::read(&self.table.read(self.slot).unwrap())
    }

    fn ask(&mut self, now: u64, programs: &Programs, command: Command) -> Answer {
        programs.set_clock(now);
        self.locals.iter().for_each(|local| programs.show(local));
        let answer = self.table.ask(self.slot, command).unwrap();
        self.told.push(format!("{command:?}: {answer:?}"));
        answer
    }

    /// Takes the connections back.
    pub fn take_back(&mut self, after: After) {
        if self.disarm.is_none() && !self.is_over {
            self.disarm = Some((after, 0));
        }
    }

    /// Runs; returns packets that the local sockets then send by themselves (resets).
    pub fn run(&mut self, now: u64, programs: &Programs) -> Vec<(usize, Packet)> {
        self.wakes_at = None;
        if self.is_over {
            return Vec::new();
        }
        if self.answering.is_some() {
            return self.answer(now, programs);
        }
        if self.is_armed {
            match self.state().holder {
                Holder::Process | Holder::Kernel => {}
                Holder::Ended => {
                    self.tally.ended_in_kernel += 1;
                    return self.close(now);
                }
                Holder::Reset { .. } => {
                    self.tally.reset_in_kernel += 1;
                    return self.close(now);
                }
            }
        }
        if let Some((after, tries)) = self.disarm {
            let closed = self.disarm(now, programs, after, tries);
            if self.disarm.is_some() || self.is_over {
                return closed;
            }
        }
        for side in [0, 1] {
            if self.locals[side].life == Life::Reset {
                return self.end_by_force(now, programs);
            }
        }
        while self.relay(now, programs, 0) | self.relay(now, programs, 1) {}
        self.arm(now, programs);
        Vec::new()
    }

    /// Ends both, so that further packets reach the other peer.
    fn end_by_force(&mut self, now: u64, programs: &Programs) -> Vec<(usize, Packet)> {
        if self.is_armed {
            self.ask(
                now,
                programs,
                Command::Disarm {
                    is_forced: true,
                    classified: 0,
                },
            );
        }
        self.close(now)
    }

    fn close(&mut self, now: u64) -> Vec<(usize, Packet)> {
        self.is_over = true;
        self.told.push("closes both".into());
        let resets = self.locals.iter_mut().enumerate();
        resets
            .filter_map(|(side, local)| Some((side, local.abort(now)?)))
            .collect()
    }

    /// Whether data has moved from the local socket of `side` to the other one.
    fn relay(&mut self, now: u64, programs: &Programs, side: usize) -> bool {
        let mut has_moved = false;
        if self.held[side].is_empty() {
            self.held[side] = self.locals[side].receiving.read(HELD_MAX);
            has_moved |= !self.held[side].is_empty();
        }
        let written = self.locals[1 - side].write(&self.held[side]);
        self.held[side].drain(..written);
        self.moved += written as u64;
        has_moved |= written > 0;
        let is_at_end = self.held[side].is_empty() && self.locals[side].is_at_end();
        if is_at_end && !self.passed[side] {
            self.passed[side] = true;
            if self.is_armed {
                let side = 1 - side as u32;
                self.ask(now, programs, Command::MayEnd { side });
            }
            self.locals[1 - side].shut();
        }
        has_moved
    }

    fn arm(&mut self, now: u64, programs: &Programs) {
        let is_quiet =
            self.passed == [false; 2] && self.held.iter().all(Vec::is_empty) && !self.is_over;
        if self.is_armed || !self.wants_kernel || !is_quiet {
            return;
        }
        if !self.is_time(now) {
            self.wakes_at = self.look.map(|(when, _)| when);
            return;
        }
        let is_in_flight = |local: &Tcp| local.sending.una != local.sending.sent_max;
        let is_in_flight = self.locals.iter().any(is_in_flight);
        match self.ask(now, programs, Command::Arm { pace: self.pace }) {
            Answer::Done => {
                self.tally.armed += 1;
                self.tally.armed_in_flight += u64::from(is_in_flight);
                self.is_armed = true;
                self.was_armed = true;
                self.look = None;
                // From now on the programs check their numbers.
                self.locals
                    .iter_mut()
                    .for_each(|local| local.is_strict = false);
            }
            Answer::Busy | Answer::Unseen => self.look_later(now),
            Answer::NoSocket => self.wants_kernel = false,
            other => panic!("incompatible connections: {other:?}"),
        }
        self.wakes_at = self.look.map(|(when, _)| when);
    }

    fn is_time(&mut self, now: u64) -> bool {
        if self.moved != self.looked_at {
            self.looked_at = self.moved;
            self.look = None;
            return true;
        }
        self.look.map_or(self.moved == 0, |(when, _)| when <= now)
    }

    fn look_later(&mut self, now: u64) {
        self.look = match self.look {
            Some((_, wait)) if wait >= LOOK_LAST => {
                self.looked_at = self.looked_at.max(1);
                self.moved = self.moved.max(1);
                None
            }
            Some((_, wait)) => Some((now + 2 * wait, 2 * wait)),
            None => Some((now + LOOK_FIRST, LOOK_FIRST)),
        };
    }

    fn disarm(
        &mut self,
        now: u64,
        programs: &Programs,
        after: After,
        tries: u32,
    ) -> Vec<(usize, Packet)> {
        if self.is_armed {
            match self.ask(
                now,
                programs,
                Command::Disarm {
                    is_forced: false,
                    classified: 0,
                },
            ) {
                Answer::Done => self.came_back(),
                Answer::Busy if tries < DISARM_LOOKS_MAX => {
                    self.disarm = Some((after, tries + 1));
                    self.wakes_at = Some(now + DISARM_LOOK);
                    return Vec::new();
                }
                answer => return self.give_up(now, programs, answer),
            }
        }
        self.disarm = None;
        self.look = None;
        self.looked_at = 0;
        self.go_on(after);
        Vec::new()
    }

    /// The local sockets have their connections.
    fn go_on(&mut self, after: After) {
        if after == After::Again {
            return;
        }
        if self.was_armed {
            self.table.leave_slot(self.slot);
        } else {
            self.table.give_slot_back(self.slot);
        }
        self.wants_kernel = after == After::Anew;
        if self.wants_kernel {
            self.slot = self.table.take_slot().unwrap();
            self.fill();
        }
    }

    fn came_back(&mut self) {
        self.is_armed = false;
        self.tally.disarmed += 1;
        let is_passed = self.state().is_passed;
        let splice = self.splice();
        let is_ahead = splice.legs.iter().any(|leg| leg.is_ahead != 0);
        self.tally.disarmed_ahead += u64::from(is_ahead);
        for (local, is_passed) in self.locals.iter_mut().zip(is_passed) {
            if is_passed {
                local.is_read_shut = true;
                self.tally.ends_found += 1;
            }
        }
    }

    /// The local sockets do not become idle, or everything has ended.
    fn give_up(&mut self, now: u64, programs: &Programs, answer: Answer) -> Vec<(usize, Packet)> {
        self.disarm = None;
        if answer == Answer::Ended {
            return self.close(now);
        }
        self.tally.gave_up += 1;
        self.end_by_force(now, programs)
    }
}
