//! The two queues of S3-FIFO (Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023), by bytes.
//!
//! New objects enter the *small* queue, a tenth of the bytes. At its end, objects that were hit go to the *main* queue, and the others
//! are evicted, but remembered for a while ([`Ghost`](super::ghost::Ghost)): if they return, they enter the main queue at once. At its
//! end, objects that were hit go round again. A hit is a plain store into the object; nothing is moved.
use super::nodes::{NONE, Nodes};

/// A queue of [`Nodes`], doubly linked. New ones enter at the head.
#[derive(Debug)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
    bytes: u64,
    is_main: bool,
}

impl Queue {
    pub(super) fn new(is_main: bool) -> Self {
        Self {
            head: NONE,
            tail: NONE,
            bytes: 0,
            is_main,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The node that entered first.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    pub(super) fn push<T>(&mut self, nodes: &mut Nodes<T>, place: u32, bytes: u64) {
        let head = self.head;
        let node = nodes.get_mut(place);
        node.newer = NONE;
        node.older = head;
        node.set_weight(bytes, self.is_main);
        self.bytes += node.weight();
        match head {
            NONE => self.tail = place,
            head => nodes.get_mut(head).newer = place,
        }
        self.head = place;
    }

    pub(super) fn remove<T>(&mut self, nodes: &mut Nodes<T>, place: u32) {
        let node = nodes.get(place);
        let (newer, older) = (node.newer, node.older);
        self.bytes -= node.weight();
        match newer {
            NONE => self.head = older,
            newer => nodes.get_mut(newer).older = older,
        }
        match older {
            NONE => self.tail = newer,
            older => nodes.get_mut(older).newer = newer,
        }
    }

    /// Counts the bytes of a node again.
    pub(super) fn weigh_again<T>(&mut self, nodes: &mut Nodes<T>, place: u32, bytes: u64) {
        let node = nodes.get_mut(place);
        self.bytes -= node.weight();
        node.set_weight(bytes, self.is_main);
        self.bytes += node.weight();
    }
}
