//! Sends an answer: head and body, framed, paced, and with the fault that was asked for.

use std::io::{self, IoSlice};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until};

use crate::content::{Body, PIECE_BYTES_MAX};

use super::answer::Answer;
use super::counters::Counters;
use super::faults::{Fault, FaultKind};
use super::sys::unacknowledged_bytes;
use super::wishes::Framing;

/// Chunks are put together up to this length before they are written.
const WIRE_BYTES: usize = 64 * 1024;
/// How much of a body with a rate is written at a time: what the rate allows in so many milliseconds.
const PACE_MS: u64 = 10;
/// How long a reset waits for the acknowledgement of what was sent before it, and how often it looks.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(10);
const ACKNOWLEDGED_LOOK: Duration = Duration::from_millis(1);

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The next request.
    GoesOn,
    /// FIN.
    Closes,
    /// RST.
    IsReset,
}

/// One answer on its way.
struct Pump<'a> {
    stream: &'a mut TcpStream,
    answer: &'a Answer,
    /// What of the head was not sent yet.
    head: &'a [u8],
    /// Chunks that were not sent yet.
    wire: &'a mut Vec<u8>,
    counters: &'a Counters,
    /// Bytes of the body that were sent or are in `wire`.
    sent: u64,
    /// Bytes up to the end of the chunk.
    chunk_left: u64,
    /// When the rate began to count, and from which byte.
    pace: Option<(Instant, u64)>,
}

/// Sends `head` and the body of `answer`. `wire` is scratch.
///
/// # Errors
/// When the client is gone.
pub async fn send(
    stream: &mut TcpStream,
    head: &[u8],
    answer: &Answer,
    wire: &mut Vec<u8>,
    counters: &Counters,
) -> io::Result<Fate> {
    wire.clear();
    let mut pump = Pump {
        stream,
        answer,
        head,
        wire,
        counters,
        sent: 0,
        chunk_left: 0,
        pace: None,
    };
    match answer.fault {
        None => {
            pump.until(answer.bytes, answer.bytes).await?;
            pump.finish().await?;
        }
        Some(fault) => {
            counters.faults[fault.kind.index()].add(1);
            if let Some(fate) = pump.fail(fault).await? {
                return Ok(fate);
            }
        }
    }
    Ok(if answer.closes {
        Fate::Closes
    } else {
        Fate::GoesOn
    })
}

impl Pump<'_> {
    /// Sends what comes before a fault, and makes it. `None`: the answer came to its end nevertheless.
    async fn fail(&mut self, fault: Fault) -> io::Result<Option<Fate>> {
        let whole = self.answer.bytes;
        let cut = fault.after.min(whole);
        match fault.kind {
            FaultKind::Garbage | FaultKind::Refuse => {
                self.flush().await?;
                Ok(Some(Fate::Closes))
            }
            FaultKind::Reset => {
                self.until(cut, whole).await?;
                self.flush().await?;
                self.acknowledged().await;
                Ok(Some(Fate::IsReset))
            }
            FaultKind::Close => {
                self.until(cut, whole).await?;
                self.flush().await?;
                Ok(Some(Fate::Closes))
            }
            FaultKind::BadChunk => {
                self.until(cut, cut).await?;
                if self.answer.framing == Framing::Chunked {
                    self.wire.extend_from_slice(b"zz\r\n");
                }
                self.flush().await?;
                Ok(Some(Fate::Closes))
            }
            FaultKind::Stall => {
                self.until(cut, whole).await?;
                self.flush().await?;
                sleep(Duration::from_millis(fault.stall_ms)).await;
                self.pace = None;
                self.until(whole, whole).await?;
                self.finish().await?;
                Ok(None)
            }
            FaultKind::Long => {
                self.until(whole, whole).await?;
                self.finish().await?;
                let mut surplus = 0;
                while surplus < fault.after {
                    let piece = Body::of_seed(0).piece(surplus, bounded(fault.after - surplus));
                    self.stream.write_all(piece).await?;
                    surplus += piece.len() as u64;
                }
                Ok(None)
            }
        }
    }

    /// Sends the body up to byte `stop`; `end` is where its last chunk ends.
    async fn until(&mut self, stop: u64, end: u64) -> io::Result<()> {
        while self.sent < stop {
            let before = self.sent;
            let count = (stop - self.sent).min(self.paced().await);
            if self.answer.framing == Framing::Chunked {
                self.render(count, end);
                if self.answer.rate_kbit.is_some() || self.wire.len() >= WIRE_BYTES {
                    self.flush().await?;
                }
            } else {
                self.sent += self.plain(count).await?;
            }
            self.counters.body_bytes.add(self.sent - before);
        }
        Ok(())
    }

    /// Sends at least one byte of the body, and at most `count`, without framing. From user space: `sendfile(2)` from a
    /// file in memory was tried, and cost the same CPU for 1 MiB and more for 64 KiB.
    async fn plain(&mut self, count: u64) -> io::Result<u64> {
        let answer = self.answer;
        let offset = answer.from + self.sent;
        let piece = answer.source.piece(offset, bounded(count));
        let head = std::mem::take(&mut self.head);
        write_both(self.stream, head, piece).await?;
        Ok(piece.len() as u64)
    }

    /// Puts at most `count` bytes of the body into `wire`, in chunks.
    fn render(&mut self, count: u64, end: u64) {
        let stop = self.sent + count;
        while self.sent < stop && self.wire.len() < WIRE_BYTES {
            if self.chunk_left == 0 {
                self.chunk_left = self.answer.chunk_bytes.min(end - self.sent);
                let line = format!("{:x}\r\n", self.chunk_left);
                self.wire.extend_from_slice(line.as_bytes());
            }
            let count = self.chunk_left.min(stop - self.sent).min(WIRE_BYTES as u64);
            let offset = self.answer.from + self.sent;
            let piece = self.answer.source.piece(offset, bounded(count));
            self.wire.extend_from_slice(piece);
            self.sent += piece.len() as u64;
            self.chunk_left -= piece.len() as u64;
            if self.chunk_left == 0 {
                self.wire.extend_from_slice(b"\r\n");
            }
        }
    }

    /// The end of the body, and everything that was not sent yet.
    async fn finish(&mut self) -> io::Result<()> {
        if self.answer.framing == Framing::Chunked {
            self.wire.extend_from_slice(b"0\r\n");
            for number in 1..=self.answer.trailers {
                let field = format!("X-Lab-Trailer-{number}: {number}\r\n");
                self.wire.extend_from_slice(field.as_bytes());
            }
            self.wire.extend_from_slice(b"\r\n");
        }
        self.flush().await
    }

    async fn flush(&mut self) -> io::Result<()> {
        let head = std::mem::take(&mut self.head);
        write_both(self.stream, head, self.wire).await?;
        self.wire.clear();
        Ok(())
    }

    /// Waits until the rate allows the next byte; how many it then allows at once.
    async fn paced(&mut self) -> u64 {
        let Some(rate_kbit) = self.answer.rate_kbit else {
            return u64::MAX;
        };
        let (started, from) = *self.pace.get_or_insert_with(|| (Instant::now(), self.sent));
        // Thousands of bits per second are bits per millisecond.
        let due_us = u128::from(self.sent - from) * 8000 / u128::from(rate_kbit);
        let due_us = u64::try_from(due_us).unwrap_or(u64::MAX);
        sleep_until(started + Duration::from_micros(due_us)).await;
        (rate_kbit * PACE_MS / 8).clamp(1, WIRE_BYTES as u64)
    }

    /// Waits until the client's kernel has what was sent: a reset throws away what is still on its way.
    async fn acknowledged(&self) {
        let patience = Instant::now() + ACKNOWLEDGED_WITHIN;
        while unacknowledged_bytes(self.stream).is_ok_and(|bytes| bytes > 0)
            && Instant::now() < patience
        {
            sleep(ACKNOWLEDGED_LOOK).await;
        }
    }
}

fn bounded(bytes: u64) -> usize {
    usize::try_from(bytes).map_or(PIECE_BYTES_MAX, |bytes| bytes.min(PIECE_BYTES_MAX))
}

/// Writes both, together as long as there is something of the first.
async fn write_both(stream: &mut TcpStream, mut first: &[u8], mut second: &[u8]) -> io::Result<()> {
    while !first.is_empty() {
        let written = stream
            .write_vectored(&[IoSlice::new(first), IoSlice::new(second)])
            .await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let of_first = written.min(first.len());
        first = &first[of_first..];
        second = &second[written - of_first..];
    }
    stream.write_all(second).await
}
