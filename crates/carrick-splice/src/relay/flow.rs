//! One direction: the bytes in flight between sender and receiver, and the loop that moves them.

mod in_flight;
mod put;
mod take;

use crate::choice::Chooser;
use crate::engine::sockmap::joint::Joint;
use crate::pacing::Turn;
use crate::relay::local_copy::Sink;
use crate::tcp::{UnreadLimit, UnreadWindow};
use crate::{Choice, End, Ended, Engine, Fault, HandOver, PaceHandle, Side, Splicer, sys};
use in_flight::InFlight;
use std::io;
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;

/// Bytes per poll, after which other tasks get their turn.
const TURN_BYTES: u64 = 1 << 20;

/// Bursts per poll, after which other tasks get their turn.
pub(crate) const TURN_BURSTS: u32 = 32;

/// The connections that a flow runs between, and its tools.
pub(crate) struct Ends<'e> {
    pub(crate) splicer: &'e Splicer,
    pub(crate) from: &'e TcpStream,
    pub(crate) to: &'e TcpStream,
    pub(crate) prefix: &'e [u8],
    /// The kernel's part in this direction, if it has one.
    pub(crate) kernel: Option<KernelPart<'e>>,
    /// Whether the other direction waits to write to `from`.
    pub(crate) is_from_owed: bool,
}

/// The kernel's state of a direction that it handles.
#[derive(Clone, Copy)]
pub(crate) struct KernelPart<'e> {
    pub(crate) joint: &'e Joint,
    /// The sender's side of the joint.
    pub(crate) side: usize,
    /// What the flow had taken before the kernel joined in.
    pub(crate) taken_before: u64,
}

impl Ends<'_> {
    /// Whether the kernel has left bytes to the process that it has not read yet, given how many it has
    /// taken.
    fn has_more(&self, taken_bytes: u64) -> bool {
        self.kernel.is_some_and(|part| {
            part.joint.passed_bytes(part.side) != taken_bytes - part.taken_before
        })
    }

    /// Whether an apparent end of stream is a reset that was reported elsewhere and not passed on. A socket
    /// error is reported once, and `splice(2)` to a socket drops it if it has moved a part of the bytes
    /// (`splice_to_socket`, fs/splice.c); the next read then returns an end. Only a connection to which
    /// nothing more is to be written disappears without a reset.
    fn is_reset_unseen(&self) -> bool {
        self.is_from_owed && sys::is_hung_up(self.from)
    }
}

/// The result of polling a flow.
#[derive(Debug)]
pub(crate) enum Step {
    /// The boundary is reached, and everything is written.
    Ended(Ended),
    /// A connection failed.
    Fault(Fault),
    /// It waits for this side: for input from the sender, or for room at the receiver.
    Blocked(Side),
    /// It could go on at once, and has arranged to be polled again.
    Yield,
    /// It could go on, but pacing holds it.
    Held,
}

/// One direction of a splice.
pub(crate) struct Flow {
    in_flight: InFlight,
    chooser: Chooser,
    engine: Engine,
    /// Bytes that may still be taken; `u64::MAX` if the end of the stream is the boundary.
    remaining_bytes: u64,
    taken_bytes: u64,
    written_bytes: u64,
    /// Bytes that the kernel forwarded: neither taken nor written here.
    forwarded_bytes: u64,
    forwarded_by: Engine,
    prefix_sent_bytes: usize,
    at_end_of_stream: bool,
    pass_end: bool,
    ended: Option<Ended>,
    /// Bytes of the sender's beyond the boundary.
    surplus: Vec<u8>,
    /// Read once without waiting for readiness.
    look_anyway: bool,
    /// Stop after each burst.
    burst_by_burst: bool,
    /// The last poll ended with its turn, not with an empty socket.
    yielded: bool,
    /// The end of the stream was read while the kernel still held bytes for the process.
    ended_early: bool,
    copy_counted: bool,
    pipe_counted: bool,
    /// Its pacing, if any.
    turn: Option<Box<Turn>>,
    /// The limit on the sender's receive window, if that may grow.
    unread: Option<Box<UnreadWindow>>,
}

impl Flow {
    pub(crate) fn new(
        splicer: &Splicer,
        choice: Choice,
        end: End,
        expected: Option<u64>,
        sink: &Sink<'_>,
    ) -> Flow {
        let (remaining_bytes, length) = match end {
            End::AfterBytes(bytes) => (bytes, Some(bytes)),
            End::EndOfStream => (u64::MAX, expected),
        };
        let (chooser, reason) = Chooser::new(choice, length, sink.is_for_process());
        splicer.counters().reason(reason).add(1);
        Flow {
            in_flight: InFlight::Nothing,
            engine: chooser.engine(remaining_bytes),
            chooser,
            remaining_bytes,
            taken_bytes: 0,
            written_bytes: 0,
            forwarded_bytes: 0,
            forwarded_by: Engine::Socket,
            prefix_sent_bytes: 0,
            at_end_of_stream: false,
            pass_end: false,
            ended: None,
            surplus: Vec::new(),
            look_anyway: false,
            burst_by_burst: false,
            yielded: false,
            ended_early: false,
            copy_counted: false,
            pipe_counted: false,
            turn: None,
            unread: None,
        }
    }

    /// Sets what may queue at the sender's connection.
    pub(crate) fn set_unread(&mut self, limit: UnreadLimit) {
        self.unread = limit.may_grow().then(|| Box::new(UnreadWindow::new(limit)));
    }

    /// How it is paced.
    pub(crate) fn set_pace(&mut self, pace: PaceHandle) {
        self.turn = (!pace.is_none()).then(|| Box::new(Turn::new(pace)));
    }

    /// How it is paced.
    pub(crate) fn pace(&self) -> PaceHandle {
        self.turn
            .as_ref()
            .map_or_else(PaceHandle::default, |turn| turn.handle())
    }

    /// See [`Turn::take_was_held_long`].
    pub(crate) fn take_was_held_long(&mut self) -> bool {
        self.turn
            .as_mut()
            .is_some_and(|turn| turn.take_was_held_long())
    }

    /// Whether the end of the stream is passed on to the receiver.
    pub(crate) fn set_pass_end(&mut self, pass_end: bool) {
        self.pass_end = pass_end;
    }

    /// Ends each poll after one burst, as if no more were there, so that the caller decides about the rest.
    pub(crate) fn set_burst_by_burst(&mut self, burst_by_burst: bool) {
        self.burst_by_burst = burst_by_burst;
    }

    /// Changes the engine for what follows.
    pub(crate) fn set_choice(&mut self, choice: Choice) {
        (self.chooser, _) = Chooser::new(choice, None, false);
    }

    /// Records what the kernel has forwarded.
    pub(crate) fn set_forwarded_bytes(&mut self, bytes: u64) {
        if self.remaining_bytes != u64::MAX {
            self.remaining_bytes -= bytes - self.forwarded_bytes;
        }
        if let Some(window) = &mut self.unread {
            window.note(bytes - self.forwarded_bytes);
        }
        self.forwarded_bytes = bytes;
    }

    /// Bytes recorded as forwarded by the kernel.
    pub(crate) fn forwarded_bytes(&self) -> u64 {
        self.forwarded_bytes
    }

    /// Bytes still to come from the sender; `u64::MAX` if the end of the stream is the boundary.
    pub(crate) fn remaining_bytes(&self) -> u64 {
        self.remaining_bytes
    }

    /// Whether the sender has sent its FIN, and everything before it was taken.
    pub(crate) fn is_at_end_of_stream(&self) -> bool {
        self.at_end_of_stream
    }

    /// Bytes of the body written so far, including the kernel's.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes + self.forwarded_bytes
    }

    /// Bytes of the body that the process has written.
    pub(crate) fn relayed_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Bytes of the body that the process has taken.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Whether bytes are in flight here.
    pub(crate) fn holds_bytes(&self) -> bool {
        !matches!(self.in_flight, InFlight::Nothing)
    }

    /// Whether all of the caller's prefix is written.
    pub(crate) fn has_sent(&self, prefix: &[u8]) -> bool {
        self.prefix_sent_bytes == prefix.len()
    }

    /// Whether the end of the stream was read too early since the last call.
    pub(crate) fn take_ended_early(&mut self) -> bool {
        std::mem::take(&mut self.ended_early)
    }

    /// All bytes written so far, a measure of progress.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.written_bytes() + self.prefix_sent_bytes as u64
    }

    /// Sets the kernel's engine that forwards.
    pub(crate) fn set_forwarded_by(&mut self, engine: Engine) {
        self.forwarded_by = engine;
    }

    /// The engine in use, or used last; the kernel's if it has forwarded most of the bytes.
    pub(crate) fn engine(&self) -> Engine {
        if self.forwarded_bytes > self.written_bytes {
            return self.forwarded_by;
        }
        self.engine
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether everything up to the boundary has been taken from the sender.
    pub(crate) fn is_all_taken(&self) -> bool {
        self.remaining_bytes == 0 || self.at_end_of_stream
    }

    /// Whether `copied_bytes` are all bytes up to the boundary.
    pub(crate) fn is_copy_complete(&self, copied_bytes: u64) -> bool {
        let until_end_of_stream = self.remaining_bytes == u64::MAX;
        copied_bytes == self.taken_bytes
            && (self.remaining_bytes == 0 || until_end_of_stream && self.at_end_of_stream)
    }

    /// Makes the next poll read without waiting for readiness, until nothing is left: for what was queued before
    /// an event could report it.
    pub(crate) fn look_anyway(&mut self) {
        self.look_anyway = true;
    }

    /// Moves what can be moved without waiting.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        ends: &Ends<'_>,
        sink: &mut Sink<'_>,
    ) -> Step {
        if let Some(ended) = self.ended {
            return Step::Ended(ended);
        }
        let turn_end = self.written_bytes.saturating_add(TURN_BYTES);
        let mut bursts = 0;
        let mut woken = !std::mem::take(&mut self.yielded);
        loop {
            if matches!(self.in_flight, InFlight::Nothing) && !self.is_all_taken() {
                let before = self.taken_bytes;
                match self.take_paced(cx, ends, sink, &mut woken) {
                    Poll::Ready(Ok(())) => {
                        bursts += 1;
                        self.note_read(ends.from, self.taken_bytes - before);
                    }
                    Poll::Ready(Err(fault)) => {
                        // The caller's prefix was sent before the sender failed.
                        let _ = self.send_prefix(ends, false);
                        return Step::Fault(fault);
                    }
                    Poll::Pending if self.prefix_sent_bytes == ends.prefix.len() => {
                        return self.waiting();
                    }
                    Poll::Pending => {}
                }
            }
            match self.put_all(cx, ends, sink) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(fault)) => return Step::Fault(fault),
                Poll::Pending => return Step::Blocked(Side::To),
            }
            if self.is_all_taken() {
                return self.finish(ends);
            }
            if self.burst_by_burst {
                return Step::Blocked(Side::From);
            }
            if bursts >= TURN_BURSTS || self.written_bytes >= turn_end {
                self.yielded = true;
                cx.waker().wake_by_ref();
                return Step::Yield;
            }
        }
    }

    /// Moves one burst, if pacing allows.
    fn take_paced(
        &mut self,
        cx: &mut Context<'_>,
        ends: &Ends<'_>,
        sink: &mut Sink<'_>,
        woken: &mut bool,
    ) -> Poll<Result<(), Fault>> {
        let Some(turn) = self.turn.as_mut() else {
            return self.take(cx, ends, sink, std::mem::take(woken));
        };
        turn.is_held = false;
        let pacer = ends.splicer.pacer();
        // Does not ask for a turn without data to move.
        if !self.look_anyway {
            ready!(ends.from.poll_read_ready(cx)).map_err(from_fault("poll"))?;
            // splice(2) does not report an empty queue, so the readiness may be stale. A turn for nothing
            // would be kept for the next data, which would then not wait for the worker.
            if turn.is_about_to_ask(pacer)
                && let Err(error) = sys::has_input(ends.from)
            {
                if error.kind() != io::ErrorKind::WouldBlock {
                    return Poll::Ready(Err(from_fault("recv")(error)));
                }
                ready!(ends.from.poll_read_ready(cx)).map_err(from_fault("poll"))?;
            }
        }
        turn.allowed_bytes = match turn.poll(cx, pacer, ends.to) {
            Poll::Ready(bytes) => bytes,
            Poll::Pending => {
                turn.is_held = true;
                return Poll::Pending;
            }
        };
        let before = self.taken_bytes;
        let taken = self.take(cx, ends, sink, std::mem::take(woken));
        self.note_pace(ends.splicer, self.taken_bytes - before);
        taken
    }

    /// Records bytes taken from the sender.
    fn note_pace(&mut self, splicer: &Splicer, bytes: u64) {
        if let Some(turn) = &mut self.turn {
            turn.took(splicer.pacer(), bytes);
        }
    }

    /// Records bytes that the process took from the sender; those of the kernel are recorded already.
    pub(crate) fn note_read(&mut self, from: &TcpStream, bytes: u64) {
        if let Some(window) = &mut self.unread {
            window.took(from, bytes);
        }
    }

    /// Grows the sender's window if needed. Returns after how many bytes to call it again; `None`: it does
    /// not grow.
    pub(crate) fn grow_window(&mut self, from: &TcpStream) -> Option<u64> {
        let window = self.unread.as_mut()?;
        window.took(from, 0);
        window.until_look()
    }

    /// Whether pacing holds it back.
    pub(crate) fn is_held(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.is_held)
    }

    /// What the flow waits for.
    fn waiting(&self) -> Step {
        if self.is_held() {
            Step::Held
        } else {
            Step::Blocked(Side::From)
        }
    }

    /// How much of this room pacing allows to fill.
    fn at_most(&self, room: usize) -> usize {
        let allowed_bytes = self
            .turn
            .as_ref()
            .map_or(u64::MAX, |turn| turn.allowed_bytes);
        let bytes = self.remaining_bytes.min(allowed_bytes);
        usize::try_from(bytes).map_or(room, |bytes| room.min(bytes))
    }

    /// Everything is written: passes the FIN on if requested.
    fn finish(&mut self, ends: &Ends<'_>) -> Step {
        let ended = if self.remaining_bytes == 0 {
            Ended::Bytes
        } else {
            Ended::EndOfStream
        };
        if self.at_end_of_stream
            && self.pass_end
            && let Err(source) = sys::shutdown_write(ends.to)
        {
            return Step::Fault(to_fault("shutdown")(source));
        }
        self.ended = Some(ended);
        Step::Ended(ended)
    }

    /// The flow is over: it leaves the pacing queue.
    pub(crate) fn end_pace(&mut self, splicer: &Splicer) {
        if let Some(turn) = &mut self.turn {
            turn.release(splicer.pacer());
        }
    }

    /// Returns the buffer or pipe to its pool, and drops the bytes in it.
    pub(crate) fn release(&mut self, splicer: &Splicer) {
        match std::mem::replace(&mut self.in_flight, InFlight::Nothing) {
            InFlight::Nothing => {}
            InFlight::Buffer { buffer, .. } => splicer.put_buffer(buffer),
            InFlight::Pipe(held) => {
                splicer.put_pipe(held.pipe, held.bytes);
                if let Some(copy_pipe) = held.copy_pipe {
                    splicer.put_pipe(copy_pipe, 0);
                }
            }
        }
    }

    /// The receiver is gone: gives the held bytes that the local copy lacks to it, and drops them.
    pub(crate) fn abandon_receiver(&mut self, splicer: &Splicer, sink: &mut Sink<'_>) {
        if let InFlight::Pipe(held) = &mut self.in_flight {
            held.skip_copied(splicer);
            if held.copied_bytes == 0 && sink.is_wanted() {
                held.bytes = sink.write_from(&held.pipe, held.bytes, splicer);
            }
        }
        self.release(splicer);
    }

    /// Whether bytes beyond the boundary were taken.
    pub(crate) fn has_surplus(&self) -> bool {
        !self.surplus.is_empty()
    }

    /// Takes the bytes in flight, for the owner of the connections.
    pub(crate) fn hand_over(&mut self, splicer: &Splicer, prefix_bytes: usize) -> HandOver {
        let mut unsent = Vec::new();
        match &mut self.in_flight {
            InFlight::Nothing => {}
            InFlight::Buffer { buffer, start, end } => {
                unsent.extend_from_slice(&buffer[*start..*end])
            }
            InFlight::Pipe(held) => held.read_out(&mut unsent),
        }
        self.release(splicer);
        if !unsent.is_empty() {
            splicer.counters().unsplices.add(1);
        }
        HandOver {
            bytes: self.written_bytes(),
            unsent,
            surplus: std::mem::take(&mut self.surplus),
            prefix_unsent: prefix_bytes - self.prefix_sent_bytes,
            engine: self.engine(),
            copied_bytes: 0,
            copy_complete: false,
        }
    }
}

fn from_fault(call: &'static str) -> impl Fn(io::Error) -> Fault {
    move |source| Fault::new(Side::From, call, source)
}

fn to_fault(call: &'static str) -> impl Fn(io::Error) -> Fault {
    move |source| Fault::new(Side::To, call, source)
}
