//! The kernel's part of a splice with the engine `socket`: when the process has to help, and how the kernel
//! lets go.
//!
//! docs/internals/socket-engine.md explains the order of steps.

use crate::engine::sockmap::joint::{Joint, Refusal, Ways, is_closed};
use crate::relay::flow::{Ends, Flow, KernelPart};
use crate::{Choice, Counters, Fault, PaceHandle, Side, Splicer, sys, tcp};
use std::future::Future;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// How often the process checks whether the receiver's TCP has taken the kernel's backlog, while it waits for
/// that: no event reports it.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Immediate checks before that, each yielding the processor: the kernel worker it waits for usually needs
/// only microseconds.
const LOOKS_AT_ONCE: u32 = 8;

/// Leaving waits for data in flight inside the kernel: for a kernel worker, not for a peer. This many times
/// [`LOOK_AGAIN`], a second in all; only a machine without memory takes longer. (Not by the clock, since the
/// process may have been stopped meanwhile.)
const LEAVE_WAITS_MAX: u32 = 1000;

/// The two sockets, and the state of each direction. Direction 0 is from socket 0 to socket 1. A one-way
/// splice has this one only.
pub(crate) struct SockmapSplice {
    joint: Joint,
    ways: Vec<Way>,
    timer: Option<Pin<Box<Sleep>>>,
    looks: u32,
    /// How many times [`LOOK_AGAIN`] has passed.
    waits: u32,
    /// Everything is left to the process, so that the connections can be taken back; `waits` when that began.
    leaving: Option<u32>,
}

/// One direction.
#[derive(Default)]
struct Way {
    /// What the flow had taken and written when the kernel joined in.
    taken_before: u64,
    relayed_before: u64,
    /// What an earlier kernel splice had forwarded.
    forwarded_before: u64,
    /// What had been left to the process before the kernel might forward.
    passed_at_first: u64,
    /// The receiver's TCP has everything that the kernel forwarded, and forwarding is off.
    is_drained: bool,
    /// The FIN was passed on.
    is_end_passed: bool,
    counted_bytes: u64,
    /// The sender's socket is being taken out; `waits` when that began.
    letting_go: Option<u32>,
    /// The sender's connection has failed, behind what is in flight.
    error: Option<io::Error>,
}

/// Whether the process may work on a direction now.
pub(crate) enum Gate {
    /// It may: no data can be overtaken.
    Open,
    /// It has nothing to do.
    Quiet,
    /// It may have something to do, but the receiver must take the kernel's backlog first. It is checked
    /// again.
    Wait,
    /// A connection failed.
    Fault(Fault),
}

impl SockmapSplice {
    /// Gives two connections to the kernel, with one flow for each direction to forward. `Ok(None)` if data
    /// arrived just now: relay it and try again.
    pub(crate) fn join(
        splicer: &Splicer,
        sockets: [&TcpStream; 2],
        flows: &mut [&mut Flow],
        label: u64,
    ) -> Result<Option<SockmapSplice>, Refusal> {
        let Some(engine) = splicer.socket_engine() else {
            return Ok(None);
        };
        if flows.len() > 1 && !is_quiet(sockets, flows)? {
            return Ok(None);
        }
        let extent = match &*flows {
            [flow] => Ways::One {
                bytes_max: flow.remaining_bytes(),
            },
            _ => Ways::Both,
        };
        let pace = match &*flows {
            [flow] => [flow.pace(); 2],
            [a_to_b, b_to_a, ..] => [a_to_b.pace(), b_to_a.pace()],
            [] => <[PaceHandle; 2]>::default(),
        };
        let joint = Joint::new(engine, sockets, extent, label, pace)?;
        let ways = flows.iter_mut().map(|flow| {
            // The program sees data that arrived meanwhile when the socket is read.
            flow.look_anyway();
            Way {
                taken_before: flow.taken_bytes(),
                relayed_before: flow.relayed_bytes(),
                forwarded_before: flow.forwarded_bytes(),
                // One way, the kernel has begun already.
                is_drained: extent == Ways::Both,
                ..Way::default()
            }
        });
        Ok(Some(SockmapSplice {
            ways: ways.collect(),
            joint,
            timer: None,
            looks: 0,
            waits: 0,
            leaving: None,
        }))
    }

    /// The kernel's part in the direction from `side`, while it has one.
    pub(crate) fn part(&self, side: usize) -> Option<KernelPart<'_>> {
        self.joint.is_in_map(side).then(|| KernelPart {
            joint: &self.joint,
            side,
            taken_before: self.ways[side].taken_before,
        })
    }

    /// Arranges to be polled for what only the kernel knows. Called before the process looks at what the
    /// kernel has done.
    pub(crate) fn listen(&mut self, cx: &mut Context<'_>) {
        if !self.joint.listen(cx) {
            self.look_again(cx);
        }
    }

    /// Whether the process may read and write in this direction.
    pub(crate) fn gate(
        &mut self,
        cx: &mut Context<'_>,
        side: usize,
        [from, to]: [&TcpStream; 2],
        flow: &Flow,
    ) -> Gate {
        if self.joint.is_broken(side) {
            let source = io::Error::other("the kernel lost bytes");
            return Gate::Fault(Fault::new(Side::From, "bpf", source));
        }
        let way = &mut self.ways[side];
        if way.is_drained || flow.is_ended() {
            return Gate::Open;
        }
        let may_ask = way.error.is_none() && self.joint.is_in_map(side);
        if may_ask && !flow.holds_bytes() && !flow.is_all_taken() {
            let taken_bytes = flow.taken_bytes() - way.taken_before;
            loop {
                match from.poll_read_ready(cx) {
                    std::task::Poll::Pending => return Gate::Quiet,
                    std::task::Poll::Ready(Ok(())) => {}
                    std::task::Poll::Ready(Err(error)) => {
                        return Gate::Fault(Fault::new(Side::From, "poll", error));
                    }
                }
                if self.joint.passed_bytes(side) != taken_bytes {
                    break;
                }
                match sys::has_input(from) {
                    // That cleared the readiness: check whether it came back.
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // What tells of an error tells once; what is in flight goes first.
                    Err(error) => {
                        way.error = Some(error);
                        break;
                    }
                    Ok(_) => break,
                }
            }
        }
        match self.joint.backlog_bytes(side, to) {
            Ok(Some(0)) => {
                if let Some(error) = way.error.take() {
                    return Gate::Fault(Fault::new(Side::From, "recv", error));
                }
                way.is_drained = true;
                self.looks = 0;
                Gate::Open
            }
            Ok(Some(_)) => {
                self.look_again(cx);
                Gate::Wait
            }
            Ok(None) => Gate::Fault(lost(Side::To, to)),
            Err(error) => Gate::Fault(Fault::new(Side::To, "getsockopt", error)),
        }
    }

    /// Tells the kernel how far the process has come in this direction, and the flow what the kernel has
    /// done.
    pub(crate) fn settle(&mut self, side: usize, flow: &mut Flow, counters: &Counters) {
        let way = &mut self.ways[side];
        if self.joint.is_in_map(side) {
            if !flow.holds_bytes() && !flow.is_ended() {
                way.is_drained = false;
            }
            self.joint
                .set_relayed_bytes(side, flow.relayed_bytes() - way.relayed_before);
        }
        self.count(side, flow, counters);
    }

    /// Records what the kernel has forwarded.
    pub(crate) fn count(&mut self, side: usize, flow: &mut Flow, counters: &Counters) {
        let way = &mut self.ways[side];
        let forwarded = self.joint.forwarded_bytes(side);
        if forwarded == way.counted_bytes {
            return;
        }
        if way.counted_bytes == 0 {
            counters.socket_splices.add(1);
        }
        counters.socket_bytes.add(forwarded - way.counted_bytes);
        way.counted_bytes = forwarded;
        flow.set_forwarded_bytes(way.forwarded_before + forwarded);
    }

    /// Records what the kernel has forwarded, and arranges to be polled when the sender's window may have to
    /// grow.
    pub(crate) fn watch_window(
        &mut self,
        side: usize,
        flow: &mut Flow,
        from: &TcpStream,
        counters: &Counters,
    ) {
        self.count(side, flow, counters);
        let more = flow.grow_window(from);
        let forwarded = self.ways[side].counted_bytes;
        self.joint
            .set_look_bytes(side, more.map(|more| forwarded + more));
    }

    /// Bytes from this side that the kernel had forwarded when it joined in.
    pub(crate) fn forwarded_before(&self, side: usize) -> u64 {
        self.ways[side].forwarded_before
    }

    /// Lets the kernel forward what comes from this side; false if it never can, because one socket is not
    /// there.
    pub(crate) fn allow(&mut self, side: usize) -> bool {
        if self.joint.is_whole() && !self.joint.is_redirecting(side) {
            self.ways[side].passed_at_first = self.joint.passed_bytes(side);
            self.joint.set_redirecting(side, true);
        }
        self.joint.is_whole()
    }

    /// The end of the stream was read too early: a fault if what the kernel held for the process is lost
    /// rather than still to come.
    pub(crate) fn early_end(&mut self, cx: &mut Context<'_>, from: &TcpStream) -> Option<Fault> {
        if is_closed(from) {
            return Some(lost(Side::From, from));
        }
        self.look_again(cx);
        None
    }

    /// Leaves longer runs without an answer to the process.
    pub(crate) fn leave_runs_to_the_process(&self, bytes_max: u64) {
        self.joint.set_run_bytes_max(bytes_max);
    }

    /// Whether the process has relayed anything since the kernel began.
    pub(crate) fn needs_help(&self) -> bool {
        let joint = &self.joint;
        self.ways.iter().enumerate().any(|(side, way)| {
            joint.is_redirecting(side) && joint.passed_bytes(side) > way.passed_at_first
        })
    }

    /// Whether nothing is in flight inside the kernel.
    pub(crate) fn is_idle(&self, sockets: [&TcpStream; 2]) -> bool {
        matches!(self.backlog_bytes(sockets), None | Some(0))
    }

    /// Whether the process has nothing to do until it is woken: both directions go through the kernel, and
    /// what it left to the process is relayed.
    pub(crate) fn may_sleep(&self, flows: [&Flow; 2]) -> bool {
        self.joint.is_whole()
            && flows
                .into_iter()
                .zip(&self.ways)
                .enumerate()
                .all(|(side, (flow, way))| {
                    !flow.holds_bytes()
                        && !flow.is_ended()
                        && !flow.is_all_taken()
                        && !way.is_end_passed
                        && self.joint.is_redirecting(side)
                        && self.joint.passed_bytes(side) == flow.taken_bytes() - way.taken_before
                })
    }

    /// Asks for wake-ups from now on. Afterwards, check whether the process [may
    /// sleep](SockmapSplice::may_sleep).
    pub(crate) fn sleep(&mut self, connections: [BorrowedFd<'_>; 2]) -> io::Result<bool> {
        self.joint.sleep(connections)
    }

    /// Whether the process must wake up.
    pub(crate) fn poll_woken(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.joint.poll_woken(cx)
    }

    /// The process is awake.
    pub(crate) fn wake_up(&mut self, connections: [BorrowedFd<'_>; 2]) {
        self.joint.wake_up(connections);
    }

    pub(crate) fn is_in_map(&self, side: usize) -> bool {
        self.joint.is_in_map(side)
    }

    pub(crate) fn is_end_passed(&self, side: usize) -> bool {
        self.ways[side].is_end_passed
    }

    pub(crate) fn set_end_passed(&mut self, side: usize) {
        self.ways[side].is_end_passed = true;
    }

    /// Whether a socket is being taken out, so that nothing may be read from it.
    pub(crate) fn is_letting_go(&self, side: usize) -> bool {
        self.joint.is_leaving(side)
    }

    /// Takes a socket back from the kernel: the process relays what it receives from then on. Nothing may
    /// wait for this socket's own TCP. While it is pending, call it again before anything is read.
    pub(crate) fn poll_let_go(
        &mut self,
        cx: &mut Context<'_>,
        side: usize,
        [from, to]: [&TcpStream; 2],
        flow: &mut Flow,
        splicer: &Splicer,
    ) -> Poll<Result<(), Fault>> {
        let taken_before = self.ways[side].taken_before;
        let taken_out = self.joint.take_out(side, from, |joint| {
            let ends = Ends {
                splicer,
                from,
                to,
                prefix: &[],
                kernel: Some(KernelPart {
                    joint,
                    side,
                    taken_before,
                }),
                // The process does not write with splice(2) while the kernel has a part.
                is_from_owed: false,
            };
            // No more than is there now: a fast sender could go on forever.
            let left = joint.passed_bytes(side) - (flow.taken_bytes() - taken_before);
            flow.take_at_once(&ends, left)?;
            Ok(flow.taken_bytes() - taken_before)
        })?;
        let Some(sheltered) = taken_out else {
            // Another socket leaves the shelter by itself.
            if self.joint.is_leaving(side) {
                let began = *self.ways[side].letting_go.get_or_insert_with(|| {
                    self.looks = 0;
                    self.waits
                });
                if self.waits - began >= LEAVE_WAITS_MAX {
                    self.joint.give_up(side);
                    let source = ErrorKind::TimedOut.into();
                    return Poll::Ready(Err(Fault::new(Side::From, "bpf", source)));
                }
            }
            self.look_again(cx);
            return Poll::Pending;
        };
        self.looks = 0;
        flow.hold_more(splicer, &sheltered);
        // The kernel's backlog goes first; splice(2) may be used again once nothing is held.
        self.ways[side].is_drained = false;
        flow.set_choice(Choice::Auto);
        self.count(side, flow, splicer.counters());
        Poll::Ready(Ok(()))
    }

    /// Bytes of both directions in flight inside the kernel; `None` if a connection is gone.
    pub(crate) fn backlog_bytes(&self, sockets: [&TcpStream; 2]) -> Option<u64> {
        let mut sum = 0;
        for (side, way) in self.ways.iter().enumerate() {
            if !way.is_end_passed {
                sum += self.joint.backlog_bytes(side, sockets[1 - side]).ok()??;
            }
        }
        Some(sum)
    }

    /// Leaves everything to the process from now on.
    pub(crate) fn stop(&self, sockets: [&TcpStream; 2]) {
        for (side, socket) in sockets.into_iter().enumerate().take(self.ways.len()) {
            self.joint.stop(side, socket);
        }
    }

    /// Takes the connections back from the kernel, with everything it held for the process. If it does not
    /// let go in time, the connections are visibly broken rather than left with a gap, and this returns an
    /// error. May be dropped and called again.
    pub(crate) fn poll_leave(
        &mut self,
        cx: &mut Context<'_>,
        sockets: [&TcpStream; 2],
        flows: &mut [&mut Flow],
        splicer: &Splicer,
    ) -> Poll<Result<(), Fault>> {
        if self.leaving.is_none() {
            self.stop(sockets);
            for (side, flow) in flows.iter_mut().enumerate() {
                // Before anything is taken: it tells where the boundary is.
                self.count(side, flow, splicer.counters());
            }
            self.looks = 0;
        }
        let began = *self.leaving.get_or_insert(self.waits);
        // What the kernel held for a closed connection is gone with it.
        let is_drained = matches!(self.backlog_bytes(sockets), None | Some(0));
        if !is_drained && self.waits - began < LEAVE_WAITS_MAX {
            self.look_again(cx);
            return Poll::Pending;
        }
        let is_whole = is_drained && ready!(self.poll_take_back(cx, sockets, flows, splicer));
        self.finish(flows, splicer.counters());
        if is_whole {
            return Poll::Ready(Ok(()));
        }
        splicer.counters().socket_broken.add(1);
        for socket in sockets {
            let _ = tcp::reset_on_close(socket);
        }
        let source = io::Error::other("the kernel did not give the connections back whole");
        Poll::Ready(Err(Fault::new(Side::From, "bpf", source)))
    }

    /// Takes both sockets out. False if one did not come out whole.
    fn poll_take_back(
        &mut self,
        cx: &mut Context<'_>,
        sockets: [&TcpStream; 2],
        flows: &mut [&mut Flow],
        splicer: &Splicer,
    ) -> Poll<bool> {
        for (side, flow) in flows.iter_mut().enumerate() {
            // Nothing follows the end of the stream.
            let is_to_go = self.is_in_map(side) && !flow.is_at_end_of_stream();
            if is_to_go || self.is_letting_go(side) {
                let ends = [sockets[side], sockets[1 - side]];
                if ready!(self.poll_let_go(cx, side, ends, flow, splicer)).is_err() {
                    return Poll::Ready(false);
                }
            }
        }
        Poll::Ready(true)
    }

    /// Polls again soon: peers that send wake the process, too.
    fn look_again(&mut self, cx: &mut Context<'_>) {
        if self.looks < LOOKS_AT_ONCE {
            self.looks += 1;
            std::thread::yield_now();
            cx.waker().wake_by_ref();
            return;
        }
        let next = Instant::now() + LOOK_AGAIN;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(next)));
        if timer.as_mut().poll(cx).is_ready() {
            self.waits = self.waits.saturating_add(1);
            timer.as_mut().reset(next);
            if timer.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
    }

    /// Counts the rest.
    pub(crate) fn finish(&mut self, flows: &mut [&mut Flow], counters: &Counters) {
        for (side, flow) in flows.iter_mut().enumerate() {
            self.count(side, flow, counters);
            counters
                .socket_passed_bytes
                .add(self.joint.passed_bytes(side));
        }
    }
}

/// Whether nothing waits at either socket. If something does, it is read.
fn is_quiet(sockets: [&TcpStream; 2], flows: &mut [&mut Flow]) -> Result<bool, Refusal> {
    for (side, socket) in sockets.into_iter().enumerate() {
        match sys::peek_anyway(socket) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(true) => {
                flows.iter_mut().for_each(|flow| flow.look_anyway());
                return Ok(false);
            }
            Ok(false) => return Err(Refusal::Kernel(ErrorKind::UnexpectedEof.into())),
            // What tells of an error tells once.
            Err(source) => {
                let fault = Fault::new(Side::From, "recv", source);
                return Err(Refusal::Broken(side, fault));
            }
        }
    }
    Ok(true)
}

/// The fault of a closed connection.
fn lost(side: Side, stream: &TcpStream) -> Fault {
    let source = match stream.take_error() {
        Ok(Some(error)) | Err(error) => error,
        Ok(None) => ErrorKind::ConnectionReset.into(),
    };
    Fault::new(side, "poll", source)
}
