//! Where the bytes of a body are.
use super::{Body, BodyProgress, BodyState, copy};
use crate::cache::disk::File;
use crate::cache::ledger::Charge;
use crate::cache::memory::accounting::Memory;
use crate::cache::memory::chunk::{CHUNK_BYTES, Chunk};
use crate::cache::memory::object::Object;
use rustix::io::{pread, retry_on_intr};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, OnceLock};

/// Where the bytes are.
#[derive(Debug)]
pub(in crate::cache::memory) enum Storage {
    /// In one allocation.
    Heap(Box<[u8]>),
    /// In the object itself.
    Inside(Arc<Object>),
    /// In several.
    Chunks(Box<[Chunk]>),
    /// In a file of the disk's.
    File(Arc<File>),
    /// In another body that ended early: these are its first bytes.
    Beginning(Arc<Body>),
    /// In several other bodies.
    Pieces(Box<[Piece]>),
}

/// Some bytes of a representation, in a body of their own. Offsets are those of the representation.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Which bytes are taken from it.
    pub range: Range<u64>,
    /// The offset of the body's first byte; it is not after `range.start`.
    pub start: u64,
    /// The body.
    pub body: Arc<Body>,
}

/// What a piece takes besides its bytes: itself, the body's description, and the allocator's overhead.
pub(in crate::cache::memory) const PIECE_BYTES: u64 = 300;

impl Storage {
    /// Fills `buffer` from `from`; there must be so many bytes.
    pub(super) fn read_at(&self, buffer: &mut [u8], from: u64) -> io::Result<()> {
        match self {
            Self::Heap(bytes) => copy(bytes, from, buffer),
            Self::Inside(object) => copy(object.inside(), from, buffer),
            Self::Chunks(chunks) => copy_chunks(chunks, from, buffer),
            Self::Beginning(of) => {
                let read = of.read_at(buffer, from)?;
                debug_assert_eq!(read, buffer.len());
            }
            Self::Pieces(pieces) => read_pieces(pieces, buffer, from)?,
            Self::File(file) => read_file(file.file()?, buffer, file.start() + from)?,
        }
        Ok(())
    }
}

/// Adds a piece to others, in order. Where they overlap, the new one keeps the bytes; pieces of which nothing is left are dropped.
/// `None`: one of the others has all bytes of the new one.
pub(in crate::cache::memory) fn joined(held: &[Piece], new: Piece) -> Option<Vec<Piece>> {
    let inside = |outer: &Range<u64>, inner: &Range<u64>| {
        outer.start <= inner.start && inner.end <= outer.end
    };
    if held.iter().any(|piece| inside(&piece.range, &new.range)) {
        return None;
    }
    let mut pieces = Vec::with_capacity(held.len() + 1);
    for piece in held {
        let mut piece = piece.clone();
        // The new one is not inside of it, so at most one end is cut off.
        if piece.range.start < new.range.start {
            piece.range.end = piece.range.end.min(new.range.start);
        } else {
            piece.range.start = piece.range.start.max(new.range.end);
        }
        if !piece.range.is_empty() {
            pieces.push(piece);
        }
    }
    let place = pieces.partition_point(|piece| piece.range.start < new.range.start);
    pieces.insert(place, new);
    Some(pieces)
}

impl Body {
    /// A body of these pieces, which are in order and do not overlap. The ledger has taken [`PIECE_BYTES`] for each.
    pub(in crate::cache::memory) fn of_pieces(memory: Arc<Memory>, pieces: Vec<Piece>) -> Self {
        let progress = BodyProgress {
            bytes: pieces.last().map_or(0, |piece| piece.range.end),
            state: BodyState::Whole,
        };
        let charge = PIECE_BYTES * pieces.len() as u64;
        Self {
            memory,
            progress: progress.word().into(),
            charge: Charge::new(charge),
            storage: OnceLock::from(Storage::Pieces(pieces.into())),
            kept: Mutex::default(),
            moved: OnceLock::new(),
            under_way: None.into(),
        }
    }

    /// The pieces that it is made of; none if it has all bytes itself.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        match self.storage.get() {
            Some(Storage::Pieces(pieces)) => pieces,
            _ => &[],
        }
    }

    /// The piece that has the byte at `from`.
    pub(super) fn piece(&self, from: u64) -> Option<&Piece> {
        piece(self.pieces(), from)
    }
}

/// The piece that has the byte at `from`.
fn piece(pieces: &[Piece], from: u64) -> Option<&Piece> {
    let place = pieces.partition_point(|piece| piece.range.end <= from);
    pieces.get(place).filter(|piece| piece.range.start <= from)
}

/// Fills `buffer` from `from` of a representation.
fn read_pieces(pieces: &[Piece], mut buffer: &mut [u8], mut from: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let piece = piece(pieces, from).ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = usize::try_from(piece.range.end - from)
            .map_or(buffer.len(), |bytes| bytes.min(buffer.len()));
        let (now, later) = buffer.split_at_mut(bytes);
        if piece.body.read_at(now, from - piece.start)? < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        from += bytes as u64;
        buffer = later;
    }
    Ok(())
}

/// The parts of `chunks` that have `bytes` bytes from `from` on; there must be so many.
pub(super) fn windows(chunks: &[Chunk], from: u64, bytes: u64) -> impl Iterator<Item = &[u8]> {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut skipped = from % CHUNK_BYTES;
    let chunks = chunks.get(from / CHUNK_BYTES..).unwrap_or_default();
    chunks.iter().map_while(move |chunk| {
        let here = chunk.bytes().get(skipped..).unwrap_or_default();
        let here = &here[..here.len().min(left)];
        skipped = 0;
        left -= here.len();
        (!here.is_empty()).then_some(here)
    })
}

/// Fills `buffer` from `from` of `chunks`; there must be so many bytes.
pub(super) fn copy_chunks(chunks: &[Chunk], from: u64, mut buffer: &mut [u8]) {
    for window in windows(chunks, from, buffer.len() as u64) {
        let (now, later) = buffer.split_at_mut(window.len());
        now.copy_from_slice(window);
        buffer = later;
    }
    debug_assert!(buffer.is_empty(), "counted bytes exist");
}

/// Fills `buffer` from `at` of a file.
fn read_file(file: impl AsFd, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let read = retry_on_intr(|| pread(&file, &mut *buffer, at))?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[read..];
        at += read as u64;
    }
    Ok(())
}
