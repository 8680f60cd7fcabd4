//! Where the bytes of a body are.
use super::super::arena::{Arena, in_pages};
use super::super::memory::Memory;
use super::pieces::{self, Piece};
use super::{Body, copy};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The first extent of a body whose length is not known, in bytes; each further one is twice as long.
const EXTENT_BYTES_MIN: u64 = 128 * 1024;

/// The longest extent, in bytes.
const EXTENT_BYTES_MAX: u64 = 4 << 20;

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum Place {
    /// In an allocation of their own.
    Heap(Box<[u8]>),
    /// In the arena, in one range from here.
    Range(u64),
    /// In the arena, in several.
    Extents(Box<Extents>),
    /// In another body that ended early, of which this is what came.
    Beginning(Arc<Body>),
    /// In several other bodies.
    Pieces(Box<[Piece]>),
}

/// Ranges of the arena that were taken one by one.
#[derive(Debug, Default)]
pub(super) struct Extents(Mutex<Vec<u64>>);

/// Bytes that are together: where they are in the arena, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u64,
    pub(super) bytes: u64,
}

impl Extents {
    fn starts(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the next extent is.
    pub(super) fn next_bytes(&self) -> u64 {
        extent(self.starts().len())
    }

    pub(super) fn push(&self, start: u64) {
        self.starts().push(start);
    }

    /// The bytes from `from` to the end of the extent that has it.
    pub(super) fn run(&self, from: u64) -> Option<Run> {
        let mut before = 0;
        for (number, start) in self.starts().iter().enumerate() {
            let bytes = extent(number);
            if from < before + bytes {
                let skipped = from - before;
                return Some(Run {
                    start: start + skipped,
                    bytes: bytes - skipped,
                });
            }
            before += bytes;
        }
        None
    }

    /// All of them, those that touch as one.
    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (number, &start) in self.starts().iter().enumerate() {
            let bytes = extent(number);
            match runs.last_mut() {
                Some(last) if last.start + last.bytes == start => last.bytes += bytes,
                _ => runs.push(Run { start, bytes }),
            }
        }
        runs
    }
}

/// How long the extent with this number is.
fn extent(number: usize) -> u64 {
    let doublings = EXTENT_BYTES_MAX.ilog2() - EXTENT_BYTES_MIN.ilog2();
    let doublings = u32::try_from(number).map_or(doublings, |number| number.min(doublings));
    EXTENT_BYTES_MIN << doublings
}

impl Place {
    /// Where in the arena the bytes from `from` on are; `None` if they are on the heap.
    pub(super) fn run(&self, from: u64) -> Option<Run> {
        match self {
            Self::Heap(_) | Self::Beginning(_) | Self::Pieces(_) => None,
            Self::Range(start) => Some(Run {
                start: start + from,
                bytes: u64::MAX - from,
            }),
            Self::Extents(extents) => extents.run(from),
        }
    }

    /// Fills `buffer` from `from`; so many bytes are there.
    pub(super) fn read_at(
        &self,
        memory: &Memory,
        mut buffer: &mut [u8],
        mut from: u64,
    ) -> io::Result<()> {
        match self {
            Self::Heap(bytes) => copy(bytes, from, buffer),
            Self::Beginning(of) => {
                let read = of.read_at(buffer, from)?;
                debug_assert_eq!(read, buffer.len());
            }
            Self::Pieces(pieces) => pieces::read_at(pieces, buffer, from)?,
            Self::Range(_) | Self::Extents(_) => {
                let arena = arena(memory)?;
                while !buffer.is_empty() {
                    let run = self.run(from).ok_or(io::ErrorKind::UnexpectedEof)?;
                    let bytes = usize::try_from(run.bytes)
                        .map_or(buffer.len(), |bytes| bytes.min(buffer.len()));
                    let (now, later) = buffer.split_at_mut(bytes);
                    arena.read_at(now, run.start)?;
                    from += bytes as u64;
                    buffer = later;
                }
            }
        }
        Ok(())
    }

    /// Gives the memory of the arena back; `charged` bytes were taken for it.
    pub(super) fn give_back(self, memory: &Memory, charged: u64) {
        let Some(arena) = memory.arena() else { return };
        match self {
            Self::Range(start) if charged > 0 => arena.punch(start, in_pages(charged)),
            Self::Extents(extents) => {
                for run in extents.runs() {
                    arena.punch(run.start, run.bytes);
                }
            }
            _ => {}
        }
    }
}

/// The arena, which is there if a place in it was given.
pub(super) fn arena(memory: &Memory) -> io::Result<&Arena> {
    memory.arena().ok_or(io::ErrorKind::Unsupported.into())
}
