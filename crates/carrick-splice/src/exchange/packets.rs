//! How an exchange gives its packets into the kernel's hands (packet engine), and takes them back.

use super::worth::Worth;
use super::{Exchange, ExchangeEnd, Forwarded};
use crate::engine::tc::command::Answer;
use crate::engine::tc::splice::PacketSplice;
use crate::engine::tc::state::{Holder, State};
use crate::relay::flow::Step;
use crate::{Ended, Engine, Fault, Reason, Side, sys, tcp};
use socket2::SockRef;
use std::future::Future;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The packets go to the kernel when both connections are at rest. No event tells when what was sent is acknowledged: when
/// to look again, at first and at last. It is begun anew when bytes have moved.
const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_LAST: Duration = Duration::from_millis(256);

/// The kernel gives the packets back when both local sockets have nothing to receive or to send, which is a matter of microseconds: so often
/// it is asked, [`LOOK_FIRST`] apart but for the first times.
const DISARM_LOOKS_MAX: u32 = 32;
const DISARM_LOOKS_AT_ONCE: u32 = 8;

/// The hooks see packets of both connections, both ways, once bytes have moved and were acknowledged. Where they have not after so long,
/// they never will.
const UNSEEN_PATIENCE: Duration = Duration::from_secs(2);

/// What an exchange knows of its packets.
#[derive(Default)]
pub(super) enum Packets {
    /// They are not wanted in the kernel, or not any more.
    #[default]
    No,
    /// They are, as soon as that pays.
    Watched(Worth),
    /// They are.
    Wanted,
    /// The kernel knows the connections.
    Placed(Box<Placed>),
}

impl Packets {
    /// Whether the kernel has them, or may have them at the next rest.
    pub(super) fn are_on_their_way(&self) -> bool {
        matches!(self, Packets::Wanted | Packets::Placed(_))
    }
}

pub(super) struct Placed {
    splice: PacketSplice,
    /// When to look whether both connections are at rest, and how long to wait the next time; `None`: when bytes have moved.
    look: Option<(Pin<Box<Sleep>>, Duration)>,
    /// What had moved at the last look.
    moved_bytes: u64,
    /// What had moved when the kernel was told of the connections.
    placed_bytes: u64,
    /// How often the kernel was asked to give them back and had to wait for a local socket.
    disarm_looks: u32,
    /// When, after more had moved, the hooks had not seen the packets of both connections for the first time.
    unseen_since: Option<Instant>,
}

impl Exchange<'_> {
    fn is_armed(&self) -> bool {
        matches!(&self.packets, Packets::Placed(placed) if placed.splice.is_armed())
    }

    /// Takes note of what the kernel has done with the packets. Ready if all is over.
    pub(super) fn poll_packets(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEnd> {
        self.weigh_packets();
        // If they are wanted from the beginning, before the first byte is relayed: its packets show the kernel where both connections are.
        if let (Packets::Wanted, Some([a, b])) = (&self.packets, self.ends(true)) {
            self.place([&a, &b]);
        }
        let Packets::Placed(placed) = &mut self.packets else {
            return Poll::Pending;
        };
        if !placed.splice.is_armed() {
            return Poll::Pending;
        }
        placed.splice.listen(cx);
        let state = placed.splice.state();
        let is_to_come_back = placed.splice.is_astray() || placed.disarm_looks > 0;
        self.note_forwarded(&state);
        self.note_path_statistics(Some(&state));
        match state.holder {
            Holder::Process | Holder::Kernel => {
                if is_to_come_back {
                    // The local sockets find the way; what they send shows it to the kernel. Until then it is polled for.
                    let _ = self.poll_disarm(cx);
                }
                Poll::Pending
            }
            Holder::Ended => {
                self.close_silently();
                Poll::Ready(ExchangeEnd::Closed)
            }
            Holder::Reset => {
                self.close_silently();
                self.splicer.counters().faults_from.add(1);
                Poll::Ready(ExchangeEnd::Fault {
                    a_to_b: true,
                    fault: Fault {
                        side: Side::From,
                        call: "poll",
                        source: ErrorKind::ConnectionReset.into(),
                    },
                })
            }
        }
    }

    /// Decides whether the kernel is to have the packets, if that is to be decided. Not while the socket engine has the connections:
    /// what is in a SOCKMAP is not left alone.
    fn weigh_packets(&mut self) {
        let Packets::Watched(worth) = &mut self.packets else {
            return;
        };
        if self.kernel.is_some() || self.wants_kernel {
            return;
        }
        if self.failed.is_some() || self.a_to_b.is_ended() || self.b_to_a.is_ended() {
            self.packets = Packets::No;
        } else if worth.observe([self.a_to_b.taken_bytes(), self.b_to_a.taken_bytes()]) {
            let engine = self.splicer.packet_engine();
            match engine.and_then(|engine| engine.obstacle()) {
                Some(reason) => self.refuse_packets(reason),
                None => {
                    self.packets = Packets::Wanted;
                    self.splicer.counters().reason(Reason::PacketPays).add(1);
                }
            }
        }
    }

    fn note_forwarded(&mut self, state: &State) {
        let bytes = state.bytes;
        let forwarded = self.forwarded.get_or_insert_default();
        **forwarded = Forwarded {
            bytes,
            packets: state.packets,
            again: state.again,
            active: state.active,
            since: forwarded.since,
        };
        let counters = self.splicer.counters();
        for (flow, bytes) in [&mut self.a_to_b, &mut self.b_to_a].into_iter().zip(bytes) {
            let before = flow.forwarded_bytes();
            if bytes > before {
                if before == 0 {
                    counters.packet_splices.add(1);
                }
                counters.packet_bytes.add(bytes - before);
                flow.set_forwarded_bytes(bytes);
            }
        }
    }

    /// The peers have said all to each other: the local sockets go without a word.
    fn close_silently(&self) {
        for socket in self.legs.iter().flatten() {
            // Fails only if it is closed already.
            let _ = tcp::reset_on_close(socket);
        }
    }

    /// Gives the packets to the kernel if both directions wait for their senders. True if there is something to be polled for.
    pub(super) fn arm(&mut self, cx: &mut Context<'_>, a_to_b: &Step, b_to_a: &Step) -> bool {
        let waits = |step: &Step| matches!(step, Step::Blocked(Side::From));
        if self.failed.is_some() || self.is_armed() {
            return false;
        }
        let moved_bytes = self.a_to_b.moved_bytes() + self.b_to_a.moved_bytes();
        let is_quiet = waits(a_to_b)
            && waits(b_to_a)
            && !self.a_to_b.holds_bytes()
            && !self.b_to_a.holds_bytes();
        let Packets::Placed(placed) = &mut self.packets else {
            return false;
        };
        if !is_quiet || !placed.is_time(cx, moved_bytes) {
            return false;
        }
        // What is in a SOCKMAP has no rest that one could see.
        debug_assert!(self.kernel.is_none() && !self.wants_kernel);
        self.note_path_statistics(None);
        if self.has_bad_leg() {
            self.refuse_packets(Reason::PacketBadLeg);
            return false;
        }
        let Packets::Placed(placed) = &mut self.packets else {
            return false;
        };
        match placed.splice.arm([self.a_to_b.pace(), self.b_to_a.pace()]) {
            Ok(Answer::Done) => {
                let now = std::time::Instant::now();
                let forwarded = self.forwarded.get_or_insert_default();
                forwarded.since.get_or_insert(now);
                self.splicer.counters().packet_stays.add(1);
                for flow in [&mut self.a_to_b, &mut self.b_to_a] {
                    flow.set_forwarded_by(Engine::Packet);
                    // The end of a stream needs leave.
                    flow.set_pass_end(false);
                    // What came in between is for the process.
                    flow.look_anyway();
                }
                true
            }
            Ok(Answer::Busy) => placed.look_later(cx),
            Ok(Answer::Unseen) if placed.may_yet_be_seen(moved_bytes) => placed.look_later(cx),
            Ok(Answer::Unseen) => {
                let reason = placed.splice.why_unseen();
                self.refuse_packets(reason);
                false
            }
            Ok(answer) => {
                self.refuse_packets(answer.reason());
                false
            }
            Err(_) => {
                self.refuse_packets(Reason::PacketRefused);
                false
            }
        }
    }

    /// The packets stay with the local sockets.
    fn refuse_packets(&mut self, reason: Reason) {
        self.packets = Packets::No;
        self.packets_refused = Some(reason);
        self.splicer.counters().reason(reason).add(1);
    }

    /// Why the packet engine does not forward the packets of this exchange, if that was asked for and has been decided since the last
    /// time. The splicer has counted it.
    pub fn take_packets_refused(&mut self) -> Option<Reason> {
        self.packets_refused.take()
    }

    /// Tells the kernel of the connections.
    fn place(&mut self, sockets: [&tokio::net::TcpStream; 2]) {
        let Some(engine) = self.splicer.packet_engine() else {
            self.packets = Packets::No;
            return;
        };
        if self.has_bad_leg() {
            return self.refuse_packets(Reason::PacketBadLeg);
        }
        let moved_bytes = self.a_to_b.moved_bytes() + self.b_to_a.moved_bytes();
        match PacketSplice::new(engine, sockets, self.label) {
            Ok(splice) => {
                self.packets = Packets::Placed(Box::new(Placed {
                    splice,
                    look: None,
                    moved_bytes,
                    placed_bytes: moved_bytes,
                    disarm_looks: 0,
                    unseen_since: None,
                }));
            }
            Err(reason) => self.refuse_packets(reason),
        }
    }

    /// While the kernel has the packets, the process passes on an end of stream that had come to a local socket before.
    pub(super) fn pass_end_beside(&mut self, a_to_b: bool, step: Step) -> Step {
        let Packets::Placed(placed) = &self.packets else {
            return step;
        };
        if !placed.splice.is_armed() || !matches!(step, Step::Ended(Ended::EndOfStream)) {
            return step;
        }
        let Some([_, to]) = self.ends(a_to_b) else {
            return step;
        };
        let passed = placed
            .splice
            .let_end(u32::from(a_to_b))
            .and_then(|()| sys::shutdown_write(&to));
        match passed {
            Ok(()) => step,
            Err(source) if source.kind() == ErrorKind::NotConnected => step,
            Err(source) => Step::Fault(Fault {
                side: Side::To,
                call: "shutdown",
                source,
            }),
        }
    }

    /// Leaves the connections to the kernel for good, which goes on without this process: for its end. From then on, nothing that
    /// happens to the local sockets reaches the peers. False if that is not possible: the packets are not in the kernel, the engine
    /// has no folder in which it outlives the process ([`PacketService::pins`](crate::PacketService::pins)), or something waits in a
    /// local socket that nobody would pass on.
    pub fn leave(&mut self) -> bool {
        // Those are asked.
        self.wake_up();
        let is_empty = self.legs.iter().flatten().all(|socket| {
            let unread = tcp::pending_input(socket);
            let unsent = crate::sys::tcp_info::unacked_bytes(&**socket);
            matches!((unread, unsent), (Ok(0), Ok(0)))
        });
        let has_passed_all = !self.a_to_b.holds_bytes() && !self.b_to_a.holds_bytes();
        let Packets::Placed(placed) = &mut self.packets else {
            return false;
        };
        is_empty && has_passed_all && self.failed.is_none() && placed.splice.leave()
    }

    /// Takes the packets back: the connections go on where their peers are. Ready when they have come back, or nobody can go on with them.
    pub(super) fn poll_disarm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Packets::Placed(placed) = &mut self.packets else {
            return Poll::Ready(());
        };
        if !placed.splice.is_armed() {
            return Poll::Ready(());
        }
        if let Some((timer, _)) = &mut placed.look
            && placed.disarm_looks > 0
            && timer.as_mut().poll(cx).is_pending()
        {
            return Poll::Pending;
        }
        // Requests are judged on other splices only.
        let answer = placed.splice.disarm(0);
        if matches!(answer, Ok(Answer::Busy)) && placed.disarm_looks < DISARM_LOOKS_MAX {
            return placed.disarm_later(cx);
        }
        (placed.disarm_looks, placed.look) = (0, None);
        let state = placed.splice.state();
        self.note_forwarded(&state);
        self.note_path_statistics(Some(&state));
        let moved_bytes = self.a_to_b.moved_bytes() + self.b_to_a.moved_bytes();
        if let Packets::Placed(placed) = &mut self.packets {
            // What the local sockets send shows their ways anew.
            (placed.placed_bytes, placed.unseen_since) = (moved_bytes, None);
        }
        match answer {
            Ok(Answer::Done) => {
                for flow in [&mut self.a_to_b, &mut self.b_to_a] {
                    flow.set_pass_end(true);
                    flow.look_anyway();
                }
                for (socket, is_passed) in self.legs.iter().flatten().zip(state.is_passed) {
                    if is_passed {
                        // Whoever reads it next finds the end, as if it had come here. It fails only if it is closed.
                        let _ = SockRef::from(&**socket).shutdown(Shutdown::Read);
                    }
                }
            }
            // They have ended, or their local sockets do not come to rest: nobody can go on with them, and whoever tries finds
            // their end.
            _ => {
                for socket in self.legs.iter().flatten() {
                    // Fails only if it is closed already.
                    let _ = SockRef::from(&**socket).shutdown(Shutdown::Both);
                }
                self.close_silently();
            }
        }
        Poll::Ready(())
    }
}

impl Placed {
    /// Whether the hooks may yet see packets of both connections, though they have not.
    fn may_yet_be_seen(&mut self, moved_bytes: u64) -> bool {
        if moved_bytes == self.placed_bytes {
            return true;
        }
        let since = *self.unseen_since.get_or_insert_with(Instant::now);
        since.elapsed() < UNSEEN_PATIENCE
    }

    /// Whether to look now.
    fn is_time(&mut self, cx: &mut Context<'_>, moved_bytes: u64) -> bool {
        if moved_bytes != self.moved_bytes {
            self.moved_bytes = moved_bytes;
            self.look = None;
            return true;
        }
        match &mut self.look {
            Some((timer, _)) => timer.as_mut().poll(cx).is_ready(),
            None => moved_bytes == 0,
        }
    }

    /// Asks the kernel for the packets again in a while.
    fn disarm_later(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.disarm_looks += 1;
        self.look = None;
        if self.disarm_looks <= DISARM_LOOKS_AT_ONCE {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut timer = Box::pin(sleep_until(Instant::now() + LOOK_FIRST));
        if timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        self.look = Some((timer, LOOK_FIRST));
        Poll::Pending
    }

    /// Looks again in a while, but for that: not before bytes have moved. True if it is polled again at once.
    fn look_later(&mut self, cx: &mut Context<'_>) -> bool {
        let next = |wait: Duration| Instant::now() + wait;
        match &mut self.look {
            Some((_, wait)) if *wait >= LOOK_LAST => {
                self.look = None;
                // What has not moved is not looked at.
                self.moved_bytes = self.moved_bytes.max(1);
                return false;
            }
            Some((timer, wait)) => {
                *wait *= 2;
                timer.as_mut().reset(next(*wait));
            }
            None => self.look = Some((Box::pin(sleep_until(next(LOOK_FIRST))), LOOK_FIRST)),
        }
        let is_over = |(timer, _): &mut (Pin<Box<Sleep>>, _)| timer.as_mut().poll(cx).is_ready();
        self.look.as_mut().is_some_and(is_over)
    }
}
