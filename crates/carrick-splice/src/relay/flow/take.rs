//! Taking bytes from the sender, into a buffer or a pipe.

use super::in_flight::{InFlight, InPipe};
use super::{Ends, Flow, from_fault};
use crate::relay::local_copy::Sink;
use crate::{Engine, Fault, Reason, Splicer, sys};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::task::{Context, Poll, ready};

impl Flow {
    /// Takes one burst from the sender. `woken`: an event reported input.
    pub(super) fn take(
        &mut self,
        cx: &mut Context<'_>,
        ends: &Ends<'_>,
        sink: &mut Sink<'_>,
        woken: bool,
    ) -> Poll<Result<(), Fault>> {
        if self.look_anyway {
            // What comes behind it need not make the socket readable, either.
            self.look_anyway = self.take_anyway(ends, sink)?;
            if self.look_anyway {
                return Poll::Ready(Ok(()));
            }
        }
        loop {
            ready!(ends.from.poll_read_ready(cx)).map_err(from_fault("poll"))?;
            let taken = match self.chooser.engine(self.remaining_bytes) {
                Engine::Pipe => self.take_into_pipe(ends, sink, woken),
                Engine::Copy | Engine::Socket | Engine::Packet => self.take_into_buffer(ends, sink),
            };
            match taken {
                Ok(()) => return Poll::Ready(Ok(())),
                // Readiness is not cleared; the kernel's part is checked again.
                Err(_) if self.ended_early => return Poll::Pending,
                Err(fault) if fault.source.kind() == ErrorKind::WouldBlock => {}
                Err(fault) => return Poll::Ready(Err(fault)),
            }
        }
    }

    fn take_into_buffer(&mut self, ends: &Ends<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let mut buffer = ends.splicer.take_buffer();
        let room = self.at_most(buffer.len());
        let received = sys::receive(ends.from, &mut buffer[..room]);
        self.hold_buffer(ends, sink, buffer, room, received)
    }

    /// Reads without waiting for readiness. False if nothing is there.
    fn take_anyway(&mut self, ends: &Ends<'_>, sink: &mut Sink<'_>) -> Result<bool, Fault> {
        let mut buffer = ends.splicer.take_buffer();
        let room = self.at_most(buffer.len());
        let received = sys::receive_anyway(ends.from, &mut buffer[..room]);
        match self.hold_buffer(ends, sink, buffer, room, received) {
            Ok(()) => Ok(true),
            Err(fault) if fault.source.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Keeps what was received into `buffer`, of which `room` bytes were offered, or returns the buffer.
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
                self.in_flight = InFlight::Buffer {
                    buffer,
                    start: 0,
                    end: bytes,
                };
                self.note_burst(ends, Engine::Copy, bytes, filled);
                Ok(())
            }
            Ok(_) => {
                ends.splicer.put_buffer(buffer);
                if ends.has_more(self.taken_bytes) {
                    self.ended_early = true;
                    return Err(from_fault("recv")(ErrorKind::WouldBlock.into()));
                }
                if ends.is_reset_unseen() {
                    return Err(from_fault("recv")(ErrorKind::ConnectionReset.into()));
                }
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
        let room = self.at_most(pipe.size_bytes());
        match pipe.fill(ends.from, room) {
            Ok(bytes @ 1..) => {
                self.in_flight = InFlight::Pipe(InPipe {
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
                    // splice(2) reports this, too, when urgent data is first in the queue; recv(2)
                    // distinguishes.
                    Ok(_) => {}
                    Err(error)
                        if error.kind() == ErrorKind::WouldBlock
                            && !woken
                            && !sys::is_at_mark(ends.from) =>
                    {
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
            self.look_anyway = true;
            Ok(())
        } else {
            Err(from_fault("recv")(ErrorKind::WouldBlock.into()))
        }
    }

    /// Takes at most this many bytes at once, without waiting: for a connection that is about to leave the
    /// kernel.
    pub(crate) fn take_at_once(&mut self, ends: &Ends<'_>, bytes_max: u64) -> Result<(), Fault> {
        debug_assert!(
            !matches!(self.in_flight, InFlight::Pipe(_)),
            "copied before"
        );
        let mut bytes = Vec::new();
        let mut buffer = ends.splicer.take_buffer();
        let outcome = loop {
            let room = at_most(buffer.len(), bytes_max - bytes.len() as u64);
            if room == 0 {
                break Ok(());
            }
            match sys::receive_anyway(ends.from, &mut buffer[..room]) {
                Ok(0) => {
                    let taken_bytes = self.taken_bytes + bytes.len() as u64;
                    self.at_end_of_stream |= !ends.has_more(taken_bytes);
                    break Ok(());
                }
                Ok(received) => {
                    bytes.extend_from_slice(&buffer[..received]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(from_fault("recv")(error)),
            }
        };
        ends.splicer.put_buffer(buffer);
        self.hold_more(ends.splicer, &bytes);
        self.note_pace(ends.splicer, bytes.len() as u64);
        outcome
    }

    /// Records bytes that were taken from the sender another way. They follow what is held, up to the
    /// boundary.
    pub(crate) fn hold_more(&mut self, splicer: &Splicer, more: &[u8]) {
        let (mine, surplus) = more.split_at(at_most(more.len(), self.remaining_bytes));
        self.surplus.extend_from_slice(surplus);
        self.note_taken(more.len());
        if mine.is_empty() {
            return;
        }
        let mut bytes = match &self.in_flight {
            InFlight::Buffer { buffer, start, end } => buffer[*start..*end].to_vec(),
            _ => Vec::new(),
        };
        self.release(splicer);
        bytes.extend_from_slice(mine);
        splicer.counters().buffers_in_use.add(1);
        self.in_flight = InFlight::Buffer {
            start: 0,
            end: bytes.len(),
            buffer: bytes.into_boxed_slice(),
        };
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
            // The surplus is taken, too.
            self.remaining_bytes = self.remaining_bytes.saturating_sub(bytes as u64);
        }
    }
}

/// The smaller of the two.
fn at_most(room: usize, bytes: u64) -> usize {
    usize::try_from(bytes).map_or(room, |bytes| room.min(bytes))
}

/// Whether the error means that splice(2) itself is unavailable, as under a seccomp filter or without memory,
/// rather than a fault of the connection.
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
