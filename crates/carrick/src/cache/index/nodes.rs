//! The nodes of a shard's objects: 24 bytes each, in pieces that never move.
use std::sync::Arc;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// Nodes in one piece.
const PIECE: usize = 256;

/// Weights are multiples of this, so that 31 bits are enough.
const WEIGHT_UNIT_BYTES: u64 = 64;

const IS_MAIN: u32 = 1 << 31;

/// Links an object into its queue, and into the list of the variants of its key.
#[derive(Debug)]
pub(super) struct Node<T> {
    object: Option<Arc<T>>,
    pub(super) newer: u32,
    /// In a free node: the next free one.
    pub(super) older: u32,
    /// The next older variant of the same key.
    pub(super) next_variant: u32,
    weight: u32,
}

impl<T> Node<T> {
    pub(super) fn set_weight(&mut self, bytes: u64, is_main: bool) {
        let units = bytes.div_ceil(WEIGHT_UNIT_BYTES);
        let units = u32::try_from(units).unwrap_or(u32::MAX) & !IS_MAIN;
        self.weight = units | if is_main { IS_MAIN } else { 0 };
    }

    /// Bytes that are counted in its queue.
    pub(super) fn weight(&self) -> u64 {
        u64::from(self.weight & !IS_MAIN) * WEIGHT_UNIT_BYTES
    }

    pub(super) fn is_main(&self) -> bool {
        self.weight & IS_MAIN != 0
    }

    pub(super) fn object(&self) -> Option<&Arc<T>> {
        self.object.as_ref()
    }

    pub(super) fn swap(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        self.object.replace(object)
    }
}

/// All nodes of a shard.
#[derive(Debug)]
pub(super) struct Nodes<T> {
    pieces: Vec<Vec<Node<T>>>,
    free: u32,
}

impl<T> Nodes<T> {
    pub(super) fn new() -> Self {
        Self {
            pieces: Vec::new(),
            free: NONE,
        }
    }

    pub(super) fn get(&self, place: u32) -> &Node<T> {
        &self.pieces[place as usize / PIECE][place as usize % PIECE]
    }

    pub(super) fn get_mut(&mut self, place: u32) -> &mut Node<T> {
        &mut self.pieces[place as usize / PIECE][place as usize % PIECE]
    }

    /// The object of a node.
    pub(super) fn object(&self, place: u32) -> Option<&Arc<T>> {
        self.get(place).object.as_ref()
    }

    /// Makes a node for an object; `None` if there are four thousand million.
    pub(super) fn insert(&mut self, object: Arc<T>) -> Option<u32> {
        let node = Node {
            object: Some(object),
            newer: NONE,
            older: NONE,
            next_variant: NONE,
            weight: 0,
        };
        if self.free != NONE {
            let place = self.free;
            self.free = self.get(place).older;
            *self.get_mut(place) = node;
            return Some(place);
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let before = (self.pieces.len() - 1) * PIECE;
        let piece = self.pieces.last_mut()?;
        let place = u32::try_from(before + piece.len()).ok()?;
        if place == NONE {
            return None;
        }
        piece.push(node);
        Some(place)
    }

    /// Removes an object, and frees its node.
    pub(super) fn remove(&mut self, place: u32) -> Option<Arc<T>> {
        let free = self.free;
        let node = self.get_mut(place);
        let object = node.object.take();
        node.older = free;
        self.free = place;
        object
    }

    /// Adds up to `count` objects from a node on to `found`; returns the next node, if there is one.
    pub(super) fn some_from(
        &self,
        place: u32,
        count: usize,
        found: &mut Vec<Arc<T>>,
    ) -> Option<u32> {
        let end = self.pieces.len().checked_sub(1).map_or(0, |full| {
            full * PIECE + self.pieces.last().map_or(0, Vec::len)
        });
        let next = end.min(place as usize + count);
        for place in place as usize..next {
            let place = u32::try_from(place).unwrap_or(NONE);
            found.extend(self.object(place).cloned());
        }
        (next < end).then(|| u32::try_from(next).unwrap_or(NONE))
    }
}
