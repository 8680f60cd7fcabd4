//! The engine `packet` as an exchange sees it: how it gets the packets of two connections, what the process sees of them meanwhile, and how
//! it gives them back.

use super::pair::{Forwarded, Pair};
use super::{Attach, Detach, KernelEngine, Polled};
use crate::engine::tc::command::Answer;
use crate::engine::tc::splice::PacketSplice;
use crate::engine::tc::state::{Holder, State};
use crate::relay::flow::Step;
use crate::sys::tcp_info::unacked_bytes;
use crate::{Ended, Engine, Fault, Reason, Side, sys, tcp};
use socket2::SockRef;
use std::future::Future;
use std::io::ErrorKind;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// The packets go to the kernel when both connections are at rest. No event tells when what was sent is acknowledged: when
/// to look again, at first and at last. It is begun anew when bytes have moved.
const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_LAST: Duration = Duration::from_millis(256);

/// The kernel gives the packets back when both local sockets have nothing to receive or to send, which is a matter of microseconds: so often
/// it is asked, [`LOOK_FIRST`] apart but for the first times.
const DETACH_LOOKS_MAX: u32 = 32;
const DETACH_LOOKS_AT_ONCE: u32 = 8;

/// The hooks see packets of both connections, both ways, once bytes have moved and were acknowledged. Where they have not after so long,
/// they never will.
const UNSEEN_PATIENCE: Duration = Duration::from_secs(2);

/// Two connections whose packets the engine forwards, or is to forward.
#[derive(Default)]
pub(crate) struct Tc {
    /// Once the kernel knows them.
    known: Option<Box<Known>>,
}

/// Two connections that the kernel knows.
struct Known {
    splice: PacketSplice,
    /// When to look whether both connections are at rest, and how long to wait the next time; `None`: when bytes have moved.
    look: Option<(Pin<Box<Sleep>>, Duration)>,
    /// What had moved at the last look.
    moved_bytes: u64,
    /// What had moved when the kernel was told of the connections.
    known_bytes: u64,
    /// How often the kernel was asked to give them back and had to wait for a local socket.
    detach_looks: u32,
    /// When, after more had moved, the hooks had not seen the packets of both connections for the first time.
    unseen_since: Option<Instant>,
}

impl Tc {
    /// Makes both connections known to the kernel, which learns their interfaces from the packets that it sees. If the engine was asked for by
    /// name, this is done before the first byte is relayed.
    fn make_known(&mut self, pair: &Pair<'_>) -> Result<(), Reason> {
        let Some([a, b]) = &pair.legs else {
            return Ok(());
        };
        let engine = pair.splicer.packet_engine();
        let engine = engine.ok_or(Reason::PacketUnavailable)?;
        if pair.has_bad_leg() {
            return Err(Reason::PacketBadLeg);
        }
        let moved_bytes = pair.moved_bytes();
        self.known = Some(Box::new(Known {
            splice: PacketSplice::new(engine, [a, b], pair.label)?,
            look: None,
            moved_bytes,
            known_bytes: moved_bytes,
            detach_looks: 0,
            unseen_since: None,
        }));
        Ok(())
    }

    /// Leaves the connections to the kernel for good. False if that is not possible.
    pub(crate) fn leave(&mut self, pair: &Pair<'_>) -> bool {
        let is_empty = pair.legs.iter().flatten().all(|socket| {
            let unread = tcp::pending_input(socket);
            let unsent = unacked_bytes(&**socket);
            matches!((unread, unsent), (Ok(0), Ok(0)))
        });
        let is_at_rest = is_empty && !pair.holds_bytes() && pair.failed.is_none();
        (self.known.as_mut()).is_some_and(|known| is_at_rest && known.splice.leave())
    }
}

impl KernelEngine for Tc {
    /// When both directions wait for their senders, and all that was sent is acknowledged.
    fn attach(&mut self, cx: &mut Context<'_>, pair: &mut Pair<'_>, steps: &[Step; 2]) -> Attach {
        let waits = |step: &Step| matches!(step, Step::Blocked(Side::From));
        let moved_bytes = pair.moved_bytes();
        let is_quiet = steps.iter().all(waits) && !pair.holds_bytes() && pair.failed.is_none();
        let Some(known) = &mut self.known else {
            return Attach::Later;
        };
        if known.splice.is_armed() || !is_quiet || !known.is_time(cx, moved_bytes) {
            return Attach::Later;
        }
        pair.note_path_statistics(None);
        if pair.has_bad_leg() {
            return Attach::Refused(Some(Reason::PacketBadLeg));
        }
        let reason = match known
            .splice
            .arm([pair.flows[0].pace(), pair.flows[1].pace()])
        {
            Ok(Answer::Done) => {
                note_begun(pair);
                return Attach::Done;
            }
            Ok(Answer::Busy) => return known.look_later(cx),
            Ok(Answer::Unseen) if known.may_yet_be_seen(moved_bytes) => {
                return known.look_later(cx);
            }
            Ok(Answer::Unseen) => known.splice.why_unseen(),
            Ok(answer) => answer.reason(),
            Err(_) => Reason::PacketRefused,
        };
        Attach::Refused(Some(reason))
    }

    fn poll(&mut self, cx: &mut Context<'_>, pair: &mut Pair<'_>) -> Polled {
        let Some(known) = &mut self.known else {
            return match self.make_known(pair) {
                Ok(()) => Polled::Going,
                Err(reason) => Polled::Refused(reason),
            };
        };
        if !known.splice.is_armed() {
            return Polled::Going;
        }
        known.splice.listen(cx);
        let state = known.splice.state();
        let is_astray = known.splice.is_astray();
        note_forwarded(pair, &state);
        pair.note_path_statistics(Some(&state));
        match state.holder {
            // The local sockets find the way; what they send shows it to the kernel. Until then it is polled for.
            Holder::Process | Holder::Kernel if is_astray => Polled::Astray,
            Holder::Process | Holder::Kernel => Polled::Going,
            Holder::Ended => {
                close_silently(pair);
                Polled::Closed
            }
            Holder::Reset => {
                close_silently(pair);
                pair.splicer.counters().faults_from.add(1);
                Polled::Broken(Fault {
                    side: Side::From,
                    call: "poll",
                    source: ErrorKind::ConnectionReset.into(),
                })
            }
        }
    }

    /// The connections go on where their peers are.
    fn detach(&mut self, cx: &mut Context<'_>, pair: &mut Pair<'_>) -> Detach {
        let Some(known) = &mut self.known else {
            return Detach::Parted;
        };
        if !known.splice.is_armed() {
            return Detach::Known;
        }
        if let Some((timer, _)) = &mut known.look
            && known.detach_looks > 0
            && timer.as_mut().poll(cx).is_pending()
        {
            return Detach::Relay;
        }
        // Requests are judged on other splices only.
        let answer = known.splice.disarm(0);
        if matches!(answer, Ok(Answer::Busy)) && known.detach_looks < DETACH_LOOKS_MAX {
            known.detach_later(cx);
            return Detach::Relay;
        }
        (known.detach_looks, known.look) = (0, None);
        let state = known.splice.state();
        note_forwarded(pair, &state);
        pair.note_path_statistics(Some(&state));
        // What the local sockets send shows their ways anew.
        (known.known_bytes, known.unseen_since) = (pair.moved_bytes(), None);
        if matches!(answer, Ok(Answer::Done)) {
            for flow in &mut pair.flows {
                flow.set_pass_end(true);
                flow.look_anyway();
            }
            for (socket, is_passed) in pair.legs.iter().flatten().zip(state.is_passed) {
                if is_passed {
                    // Whoever reads it next finds the end, as if it had come here. It fails only if it is closed.
                    let _ = SockRef::from(&**socket).shutdown(Shutdown::Read);
                }
            }
            return Detach::Known;
        }
        // They have ended, or their local sockets do not come to rest.
        for socket in pair.legs.iter().flatten() {
            // Fails only if it is closed already.
            let _ = SockRef::from(&**socket).shutdown(Shutdown::Both);
        }
        close_silently(pair);
        Detach::Lost
    }

    /// While the kernel has the packets, the process passes on an end of stream that had come to a local socket before.
    fn after_relay(
        &mut self,
        _cx: &mut Context<'_>,
        pair: &mut Pair<'_>,
        side: usize,
        step: Step,
    ) -> Step {
        let (Some(known), Some(legs)) = (&self.known, &pair.legs) else {
            return step;
        };
        if !known.splice.is_armed() || !matches!(step, Step::Ended(Ended::EndOfStream)) {
            return step;
        }
        let receiver = 1 - side;
        let passed = known
            .splice
            .let_end(u32::from(receiver == 1))
            .and_then(|()| sys::shutdown_write(&legs[receiver]));
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

    fn bytes_beside_live(&self, pair: &Pair<'_>) -> Option<[u64; 2]> {
        self.known.as_ref()?;
        Some([0, 1].map(|side: usize| pair.flows[side].relayed_bytes()))
    }
}

/// The kernel has the packets.
fn note_begun(pair: &mut Pair<'_>) {
    let now = std::time::Instant::now();
    let forwarded = pair.forwarded.get_or_insert_default();
    forwarded.since.get_or_insert(now);
    pair.splicer.counters().packet_stays.add(1);
    for flow in &mut pair.flows {
        flow.set_forwarded_by(Engine::Packet);
        // The end of a stream needs leave.
        flow.set_pass_end(false);
        // What came in between is for the process.
        flow.look_anyway();
    }
}

fn note_forwarded(pair: &mut Pair<'_>, state: &State) {
    let forwarded = pair.forwarded.get_or_insert_default();
    **forwarded = Forwarded {
        bytes: state.bytes,
        packets: state.packets,
        again: state.again,
        active: state.active,
        since: forwarded.since,
    };
    let counters = pair.splicer.counters();
    for (flow, bytes) in pair.flows.iter_mut().zip(state.bytes) {
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
fn close_silently(pair: &Pair<'_>) {
    for socket in pair.legs.iter().flatten() {
        // Fails only if it is closed already.
        let _ = tcp::reset_on_close(socket);
    }
}

impl Known {
    /// Whether the hooks may yet see packets of both connections, though they have not.
    fn may_yet_be_seen(&mut self, moved_bytes: u64) -> bool {
        if moved_bytes == self.known_bytes {
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
    fn detach_later(&mut self, cx: &mut Context<'_>) {
        self.detach_looks += 1;
        self.look = None;
        if self.detach_looks <= DETACH_LOOKS_AT_ONCE {
            cx.waker().wake_by_ref();
            return;
        }
        let mut timer = Box::pin(sleep_until(Instant::now() + LOOK_FIRST));
        if timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        self.look = Some((timer, LOOK_FIRST));
    }

    /// Looks again in a while, but for that: not before bytes have moved.
    fn look_later(&mut self, cx: &mut Context<'_>) -> Attach {
        let next = |wait: Duration| Instant::now() + wait;
        match &mut self.look {
            Some((_, wait)) if *wait >= LOOK_LAST => {
                self.look = None;
                // What has not moved is not looked at.
                self.moved_bytes = self.moved_bytes.max(1);
                return Attach::Later;
            }
            Some((timer, wait)) => {
                *wait *= 2;
                timer.as_mut().reset(next(*wait));
            }
            None => self.look = Some((Box::pin(sleep_until(next(LOOK_FIRST))), LOOK_FIRST)),
        }
        let is_over = |(timer, _): &mut (Pin<Box<Sleep>>, _)| timer.as_mut().poll(cx).is_ready();
        if self.look.as_mut().is_some_and(is_over) {
            Attach::Again
        } else {
            Attach::Later
        }
    }
}
