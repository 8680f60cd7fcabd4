//! Memory that one thread writes, once, from the first byte to the last, while others read what is written.
use rustix::io::retry_on_intr;
use rustix::net::RecvFlags;
use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The length of a body's chunks, except the last, which may be shorter.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// What a chunk takes besides its bytes: its description, the allocator's overhead, its entry in the list.
pub(super) const OVERHEAD_BYTES: u64 = 96;

/// The readers' side. Clones share the memory.
#[derive(Clone)]
pub(super) struct Chunk(Arc<Shared>);

struct Shared {
    /// How many cells are written, from the first on. They never change again.
    written_bytes: AtomicUsize,
    cells: Box<[UnsafeCell<MaybeUninit<u8>>]>,
}

#[expect(
    unsafe_code,
    reason = "the cells forbid it: the comment below says which are shared, and when"
)]
// SAFETY: cells below `written_bytes` are only read. The others are only touched by the one `ChunkWriter`, which counts them (`Release`)
// when it does not touch them any more. Readers read that count first (`Acquire`).
unsafe impl Sync for Shared {}

impl Chunk {
    /// The written bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        let written_bytes = self.0.written_bytes.load(Ordering::Acquire);
        let cells = &self.0.cells[..written_bytes];
        #[expect(unsafe_code, reason = "no safe type has bytes that are shared in part")]
        // SAFETY: these cells are initialised, and are not written any more; `UnsafeCell<MaybeUninit<u8>>` is laid out as `u8`.
        unsafe {
            slice::from_raw_parts(cells.as_ptr().cast(), cells.len())
        }
    }

    /// How many bytes it has room for.
    pub(super) fn room_bytes(&self) -> usize {
        self.0.cells.len()
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunk({} of {})", self.bytes().len(), self.room_bytes())
    }
}

/// The writer's side: one for each chunk.
#[derive(Debug)]
pub(super) struct ChunkWriter {
    chunk: Chunk,
    written_bytes: usize,
}

impl ChunkWriter {
    /// Makes an empty chunk with room for so many bytes; `None`: there is no memory.
    pub(super) fn begin(bytes: usize) -> Option<Self> {
        let mut cells = Vec::new();
        cells.try_reserve_exact(bytes).ok()?;
        #[expect(
            unsafe_code,
            reason = "writing them all would cost as much as receiving them"
        )]
        // SAFETY: they are allocated, and `MaybeUninit` needs no value.
        unsafe {
            cells.set_len(bytes);
        }
        Some(Self {
            chunk: Chunk(Arc::new(Shared {
                written_bytes: AtomicUsize::new(0),
                cells: cells.into_boxed_slice(),
            })),
            written_bytes: 0,
        })
    }

    /// The readers' side.
    pub(super) fn chunk(&self) -> &Chunk {
        &self.chunk
    }

    /// How many more bytes it has room for.
    pub(super) fn left_bytes(&self) -> usize {
        self.chunk.room_bytes() - self.written_bytes
    }

    /// Appends as many of `bytes` as there is room for; returns how many.
    pub(super) fn append(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.left_bytes());
        self.rest()[..count].write_copy_of_slice(&bytes[..count]);
        self.advance(count);
        count
    }

    /// Receives bytes, at most as many as it has room for; returns how many, 0 at the connection's end.
    ///
    /// # Errors
    /// Those of `recv(2)`.
    pub(super) fn receive(&mut self, from: impl AsFd) -> io::Result<usize> {
        let count = retry_on_intr(|| {
            let ((received, _), _) = rustix::net::recv(&from, self.rest(), RecvFlags::DONTWAIT)?;
            Ok(received.len())
        })?;
        self.advance(count);
        Ok(count)
    }

    /// The cells that are not written yet.
    fn rest(&mut self) -> &mut [MaybeUninit<u8>] {
        let rest = &self.chunk.0.cells[self.written_bytes..];
        #[expect(unsafe_code, reason = "no safe type has bytes that are shared in part")]
        // SAFETY: only this writer touches these cells, and it is borrowed as long as the slice is.
        unsafe {
            slice::from_raw_parts_mut(UnsafeCell::raw_get(rest.as_ptr()), rest.len())
        }
    }

    /// Shows the next `count` cells, which are initialised, to readers.
    fn advance(&mut self, count: usize) {
        self.written_bytes += count;
        self.chunk
            .0
            .written_bytes
            .store(self.written_bytes, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::ChunkWriter;
    use std::thread;

    #[test]
    fn what_is_written_can_be_read_and_no_more() {
        let mut writer = ChunkWriter::begin(10).unwrap();
        let chunk = writer.chunk().clone();
        assert_eq!((chunk.bytes(), writer.left_bytes()), (&b""[..], 10));
        assert_eq!(writer.append(b"abcdef"), 6);
        assert_eq!((chunk.bytes(), writer.left_bytes()), (&b"abcdef"[..], 4));
        let before = chunk.bytes();
        assert_eq!(writer.append(b"ghijkl"), 4);
        assert_eq!(writer.append(b"kl"), 0);
        assert_eq!(
            (before, chunk.bytes()),
            (&b"abcdef"[..], &b"abcdefghij"[..])
        );
        drop(writer);
        assert_eq!(chunk.bytes(), b"abcdefghij");
    }

    #[test]
    fn bytes_are_there_in_every_thread_once_they_are_counted() {
        let mut writer = ChunkWriter::begin(50_000).unwrap();
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let chunk = writer.chunk().clone();
                thread::spawn(move || {
                    let mut seen = 0;
                    while seen < 50_000 {
                        let bytes = chunk.bytes();
                        assert!(bytes.len() >= seen);
                        let new = (seen..).zip(&bytes[seen..]);
                        assert!(new.into_iter().all(|(at, byte)| *byte == (at * 7) as u8));
                        seen = bytes.len();
                    }
                })
            })
            .collect();
        let mut at = 0;
        while at < 50_000 {
            let piece: Vec<u8> = (at..at + 13).map(|at| (at * 7) as u8).collect();
            at += writer.append(&piece);
        }
        for reader in readers {
            reader.join().unwrap();
        }
    }
}
