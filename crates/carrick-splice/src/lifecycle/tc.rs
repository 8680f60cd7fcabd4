//! The engine `packet` as an exchange sees it: attaching, what the process observes meanwhile, detaching.

use super::pair::{Forwarded, Pair};
use super::{Attach, Detach, KernelEngine, Polled};
use crate::engine::tc::command::Answer;
use crate::engine::tc::splice::PacketSplice;
use crate::engine::tc::state::{Holder, PacketState};
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

/// The first and longest wait between attempts to attach, which needs both connections at rest: no event
/// reports that sent data was acknowledged. Starts over when bytes have moved.
const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_LAST: Duration = Duration::from_millis(256);

/// How often the kernel is asked to return the packets, which it does once both local sockets have nothing to
/// receive or to send: usually within microseconds. The first attempts are immediate, the others
/// [`LOOK_FIRST`] apart.
const DETACH_LOOKS_MAX: u32 = 32;
const DETACH_LOOKS_AT_ONCE: u32 = 8;

/// Once bytes have moved and were acknowledged, the hooks have seen packets of both connections in both
/// directions. If not after this long, they never will.
const UNSEEN_PATIENCE: Duration = Duration::from_secs(2);

/// Two connections whose packets the engine forwards, or is to forward.
#[derive(Default)]
pub(crate) struct Tc {
    /// `None` until the kernel knows them.
    known: Option<Box<KnownPair>>,
}

/// Two connections that the kernel knows.
struct KnownPair {
    splice: PacketSplice,
    /// When to try to attach next, and how long to wait after that; `None`: when bytes have moved.
    look: Option<(Pin<Box<Sleep>>, Duration)>,
    /// Bytes moved by the last attempt.
    moved_bytes: u64,
    /// Bytes moved when the kernel was told of the connections.
    known_bytes: u64,
    /// Attempts to detach that found a local socket busy.
    detach_looks: u32,
    /// When the hooks were first found not to have seen both connections, although bytes had moved.
    unseen_since: Option<Instant>,
}

impl Tc {
    /// Tells the kernel of both connections; it learns their interfaces from their packets. If the order
    /// names the engine, this happens before the first byte is relayed.
    fn make_known(&mut self, pair: &Pair<'_>) -> Result<(), Reason> {
        let Some([a, b]) = &pair.legs else {
            return Ok(());
        };
        let engine = pair.splicer.packet_engine();
        let engine = engine.ok_or(Reason::PacketUnavailable)?;
        if pair.is_lossy() {
            return Err(Reason::PacketLossyPath);
        }
        let moved_bytes = pair.moved_bytes();
        self.known = Some(Box::new(KnownPair {
            splice: PacketSplice::new(engine, [a, b], pair.label)?,
            look: None,
            moved_bytes,
            known_bytes: moved_bytes,
            detach_looks: 0,
            unseen_since: None,
        }));
        Ok(())
    }

    /// Whether the peers have got everything that the kernel forwarded, and may send more.
    pub(super) fn is_quiet(&self) -> bool {
        (self.known.as_ref())
            .is_none_or(|known| !known.splice.is_armed() || known.splice.state().is_quiet)
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
    /// Succeeds when both directions wait for their senders, and everything sent is acknowledged.
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
        // These looks cost less than asking, and of peers that answer at once something is often unread.
        if pair.has_unread() || (!known.splice.is_seen() && known.may_yet_be_seen(moved_bytes)) {
            return known.look_later(cx);
        }
        pair.note_path_statistics_if_old();
        if pair.is_lossy() {
            return Attach::Refused(Some(Reason::PacketLossyPath));
        }
        let reason = match known
            .splice
            .arm([pair.flows[0].pace(), pair.flows[1].pace()])
        {
            Ok(Answer::Done) => {
                known.look = None;
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
            // The local sockets find the new route, and the kernel learns it from their packets. Until then
            // it is polled. With fragments, it does not get the packets again.
            Holder::Process | Holder::Kernel if is_astray || state.is_stuck => Polled::Astray,
            Holder::Process | Holder::Kernel => Polled::Going,
            Holder::Ended => {
                known.splice.note_back();
                close_silently(pair);
                Polled::Closed
            }
            Holder::Reset { is_by_second } => {
                known.splice.note_back();
                close_silently(pair);
                Polled::Broken {
                    a_to_b: !is_by_second,
                    fault: Fault::new(Side::From, "poll", ErrorKind::ConnectionReset.into()),
                }
            }
        }
    }

    /// The local sockets continue where the peers are.
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
        // An exchange has no classified requests.
        let answer = known.splice.disarm(0);
        if matches!(answer, Ok(Answer::Busy)) && known.detach_looks < DETACH_LOOKS_MAX {
            known.detach_later(cx);
            return Detach::Relay;
        }
        (known.detach_looks, known.look) = (0, None);
        let state = known.splice.state();
        note_forwarded(pair, &state);
        pair.note_path_statistics(Some(&state));
        // The routes are learned anew from what the local sockets send.
        (known.known_bytes, known.unseen_since) = (pair.moved_bytes(), None);
        if matches!(answer, Ok(Answer::Done)) {
            for flow in &mut pair.flows {
                flow.set_pass_end(true);
                flow.look_anyway();
            }
            for (socket, is_passed) in pair.legs.iter().flatten().zip(state.is_passed) {
                if is_passed {
                    // The next read returns the end, as if it had arrived here. Fails only if it is closed.
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

    /// While the kernel has the packets, the process passes on a FIN that a local socket had received before.
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
            Err(source) => Step::Fault(Fault::new(Side::To, "shutdown", source)),
        }
    }

    fn bytes_beside_live(&self, pair: &Pair<'_>) -> Option<[u64; 2]> {
        self.known.as_ref()?;
        Some([0, 1].map(|side: usize| pair.flows[side].relayed_bytes()))
    }
}

/// Records that the kernel has the packets.
fn note_begun(pair: &mut Pair<'_>) {
    let now = std::time::Instant::now();
    let forwarded = pair.forwarded.get_or_insert_default();
    forwarded.since.get_or_insert(now);
    pair.splicer.counters().packet_stays.add(1);
    for flow in &mut pair.flows {
        flow.set_forwarded_by(Engine::Packet);
        // A FIN needs the kernel's permission (`let_end`).
        flow.set_pass_end(false);
        // Data that arrived meanwhile is for the process.
        flow.look_anyway();
    }
}

fn note_forwarded(pair: &mut Pair<'_>, state: &PacketState) {
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

/// Both peers have closed: closes the local sockets without sending anything.
fn close_silently(pair: &Pair<'_>) {
    for socket in pair.legs.iter().flatten() {
        // Fails only if it is closed already.
        let _ = tcp::reset_on_close(socket);
    }
}

impl KnownPair {
    /// Whether the hooks may still come to see packets of both connections.
    fn may_yet_be_seen(&mut self, moved_bytes: u64) -> bool {
        if moved_bytes == self.known_bytes {
            return true;
        }
        let since = *self.unseen_since.get_or_insert_with(Instant::now);
        since.elapsed() < UNSEEN_PATIENCE
    }

    /// Whether to try to attach now.
    fn is_time(&mut self, cx: &mut Context<'_>, moved_bytes: u64) -> bool {
        if moved_bytes != self.moved_bytes {
            self.moved_bytes = moved_bytes;
            // A look that is due soon stays: each new timer wakes the thread's runtime.
            self.look = self.look.take().filter(|(_, wait)| *wait == LOOK_FIRST);
            return true;
        }
        match &mut self.look {
            Some((timer, _)) => timer.as_mut().poll(cx).is_ready(),
            None => moved_bytes == 0,
        }
    }

    /// Asks the kernel for the packets again later.
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

    /// Tries again later; after the longest wait, only when bytes have moved.
    fn look_later(&mut self, cx: &mut Context<'_>) -> Attach {
        let next = |wait: Duration| Instant::now() + wait;
        match &mut self.look {
            Some((_, wait)) if *wait >= LOOK_LAST => {
                self.look = None;
                // Only a change triggers the next attempt.
                self.moved_bytes = self.moved_bytes.max(1);
                return Attach::Later;
            }
            Some((timer, _)) if !timer.is_elapsed() => {}
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
