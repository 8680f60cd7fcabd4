//! Two connections whose packets the kernel may forward: their slot, and where their packets go now.

use super::PacketEngine;
use super::command::{Answer, Command, KernelRoutes};
use super::hooks::interface_towards;
use super::records::Record;
use super::state::{self, Addresses, Holder, PacketState};
use crate::engine::slot_owner::SlotOwner;
use crate::{PaceHandle, Reason};
use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Context;
use std::time::Duration;
use tokio::net::TcpStream;

/// The number of `lo`, in each network namespace (`LOOPBACK_IFINDEX` of the kernel).
const LOOPBACK: u32 = 1;

/// Two connections with a slot. Dropping it returns them to their local sockets, if they have not ended.
pub(crate) struct PacketSplice {
    engine: Arc<PacketEngine>,
    slot: u32,
    /// Whether the kernel has had the packets: then numbers may differ from the local sockets' forever.
    was_armed: bool,
    is_armed: bool,
    /// It outlives this process.
    is_left: bool,
    /// The environment's generation when the routes were last checked.
    generation: Cell<u32>,
    addresses: [Addresses; 2],
}

impl PacketSplice {
    /// Gives two connections a slot: the programs follow their packets from now on. Otherwise the reason.
    pub(crate) fn new(
        engine: &Arc<PacketEngine>,
        sockets: [&TcpStream; 2],
        label: u64,
    ) -> Result<PacketSplice, Reason> {
        let addresses = |socket: &TcpStream| -> io::Result<Addresses> {
            Ok((socket.local_addr()?, socket.peer_addr()?))
        };
        let [Ok(a), Ok(b)] = sockets.map(addresses) else {
            return Err(Reason::PacketRefused);
        };
        let legs = [a, b];
        if let Some(unlike) = compare(legs) {
            return Err(unlike);
        }
        let slot = engine.table.take_slot().ok_or(Reason::PacketFull)?;
        let mut splice = PacketSplice {
            engine: Arc::clone(engine),
            slot,
            was_armed: false,
            is_armed: false,
            is_left: false,
            generation: Cell::new(engine.environment.generation()),
            addresses: legs,
        };
        splice.slot_owner().arrive(label);
        let shown = sockets
            .into_iter()
            .try_for_each(|socket| engine.table.show(socket.as_fd()));
        let filled = shown.and_then(|()| engine.table.fill(slot, legs));
        splice.was_armed = filled.map_err(|_| Reason::PacketRefused)?;
        engine.slot_owners[slot as usize]
            .is_woken
            .store(false, SeqCst);
        Ok(splice)
    }

    /// Whether the hooks have seen packets of both connections.
    pub(crate) fn is_seen(&self) -> bool {
        let splice = self.engine.table.read(self.slot);
        splice.is_some_and(|splice| state::is_seen(&splice))
    }

    /// Why the hooks may not have seen packets of both connections, although there were some.
    pub(crate) fn why_unseen(&self) -> Reason {
        for (own, peer) in self.addresses {
            match interface_towards(Some(own.ip()), peer.ip(), 0) {
                Ok(LOOPBACK) => return Reason::PacketLoopback,
                Ok(interface) if !self.engine.environment.is_on(interface) => {
                    return Reason::PacketInterface;
                }
                Ok(_) | Err(_) => {}
            }
        }
        Reason::PacketUnseen
    }

    /// Gives the packets to the kernel, if both connections are at rest and compatible; each way is paced so.
    pub(crate) fn arm(&mut self, pace: [PaceHandle; 2]) -> io::Result<Answer> {
        let pace = pace.map(PaceHandle::to_bits);
        self.arm_by(Command::Arm { pace })
    }

    /// Asks the kernel to take the packets.
    fn arm_by(&mut self, command: Command) -> io::Result<Answer> {
        if let Command::Arm { pace } = command {
            self.engine.attend_held(pace);
        } else if let Command::ArmResponses { pace, .. } | Command::ArmBody { pace, .. } = command {
            self.engine.attend_held([0, pace]);
        }
        // What passes an interface with the programs on its way to one without would leave by the former.
        if self.engine.environment.is_layered() && self.why_unseen() == Reason::PacketInterface {
            return Ok(Answer::Unseen);
        }
        let answer = self.ask(command)?;
        if answer == Answer::Done {
            self.was_armed = true;
            self.is_armed = true;
        }
        Ok(answer)
    }

    /// Lets the kernel forward what the second connection's peer sends, with its state in `record` and this
    /// pacing.
    pub(crate) fn arm_responses(
        &mut self,
        record: &Record,
        routes: Option<KernelRoutes>,
        pace: PaceHandle,
    ) -> io::Result<Answer> {
        self.arm_by(Command::ArmResponses {
            record: record.number(),
            routes,
            pace: pace.to_bits(),
        })
    }

    /// Lets the kernel forward the rest of the second connection's current response, as soon as possible,
    /// with its state in `record` and this pacing. `rest_bytes` were not read yet; `held_bytes` were read but
    /// not written yet.
    pub(crate) fn arm_body(
        &mut self,
        record: &Record,
        held_bytes: u32,
        rest_bytes: u64,
        pace: PaceHandle,
    ) -> io::Result<Answer> {
        self.arm_by(Command::ArmBody {
            record: record.number(),
            held_bytes,
            rest_bytes,
            pace: pace.to_bits(),
        })
    }

    /// Records that the kernel has returned the packets by itself, or that both connections have ended.
    pub(crate) fn note_back(&mut self) {
        self.is_armed = false;
    }

    /// Whether the kernel has the packets.
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed
    }

    /// Whether routes have changed since the kernel got the packets.
    pub(crate) fn is_astray(&self) -> bool {
        self.other_roads().into_iter().flatten().next().is_some()
    }

    /// Sends the packets by the present routes.
    pub(crate) fn follow(&self) -> io::Result<()> {
        for (side, interface) in (0..).zip(self.other_roads()) {
            if let Some(interface) = interface {
                self.ask(Command::GoBy { side, interface })?;
            }
        }
        Ok(())
    }

    /// The new interfaces towards both peers, if they have changed since the last call.
    fn other_roads(&self) -> [Option<u32>; 2] {
        let generation = self.engine.environment.generation();
        if self.generation.replace(generation) == generation {
            return [None; 2];
        }
        let splice = self.engine.table.read(self.slot).unwrap_or_default();
        let [first, second] = state::interfaces(&splice);
        let [to_first, to_second] = self.addresses;
        [(to_first, first), (to_second, second)].map(|((own, peer), interface)| {
            // If the route is unknown, the interface stays.
            let now = interface_towards(Some(own.ip()), peer.ip(), 0).ok();
            now.filter(|now| *now != interface)
        })
    }

    /// Where the packets go, and how many bytes were forwarded.
    pub(crate) fn state(&self) -> PacketState {
        let splice = self.engine.table.read(self.slot);
        splice.map_or(
            PacketState {
                holder: Holder::Reset {
                    is_by_second: false,
                },
                is_stuck: false,
                bytes: [0; 2],
                packets: [0; 2],
                again: [0; 2],
                is_passed: [false; 2],
                is_quiet: false,
                active: Duration::ZERO,
            },
            |splice| state::read(&splice),
        )
    }

    /// How many bytes of the second connection's the first one's peer would take; 0 until it has acknowledged
    /// everything.
    pub(crate) fn response_room_bytes(&self) -> u32 {
        let splice = self.engine.table.read(self.slot);
        splice.map_or(0, |splice| state::response_room_bytes(&splice))
    }

    /// Arranges to wake `cx` when the splice ends. False if there is no notifier.
    pub(crate) fn listen(&self, cx: &Context<'_>) -> bool {
        let is_heard = self.engine.notifier().is_some();
        if is_heard {
            self.slot_owner().remember(cx);
        }
        is_heard
    }

    /// Lets the local socket of this side send its FIN.
    pub(crate) fn let_end(&self, side: u32) -> io::Result<()> {
        self.ask(Command::MayEnd { side }).map(drop)
    }

    /// Returns the packets to the local sockets, which continue where the peers are, if these sockets have
    /// nothing to receive or to send ([`Answer::Busy`]) and the kernel has forwarded no more requests than
    /// `classified` ([`Answer::Behind`]).
    pub(crate) fn disarm(&mut self, classified: u32) -> io::Result<Answer> {
        if !self.is_armed {
            return Ok(Answer::Done);
        }
        self.disarm_by(Command::Disarm {
            is_forced: false,
            classified,
        })
    }

    /// Likewise; the server's connection, side 1, is to be closed, so it may have missed a forwarded request.
    pub(crate) fn take_client(&mut self, classified: u32) -> io::Result<Answer> {
        if !self.is_armed {
            return Ok(Answer::Done);
        }
        self.disarm_by(Command::TakeClient { classified })
    }

    fn disarm_by(&mut self, command: Command) -> io::Result<Answer> {
        let answer = self.ask(command)?;
        if answer == Answer::Done {
            self.is_armed = false;
        }
        Ok(answer)
    }

    /// Leaves the packets to the kernel for good: it needs neither the local sockets nor this process any
    /// more. False if the programs do not outlive the process.
    pub(crate) fn leave(&mut self) -> bool {
        self.is_left = self.is_armed && self.engine.is_pinned();
        self.is_left
    }

    fn ask(&self, command: Command) -> io::Result<Answer> {
        self.engine.table.ask(self.slot, command)
    }

    fn slot_owner(&self) -> &SlotOwner {
        &self.engine.slot_owners[self.slot as usize]
    }
}

/// Why two connections cannot be joined, as far as addresses tell.
fn compare(legs: [Addresses; 2]) -> Option<Reason> {
    let [a, b] = legs.map(|(_, peer)| peer.ip().to_canonical());
    let is_here = |(own, peer): Addresses| {
        let peer = peer.ip().to_canonical();
        peer.is_loopback() || peer == own.ip().to_canonical()
    };
    if legs.into_iter().any(is_here) {
        Some(Reason::PacketLoopback)
    } else if a.is_ipv4() != b.is_ipv4() {
        // The programs rewrite headers, and cannot change the IP version.
        Some(Reason::PacketFamilies)
    } else {
        None
    }
}

impl Drop for PacketSplice {
    fn drop(&mut self) {
        self.slot_owner().forget();
        self.slot_owner().go();
        if self.is_left {
            return;
        }
        let mut is_alone = false;
        if self.is_armed {
            // From now on the local sockets' packets are to reach the peers; refused if the splice has ended.
            let answer = self.ask(Command::Disarm {
                is_forced: true,
                classified: 0,
            });
            // If both are gone, the kernel resets the peers when they send something.
            is_alone = matches!(answer, Ok(Answer::NoSocket))
                && self.state().holder == Holder::Kernel
                && matches!(self.ask(Command::Look), Ok(Answer::NoSocket));
        }
        if self.was_armed && !is_alone {
            self.engine.table.leave_slot(self.slot);
        } else {
            self.engine.table.give_slot_back(self.slot);
        }
    }
}
