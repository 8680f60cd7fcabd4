//! The receiving side of a TCP: reassembly, window, acknowledgements. Bytes are counted from `START`.

use super::START;
use std::collections::{BTreeMap, VecDeque};

/// RFC 2018 section 3: the number that fits beside timestamps.
const BLOCKS_MAX: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    Nothing,
    /// An acknowledgement, at this time.
    Later(u64),
    Now,
}

pub struct Receiving {
    mss: u64,
    room: usize,
    /// Received up to here, acknowledged up to here, allowed up to here.
    pub next: u64,
    pub told: u64,
    pub edge: u64,
    pub ready: VecDeque<u8>,
    /// Pieces behind a gap.
    parts: BTreeMap<u64, Vec<u8>>,
    end: Option<u64>,
    /// The end of the stream was received, in order.
    pub has_ended: bool,
    newest: u64,
    /// Data that arrived twice (RFC 2883).
    again: Option<(u64, u64)>,
    pub owed: Owed,
}

impl Receiving {
    pub fn new(mss: u64, room: usize, edge: u64) -> Receiving {
        Receiving {
            mss,
            room,
            next: START,
            told: START,
            edge,
            ready: VecDeque::new(),
            parts: BTreeMap::new(),
            end: None,
            has_ended: false,
            newest: 0,
            again: None,
            owed: Owed::Nothing,
        }
    }

    pub fn is_out_of_order(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Whether this would be new to the receiver.
    pub fn is_new(&self, from: u64, bytes: u64, is_end: bool) -> bool {
        if is_end && self.end.is_none() {
            return true;
        }
        let mut at = from.max(self.next);
        for (start, part) in &self.parts {
            if *start > at {
                break;
            }
            at = at.max(start + part.len() as u64);
        }
        bytes > 0 && at < from + bytes
    }

    /// Takes a piece within the window.
    pub fn take(&mut self, now: u64, from: u64, bytes: &[u8], is_end: bool, delay: u64) {
        let to = from + bytes.len() as u64;
        if is_end {
            self.end = Some(to);
        }
        if to + u64::from(is_end) <= self.next {
            self.again = Some((from, to + u64::from(is_end)));
            self.owed = Owed::Now;
            return;
        }
        let before = self.next;
        let old = (self.next.max(from) - from) as usize;
        if old < bytes.len() {
            let (from, bytes) = (from + old as u64, &bytes[old..]);
            let known = self.parts.entry(from).or_default();
            if known.len() >= bytes.len() && from > self.next {
                self.again = Some((from, to));
            } else if known.len() < bytes.len() {
                *known = bytes.to_vec();
            }
            self.newest = from;
        }
        let was_out_of_order = self.parts.len() > 1;
        while let Some((start, part)) = self.parts.first_key_value() {
            if *start > self.next {
                break;
            }
            let old = ((self.next - start) as usize).min(part.len());
            self.ready.extend(&part[old..]);
            self.next += (part.len() - old) as u64;
            self.parts.pop_first();
        }
        if self.end == Some(self.next) && !self.has_ended {
            self.has_ended = true;
            self.next += 1;
        }
        let is_plain = self.next > before && !was_out_of_order && self.parts.is_empty();
        // RFC 5681 section 4.2.
        if !is_plain || self.has_ended || self.next - self.told >= 2 * self.mss {
            self.owed = Owed::Now;
        } else if self.owed == Owed::Nothing {
            self.owed = Owed::Later(now + delay);
        }
    }

    /// Reads, and updates the sender if the window has opened substantially.
    pub fn read(&mut self, limit: usize) -> Vec<u8> {
        let count = limit.min(self.ready.len());
        let bytes = self.ready.drain(..count).collect();
        let current = self.edge.saturating_sub(self.next);
        let free = self.free();
        if count > 0 && free >= current + self.open_by() && current < 2 * self.mss {
            self.owed = Owed::Now;
        }
        bytes
    }

    fn free(&self) -> u64 {
        self.room.saturating_sub(self.ready.len()) as u64
    }

    /// Smaller window increases are not worth a packet (RFC 9293 section 3.8.6.2.2).
    fn open_by(&self) -> u64 {
        self.mss.min(self.room as u64 / 2)
    }

    /// The window field of a packet that leaves now. The window never shrinks (tcp_select_window).
    pub fn window(&mut self, shift: u8) -> u16 {
        let current = self.edge.saturating_sub(self.next).div_ceil(1 << shift);
        let free = if self.free() < self.open_by() {
            0
        } else {
            self.free() >> shift
        };
        let field = current.max(free).min(0xffff);
        self.edge = self.edge.max(self.next + (field << shift));
        self.told = self.next;
        self.owed = Owed::Nothing;
        field as u16
    }

    /// The data behind gaps, latest first (RFC 2018 section 4), preceded by duplicated data.
    pub fn blocks(&mut self) -> Vec<(u64, u64)> {
        let mut whole: Vec<(u64, u64)> = Vec::new();
        for (start, part) in &self.parts {
            let end = start + part.len() as u64;
            match whole.last_mut() {
                Some(last) if last.1 >= *start => last.1 = last.1.max(end),
                _ => whole.push((*start, end)),
            }
        }
        let newest = self.newest;
        whole.sort_by_key(|(from, to)| !(*from <= newest && newest < *to));
        if let Some(again) = self.again.take() {
            whole.insert(0, again);
        }
        whole.truncate(BLOCKS_MAX);
        whole
    }
}
