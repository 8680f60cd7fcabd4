//! Bytes in flight: where they are, and how they leave other than to the receiver.

use super::Ends;
use crate::Splicer;
use crate::relay::local_copy::Sink;
use crate::relay::pipe::Pipe;
use std::io::ErrorKind;

/// Bytes in flight: taken from the sender, not yet written to the receiver.
pub(super) enum InFlight {
    Nothing,
    Buffer {
        buffer: Box<[u8]>,
        start: usize,
        end: usize,
    },
    Pipe(InPipe),
}

/// Bytes in flight in a pipe. The first `copied_bytes` are in the local copy.
pub(super) struct InPipe {
    pub(super) pipe: Pipe,
    pub(super) bytes: usize,
    pub(super) copied_bytes: usize,
    pub(super) copy_pipe: Option<Pipe>,
}

impl InPipe {
    /// How many bytes from the front may be sent now. With a local copy, only bytes that it has: tee(2)
    /// copies from the front and must find there what is not copied yet.
    pub(super) fn bytes_to_send(&mut self, ends: &Ends<'_>, sink: &mut Sink<'_>) -> usize {
        if self.copied_bytes > 0 {
            return self.copied_bytes;
        }
        if !sink.is_wanted() {
            return self.bytes;
        }
        let Some(copy_pipe) = self.copy_pipe.take() else {
            return self.bytes;
        };
        let teed = match self.pipe.tee(&copy_pipe, self.bytes) {
            Ok(teed @ 1..) => teed,
            outcome => {
                // A copy must have no gaps.
                sink.fail(
                    outcome
                        .err()
                        .unwrap_or_else(|| ErrorKind::UnexpectedEof.into()),
                );
                ends.splicer.put_pipe(copy_pipe, 0);
                return self.bytes;
            }
        };
        let left = sink.write_from(&copy_pipe, teed, ends.splicer);
        self.copied_bytes = teed;
        if left == 0 {
            self.copy_pipe = Some(copy_pipe);
        } else {
            ends.splicer.put_pipe(copy_pipe, left);
        }
        teed
    }

    /// Drops from the front what the local copy has.
    pub(super) fn skip_copied(&mut self, splicer: &Splicer) {
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
    pub(super) fn read_out(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.bytes, 0);
        let mut filled = start;
        while self.bytes > 0 {
            match self.pipe.read(&mut out[filled..]) {
                Ok(read @ 1..) => {
                    filled += read;
                    self.bytes -= read;
                }
                // Reading a non-empty pipe of our own does not fail.
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
