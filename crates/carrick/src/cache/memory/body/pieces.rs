//! A body that is made of others, each of which has some bytes of a representation. Offsets are those of the representation.
use super::place::Place;
use super::{Body, Have, State};
use crate::cache::ledger::Charge;
use crate::cache::memory::accounting::Memory;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Some bytes of a representation, in a body of their own.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Which bytes are taken from it.
    pub range: Range<u64>,
    /// The offset of the body's first byte, which is not after them.
    pub start: u64,
    /// Where they are.
    pub body: Arc<Body>,
}

/// What a piece takes besides its bytes: itself, its body's description, and what the allocator adds.
pub(in super::super) const PIECE_BYTES: u64 = 300;

/// Pieces and one more, in order. What they have in common is taken from the new one; those of which nothing is left are
/// left out. `None`: the others have all that the new one has.
pub(in super::super) fn joined(held: &[Piece], new: Piece) -> Option<Vec<Piece>> {
    let inside = |outer: &Range<u64>, inner: &Range<u64>| {
        outer.start <= inner.start && inner.end <= outer.end
    };
    if held.iter().any(|piece| inside(&piece.range, &new.range)) {
        return None;
    }
    let mut pieces = Vec::with_capacity(held.len() + 1);
    for piece in held {
        let mut piece = piece.clone();
        // It is not inside of this one, so that one end at most is cut off.
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
    /// A body of these, which are in order and have no byte in common. The ledger has taken [`PIECE_BYTES`] for each.
    pub(in super::super) fn of_pieces(memory: Arc<Memory>, pieces: Vec<Piece>) -> Self {
        let have = Have {
            bytes: pieces.last().map_or(0, |piece| piece.range.end),
            state: State::Whole,
        };
        let charge = PIECE_BYTES * pieces.len() as u64;
        let place = OnceLock::new();
        let _ = place.set(Place::Pieces(pieces.into()));
        Self {
            memory,
            have: have.word().into(),
            charge: Charge::new(charge),
            place,
            kept: arc_swap::ArcSwapOption::empty(),
            under_way: None.into(),
        }
    }

    /// The bodies that it is made of; none of a body that has all of its bytes itself.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        match self.place.get() {
            Some(Place::Pieces(pieces)) => pieces,
            _ => &[],
        }
    }

    /// The piece that has the byte at `from`.
    pub(super) fn piece(&self, from: u64) -> Option<&Piece> {
        piece(self.pieces(), from)
    }
}

/// The one of `pieces` that has the byte at `from`.
pub(super) fn piece(pieces: &[Piece], from: u64) -> Option<&Piece> {
    let place = pieces.partition_point(|piece| piece.range.end <= from);
    pieces.get(place).filter(|piece| piece.range.start <= from)
}

/// Fills `buffer` from `from`.
pub(super) fn read_at(pieces: &[Piece], mut buffer: &mut [u8], mut from: u64) -> io::Result<()> {
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
