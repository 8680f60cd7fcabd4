//! One direction: what was taken from the sender and not yet written to the receiver, and the loop that moves it.

use crate::choice::Chooser;
use crate::local_copy::Sink;
use crate::pipe::Pipe;
use crate::{Choice, End, Ended, Engine, Fault, HandOver, Reason, Side, Splicer, sys};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::task::{Context, Poll, ready};
use tokio::net::TcpStream;

/// After so many bytes in one poll, other tasks get their turn.
const TURN_BYTES: u64 = 1 << 20;

/// After so many bursts in one poll, other tasks get their turn.
pub(crate) const TURN_BURSTS: u32 = 32;

/// What a flow runs between, and with.
pub(crate) struct Ends<'e> {
    pub(crate) splicer: &'e Splicer,
    pub(crate) from: &'e TcpStream,
    pub(crate) to: &'e TcpStream,
    pub(crate) prefix: &'e [u8],
}

/// Where a poll of a flow left it.
#[derive(Debug)]
pub(crate) enum Step {
    /// The agreed end is reached, and everything is written.
    Ended(Ended),
    /// A connection failed.
    Fault(Fault),
    /// It waits for this side: for input from the sender, or for room at the receiver.
    Blocked(Side),
    /// It could go on at once, and has seen to being polled again.
    Yield,
}

/// Bytes in flight: taken from the sender, not yet written to the receiver.
enum Held {
    Nothing,
    Buffer {
        buffer: Box<[u8]>,
        start: usize,
        end: usize,
    },
    Pipe(InPipe),
}

/// Bytes in flight in a pipe. Its first `copied_bytes` were given to the local copy.
struct InPipe {
    pipe: Pipe,
    bytes: usize,
    copied_bytes: usize,
    copy_pipe: Option<Pipe>,
}

/// One direction of a splice.
pub(crate) struct Flow {
    held: Held,
    chooser: Chooser,
    engine: Engine,
    /// Bytes that may still be taken; `u64::MAX` if the end of the stream is the end.
    remaining_bytes: u64,
    taken_bytes: u64,
    written_bytes: u64,
    prefix_sent_bytes: usize,
    at_end_of_stream: bool,
    pass_end: bool,
    ended: Option<Ended>,
    /// Read once without waiting for readiness.
    look_anyway: bool,
    /// The last poll ended with its turn, not with an empty socket.
    yielded: bool,
    copy_counted: bool,
    pipe_counted: bool,
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
            held: Held::Nothing,
            engine: chooser.engine(remaining_bytes),
            chooser,
            remaining_bytes,
            taken_bytes: 0,
            written_bytes: 0,
            prefix_sent_bytes: 0,
            at_end_of_stream: false,
            pass_end: false,
            ended: None,
            look_anyway: false,
            yielded: false,
            copy_counted: false,
            pipe_counted: false,
        }
    }

    /// Whether the end of the stream is passed on to the receiver.
    pub(crate) fn set_pass_end(&mut self, pass_end: bool) {
        self.pass_end = pass_end;
    }

    /// Bytes of the body written so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// All bytes written so far: grows with every sign of life.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.written_bytes + self.prefix_sent_bytes as u64
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether everything up to the agreed end has been taken from the sender.
    pub(crate) fn is_all_taken(&self) -> bool {
        self.remaining_bytes == 0 || self.at_end_of_stream
    }

    /// Whether `copied_bytes` are all bytes up to the agreed end.
    pub(crate) fn is_copy_complete(&self, copied_bytes: u64) -> bool {
        let until_end_of_stream = self.remaining_bytes == u64::MAX;
        copied_bytes == self.taken_bytes
            && (self.remaining_bytes == 0 || until_end_of_stream && self.at_end_of_stream)
    }

    /// The next poll reads without waiting for readiness. `splice(2)` stops at urgent data and `recv(2)` stops before it,
    /// with more in the queue and no new event to come (`tcp_read_sock`, `tcp_recvmsg_locked`); a look now and then keeps
    /// such a connection from standing still.
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
            if matches!(self.held, Held::Nothing) && !self.is_all_taken() {
                match self.take(cx, ends, sink, std::mem::take(&mut woken)) {
                    Poll::Ready(Ok(())) => bursts += 1,
                    Poll::Ready(Err(fault)) => {
                        // What the caller holds was sent before the sender failed.
                        let _ = self.send_prefix(ends, false);
                        return Step::Fault(fault);
                    }
                    Poll::Pending if self.prefix_sent_bytes == ends.prefix.len() => {
                        return Step::Blocked(Side::From);
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
            if bursts >= TURN_BURSTS || self.written_bytes >= turn_end {
                self.yielded = true;
                cx.waker().wake_by_ref();
                return Step::Yield;
            }
        }
    }

    /// Everything is written: passes the end on if that is wanted.
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

    /// Takes one burst from the sender. `woken`: an event said that there is something to be taken.
    fn take(
        &mut self,
        cx: &mut Context<'_>,
        ends: &Ends<'_>,
        sink: &mut Sink<'_>,
        woken: bool,
    ) -> Poll<Result<(), Fault>> {
        if std::mem::take(&mut self.look_anyway) && self.take_anyway(ends, sink)? {
            return Poll::Ready(Ok(()));
        }
        loop {
            ready!(ends.from.poll_read_ready(cx)).map_err(from_fault("poll"))?;
            let taken = match self.chooser.engine(self.remaining_bytes) {
                Engine::Pipe => self.take_into_pipe(ends, sink, woken),
                Engine::Copy => self.take_into_buffer(ends, sink),
            };
            match taken {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(fault) if fault.source.kind() == ErrorKind::WouldBlock => {}
                Err(fault) => return Poll::Ready(Err(fault)),
            }
        }
    }

    fn take_into_buffer(&mut self, ends: &Ends<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let mut buffer = ends.splicer.take_buffer();
        let room = at_most(buffer.len(), self.remaining_bytes);
        let received = sys::receive(ends.from, &mut buffer[..room]);
        self.hold_buffer(ends, sink, buffer, room, received)
    }

    /// Reads without waiting for readiness. False if nothing is there.
    fn take_anyway(&mut self, ends: &Ends<'_>, sink: &mut Sink<'_>) -> Result<bool, Fault> {
        let mut buffer = ends.splicer.take_buffer();
        let room = at_most(buffer.len(), self.remaining_bytes);
        let received = sys::receive_anyway(ends.from, &mut buffer[..room]);
        match self.hold_buffer(ends, sink, buffer, room, received) {
            Ok(()) => Ok(true),
            Err(fault) if fault.source.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Keeps what was received into `buffer`, of which `room` bytes were offered, or gives the buffer back.
    fn hold_buffer(
        &mut self,
        ends: &Ends<'_>,
        sink: &mut Sink<'_>,
        buffer: Box<[u8]>,
        room: usize,
        received: io::Result<usize>,
    ) -> Result<(), Fault> {
        match received {
            Ok(bytes @ 1..) => {
                sink.write(&buffer[..bytes]);
                let filled = bytes == room && room == buffer.len();
                self.held = Held::Buffer {
                    buffer,
                    start: 0,
                    end: bytes,
                };
                self.note_burst(ends, Engine::Copy, bytes, filled);
                Ok(())
            }
            Ok(_) => {
                ends.splicer.put_buffer(buffer);
                self.at_end_of_stream = true;
                Ok(())
            }
            Err(error) => {
                ends.splicer.put_buffer(buffer);
                Err(from_fault("recv")(error))
            }
        }
    }

    fn take_into_pipe(
        &mut self,
        ends: &Ends<'_>,
        sink: &mut Sink<'_>,
        woken: bool,
    ) -> Result<(), Fault> {
        let Some(pipe) = ends.splicer.take_pipe() else {
            ends.splicer
                .counters()
                .reason(Reason::PipesExhausted)
                .add(1);
            return self.take_into_buffer(ends, sink);
        };
        let copy_pipe = if sink.is_wanted() {
            let Some(copy_pipe) = ends.splicer.take_pipe() else {
                ends.splicer.put_pipe(pipe, 0);
                ends.splicer
                    .counters()
                    .reason(Reason::PipesExhausted)
                    .add(1);
                return self.take_into_buffer(ends, sink);
            };
            Some(copy_pipe)
        } else {
            None
        };
        let room = at_most(pipe.size_bytes(), self.remaining_bytes);
        match pipe.fill(ends.from, room) {
            Ok(bytes @ 1..) => {
                self.held = Held::Pipe(InPipe {
                    pipe,
                    bytes,
                    copied_bytes: 0,
                    copy_pipe,
                });
                self.note_burst(
                    ends,
                    Engine::Pipe,
                    bytes,
                    bytes >= ends.splicer.limits().copy_buffer_bytes,
                );
                return Ok(());
            }
            outcome => {
                ends.splicer.put_pipe(pipe, 0);
                if let Some(copy_pipe) = copy_pipe {
                    ends.splicer.put_pipe(copy_pipe, 0);
                }
                match outcome {
                    // splice(2) says so, too, when urgent data is first in the queue: recv(2) knows.
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock && !woken => {
                        return Err(from_fault("splice")(error));
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) if is_refusal(&error) => {
                        ends.splicer
                            .counters()
                            .reason(Reason::PipesExhausted)
                            .add(1);
                        return self.take_into_buffer(ends, sink);
                    }
                    Err(error) => return Err(from_fault("splice")(error)),
                }
            }
        }
        if self.take_anyway(ends, sink)? {
            Ok(())
        } else {
            Err(from_fault("recv")(ErrorKind::WouldBlock.into()))
        }
    }

    #[inline]
    fn note_burst(&mut self, ends: &Ends<'_>, engine: Engine, bytes: usize, filled: bool) {
        self.engine = engine;
        self.note_taken(bytes);
        let counters = ends.splicer.counters();
        match engine {
            Engine::Copy if !self.copy_counted => {
                self.copy_counted = true;
                counters.copy_splices.add(1);
            }
            Engine::Pipe if !self.pipe_counted => {
                self.pipe_counted = true;
                counters.pipe_splices.add(1);
            }
            _ => {}
        }
        if let Some(reason) = self.chooser.observe(bytes, filled) {
            counters.reason(reason).add(1);
        }
    }

    #[inline]
    fn note_taken(&mut self, bytes: usize) {
        self.taken_bytes += bytes as u64;
        if self.remaining_bytes != u64::MAX {
            self.remaining_bytes -= bytes as u64;
        }
    }

    /// Writes the prefix and everything held.
    fn put_all(
        &mut self,
        cx: &mut Context<'_>,
        ends: &Ends<'_>,
        sink: &mut Sink<'_>,
    ) -> Poll<Result<(), Fault>> {
        while self.prefix_sent_bytes < ends.prefix.len() || !matches!(self.held, Held::Nothing) {
            match self.put(ends, sink) {
                Ok(()) => {}
                Err(fault) if fault.source.kind() == ErrorKind::WouldBlock => {
                    match ends.to.poll_write_ready(cx) {
                        Poll::Ready(ready) => ready.map_err(to_fault("poll"))?,
                        Poll::Pending => {
                            self.hold_less(ends.splicer);
                            return Poll::Pending;
                        }
                    }
                }
                Err(fault) => return Poll::Ready(Err(fault)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// One write to the receiver.
    fn put(&mut self, ends: &Ends<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        match &mut self.held {
            Held::Nothing => self.send_prefix(ends, false),
            Held::Buffer { buffer, start, end } => {
                let prefix = &ends.prefix[self.prefix_sent_bytes..];
                let sent = sys::send(ends.to, prefix, &buffer[*start..*end], false)
                    .map_err(to_fault("send"))?;
                let of_prefix = sent.min(prefix.len());
                self.prefix_sent_bytes += of_prefix;
                *start += sent - of_prefix;
                let emptied = start == end;
                self.note_written(ends, Engine::Copy, sent - of_prefix, emptied);
                Ok(())
            }
            Held::Pipe(_) if self.prefix_sent_bytes < ends.prefix.len() => {
                self.send_prefix(ends, true)
            }
            Held::Pipe(held) => {
                let bytes = held.bytes_to_send(ends, sink);
                let sent = held
                    .pipe
                    .drain(ends.to, bytes, false)
                    .map_err(to_fault("splice"))?;
                held.bytes -= sent;
                held.copied_bytes = held.copied_bytes.saturating_sub(sent);
                let emptied = held.bytes == 0;
                self.note_written(ends, Engine::Pipe, sent, emptied);
                Ok(())
            }
        }
    }

    fn send_prefix(&mut self, ends: &Ends<'_>, more: bool) -> Result<(), Fault> {
        let prefix = &ends.prefix[self.prefix_sent_bytes..];
        if !prefix.is_empty() {
            self.prefix_sent_bytes +=
                sys::send(ends.to, prefix, &[], more).map_err(to_fault("send"))?;
        }
        Ok(())
    }

    #[inline]
    fn note_written(&mut self, ends: &Ends<'_>, engine: Engine, bytes: usize, emptied: bool) {
        self.written_bytes += bytes as u64;
        let counters = ends.splicer.counters();
        match engine {
            Engine::Copy => counters.copy_bytes.add(bytes as u64),
            Engine::Pipe => counters.pipe_bytes.add(bytes as u64),
        }
        if emptied {
            self.release(ends.splicer);
        }
    }

    /// A receiver that takes its time does not keep a whole buffer for the little that is left in it.
    fn hold_less(&mut self, splicer: &Splicer) {
        if let Held::Buffer { buffer, start, end } = &mut self.held
            && *end - *start <= buffer.len() / 4
        {
            splicer.shrink(buffer, *start..*end);
            (*start, *end) = (0, buffer.len());
        }
    }

    /// Gives the buffer or pipe back to its pool, and forgets the bytes in it.
    pub(crate) fn release(&mut self, splicer: &Splicer) {
        match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Nothing => {}
            Held::Buffer { buffer, .. } => splicer.put_buffer(buffer),
            Held::Pipe(held) => {
                splicer.put_pipe(held.pipe, held.bytes);
                if let Some(copy_pipe) = held.copy_pipe {
                    splicer.put_pipe(copy_pipe, 0);
                }
            }
        }
    }

    /// The receiver is gone: gives what is held to the local copy, as far as it has not had it, and forgets it.
    pub(crate) fn abandon_receiver(&mut self, splicer: &Splicer, sink: &mut Sink<'_>) {
        if let Held::Pipe(held) = &mut self.held {
            held.skip_copied(splicer);
            if held.copied_bytes == 0 && sink.is_wanted() {
                held.bytes = sink.write_from(&held.pipe, held.bytes, splicer);
            }
        }
        self.release(splicer);
    }

    /// Reads one piece from the sender for the local copy only.
    pub(crate) fn poll_copy_only(
        &mut self,
        cx: &mut Context<'_>,
        ends: &Ends<'_>,
        sink: &mut Sink<'_>,
        bytes_max: u64,
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ends.splicer.take_buffer();
        let room = at_most(buffer.len(), self.remaining_bytes.min(bytes_max));
        let received = loop {
            match sys::receive(ends.from, &mut buffer[..room]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    match ends.from.poll_read_ready(cx) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                        Poll::Pending => break Poll::Pending,
                    }
                }
                received => break Poll::Ready(received),
            }
        };
        if let Poll::Ready(Ok(bytes)) = received {
            sink.write(&buffer[..bytes]);
            self.at_end_of_stream = bytes == 0;
            self.note_taken(bytes);
        }
        ends.splicer.put_buffer(buffer);
        received
    }

    /// Takes the bytes in flight out, for the owner of the connections.
    pub(crate) fn hand_over(&mut self, splicer: &Splicer, prefix_bytes: usize) -> HandOver {
        let mut unsent = Vec::new();
        match &mut self.held {
            Held::Nothing => {}
            Held::Buffer { buffer, start, end } => unsent.extend_from_slice(&buffer[*start..*end]),
            Held::Pipe(held) => held.read_out(&mut unsent),
        }
        self.release(splicer);
        let counters = splicer.counters();
        if !unsent.is_empty() {
            counters.unsplices.add(1);
            counters.unspliced_bytes.add(unsent.len() as u64);
        }
        HandOver {
            bytes: self.written_bytes,
            unsent,
            prefix_unsent: prefix_bytes - self.prefix_sent_bytes,
            engine: self.engine,
            copied_bytes: 0,
            copy_complete: false,
        }
    }
}

impl InPipe {
    /// How many bytes from the front may be sent now. With a local copy: only such as it has had, because tee(2) copies
    /// from the front and must find there what it has not copied yet.
    fn bytes_to_send(&mut self, ends: &Ends<'_>, sink: &mut Sink<'_>) -> usize {
        if self.copied_bytes > 0 || !sink.is_wanted() {
            return if self.copied_bytes > 0 {
                self.copied_bytes
            } else {
                self.bytes
            };
        }
        let Some(copy_pipe) = self.copy_pipe.take() else {
            return self.bytes;
        };
        match self.pipe.tee(&copy_pipe, self.bytes) {
            Ok(teed) => {
                let left = sink.write_from(&copy_pipe, teed, ends.splicer);
                self.copied_bytes = teed;
                if left == 0 {
                    self.copy_pipe = Some(copy_pipe);
                } else {
                    ends.splicer.put_pipe(copy_pipe, left);
                }
                if teed > 0 { teed } else { self.bytes }
            }
            Err(error) => {
                sink.fail(error);
                ends.splicer.put_pipe(copy_pipe, 0);
                self.bytes
            }
        }
    }

    /// Drops from the front what the local copy has had.
    fn skip_copied(&mut self, splicer: &Splicer) {
        let mut buffer = splicer.take_buffer();
        while self.copied_bytes > 0 {
            let room = buffer.len().min(self.copied_bytes);
            match self.pipe.read(&mut buffer[..room]) {
                Ok(read @ 1..) => {
                    self.copied_bytes -= read;
                    self.bytes -= read;
                }
                _ => break,
            }
        }
        splicer.put_buffer(buffer);
    }

    /// Appends what it holds to `out`.
    fn read_out(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.bytes, 0);
        let mut filled = start;
        while self.bytes > 0 {
            match self.pipe.read(&mut out[filled..]) {
                Ok(read @ 1..) => {
                    filled += read;
                    self.bytes -= read;
                }
                // A pipe whose both ends are ours and that holds bytes gives them.
                _ => break,
            }
        }
        debug_assert_eq!(
            self.bytes, 0,
            "a pipe gave fewer bytes than were put into it"
        );
        out.truncate(filled);
    }
}

/// The smaller of the two.
fn at_most(room: usize, bytes: u64) -> usize {
    usize::try_from(bytes).map_or(room, |bytes| room.min(bytes))
}

fn from_fault(call: &'static str) -> impl Fn(io::Error) -> Fault {
    move |source| Fault {
        side: Side::From,
        call,
        source,
    }
}

fn to_fault(call: &'static str) -> impl Fn(io::Error) -> Fault {
    move |source| Fault {
        side: Side::To,
        call,
        source,
    }
}

/// Whether splice(2) itself cannot be used, as under a seccomp filter or without memory, rather than the connection.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [
        Errno::INVAL,
        Errno::NOSYS,
        Errno::PERM,
        Errno::ACCESS,
        Errno::NOMEM,
        Errno::OPNOTSUPP,
    ];
    refusals
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
