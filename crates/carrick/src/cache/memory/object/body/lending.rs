//! Lending memory to a connection instead of having the kernel copy it (`vmsplice(2)`, `splice(2)`): see [`slots`](crate::cache::memory).
use super::storage::windows;
use crate::cache::memory::chunk::{CHUNK_BYTES, Chunk};
use crate::net::io::Stream;
use rustix::io::retry_on_intr;
use rustix::pipe::{
    IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice, vmsplice,
};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::OwnedFd;
use tokio::io::Interest;

/// Chunks that are lent at once, and the room of the pipe. With half of it, the calls cost more; more saves nothing.
const STEP_CHUNKS: usize = 4;

/// What went to a connection.
pub(super) struct Lent {
    pub(super) bytes: usize,
    /// Whether the connection takes no more. It counts as not writable from then on.
    pub(super) is_full: bool,
}

/// A pipe, which is empty.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

thread_local! {
    static PIPE: RefCell<Option<Pipe>> = const { RefCell::new(None) };
}

/// Lends some of the bytes of whole `chunks` to a TCP connection, from the first one of `range` on. With `more`, something follows them.
///
/// # Errors
/// `Unsupported`: they have to be copied. `WouldBlock` if the connection takes none; else those of `splice(2)`.
pub(super) fn lend<S: Stream>(
    to: &S,
    chunks: &[Chunk],
    range: Range<u64>,
    more: bool,
) -> io::Result<Lent> {
    let copy = || io::Error::from(ErrorKind::Unsupported);
    let tcp = to.tcp().ok_or_else(copy)?;
    let first = usize::try_from(range.start).map_err(|_| copy())? / CHUNK_BYTES;
    let lent = (chunks.iter().skip(first).take(STEP_CHUNKS)).take_while(|chunk| chunk.lend());
    let end = range.end.min(((first + lent.count()) * CHUNK_BYTES) as u64);
    let pieces: Vec<_> = windows(chunks, range.start, end.saturating_sub(range.start))
        .map(IoSliceRaw::from_slice)
        .collect();
    if pieces.is_empty() {
        return Err(copy());
    }
    let pipe = PIPE.take().or_else(open).ok_or_else(copy)?;
    #[expect(unsafe_code, reason = "the kernel refers to the bytes after the call")]
    // SAFETY: they are in slots that are marked as lent: they do not change as long as anything refers to their pages.
    let queued = unsafe { vmsplice(&pipe.write, &pieces, SpliceFlags::NONBLOCK) };
    let queued = queued.ok().filter(|queued| *queued > 0).ok_or_else(copy)?;
    let mut flags = SpliceFlags::NONBLOCK;
    if more || range.start + (queued as u64) < range.end {
        flags |= SpliceFlags::MORE;
    }
    let mut bytes = 0;
    let result = tcp.try_io(Interest::WRITABLE, || {
        while bytes < queued {
            let rest = queued - bytes;
            bytes += match retry_on_intr(|| splice(&pipe.read, None, tcp, None, rest, flags))? {
                0 => return Err(ErrorKind::WriteZero.into()),
                moved => moved,
            };
        }
        Ok(())
    });
    let is_full = bytes < queued;
    if !is_full {
        // One that is not empty is closed: what is in it must not get to another connection.
        PIPE.set(Some(pipe));
    }
    match result {
        Err(error) if bytes == 0 => Err(error),
        _ => Ok(Lent { bytes, is_full }),
    }
}

fn open() -> Option<Pipe> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    let room = fcntl_setpipe_size(&write, STEP_CHUNKS * CHUNK_BYTES).ok()?;
    (room >= STEP_CHUNKS * CHUNK_BYTES).then_some(Pipe { read, write })
}
