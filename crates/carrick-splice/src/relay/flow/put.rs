//! Writing to the receiver: the prefix, and what was taken.

use super::in_flight::InFlight;
use super::{Ends, Flow, to_fault};
use crate::relay::local_copy::Sink;
use crate::{Engine, Fault, Splicer, sys};
use std::io::ErrorKind;
use std::task::{Context, Poll};

impl Flow {
    /// Writes the prefix and everything held.
    pub(super) fn put_all(
        &mut self,
        cx: &mut Context<'_>,
        ends: &Ends<'_>,
        sink: &mut Sink<'_>,
    ) -> Poll<Result<(), Fault>> {
        while self.prefix_sent_bytes < ends.prefix.len()
            || !matches!(self.in_flight, InFlight::Nothing)
        {
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
        match &mut self.in_flight {
            InFlight::Nothing => self.send_prefix(ends, false),
            InFlight::Buffer { buffer, start, end } => {
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
            InFlight::Pipe(_) if self.prefix_sent_bytes < ends.prefix.len() => {
                self.send_prefix(ends, true)
            }
            InFlight::Pipe(held) => {
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

    pub(super) fn send_prefix(&mut self, ends: &Ends<'_>, more: bool) -> Result<(), Fault> {
        let prefix = &ends.prefix[self.prefix_sent_bytes..];
        if !prefix.is_empty() {
            self.prefix_sent_bytes +=
                sys::send(ends.to, prefix, &[], more).map_err(to_fault("send"))?;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn note_written(
        &mut self,
        ends: &Ends<'_>,
        engine: Engine,
        bytes: usize,
        emptied: bool,
    ) {
        self.written_bytes += bytes as u64;
        let counters = ends.splicer.counters();
        match engine {
            Engine::Copy => counters.copy_bytes.add(bytes as u64),
            Engine::Pipe => counters.pipe_bytes.add(bytes as u64),
            // The exchange counts the kernel's bytes.
            Engine::Socket | Engine::Packet => {}
        }
        if emptied {
            self.release(ends.splicer);
        }
    }

    /// A slow receiver does not keep a whole buffer for a small rest.
    fn hold_less(&mut self, splicer: &Splicer) {
        if let InFlight::Buffer { buffer, start, end } = &mut self.in_flight
            && *end - *start <= buffer.len() / 4
        {
            splicer.shrink(buffer, *start..*end);
            (*start, *end) = (0, buffer.len());
        }
    }
}
