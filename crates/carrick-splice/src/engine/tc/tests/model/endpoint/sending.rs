//! The sending side of a TCP: retransmission, congestion, the receiver's window. Bytes are counted from `START`.

use super::{SECOND, START};
use std::collections::VecDeque;

/// RFC 6298, with Linux's minimum; the maximum is small, so that a lost minute points to another fault.
const RTO_FIRST: u64 = SECOND;
const RTO_MIN: u64 = SECOND / 5;
const RTO_MAX: u64 = 8 * SECOND;
/// RFC 5681 section 3.2.
const DUPLICATES: u32 = 3;
/// In segments.
const WINDOW_FIRST: u64 = 10;
const WINDOW_MAX: u64 = 160;

/// A piece of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub from: u64,
    pub bytes: Vec<u8>,
    pub is_end: bool,
}

/// Lost data is retransmitted, from `from` up to `point`.
struct Recovery {
    point: u64,
    from: u64,
    /// After a time-out: everything that is not acknowledged. Otherwise, the gaps before acknowledged data.
    is_timeout: bool,
    /// Otherwise: how many pieces may still be sent.
    credit: u32,
}

pub struct Sending {
    mss: u64,
    room: usize,
    /// Acknowledged up to here, sent up to here, allowed up to here, written up to here.
    pub una: u64,
    pub next: u64,
    pub edge: u64,
    pub end: u64,
    pub has_end: bool,
    /// The highest byte ever sent.
    pub sent_max: u64,
    bytes: VecDeque<u8>,
    sacked: Vec<(u64, u64)>,
    window: u64,
    threshold: u64,
    duplicates: u32,
    recovery: Option<Recovery>,
    smoothed: Option<(u64, u64)>,
    rto: u64,
    backoff: u32,
    /// A piece whose acknowledgement is timed, and since when; `None` once anything is retransmitted (Karn).
    timed: Option<(u64, u64)>,
    /// When to retransmit, or to probe a closed window.
    pub timer: Option<u64>,
}

/// What to do when the timer has expired.
#[derive(Debug, PartialEq, Eq)]
pub enum Alarm {
    No,
    /// Retransmit.
    Again,
    /// The window is closed: a probe is due; the piece fits into the open part of the window.
    Probe(Option<Piece>),
}

impl Sending {
    pub fn new(mss: u64, room: usize, edge: u64) -> Sending {
        Sending {
            mss,
            room,
            una: START,
            next: START,
            edge,
            end: START,
            has_end: false,
            sent_max: START,
            bytes: VecDeque::new(),
            sacked: Vec::new(),
            window: WINDOW_FIRST * mss,
            threshold: u64::MAX,
            duplicates: 0,
            recovery: None,
            smoothed: None,
            rto: RTO_FIRST,
            backoff: 0,
            timed: None,
            timer: None,
        }
    }

    /// Behind the last byte, or the end of the stream.
    pub fn limit(&self) -> u64 {
        self.end + u64::from(self.has_end)
    }

    pub fn room(&self) -> usize {
        self.room.saturating_sub(self.bytes.len())
    }

    pub fn write(&mut self, bytes: &[u8]) -> usize {
        assert!(!self.has_end || bytes.is_empty());
        let taken = bytes.len().min(self.room());
        self.bytes.extend(&bytes[..taken]);
        self.end += taken as u64;
        taken
    }

    fn in_flight(&self) -> u64 {
        let sacked: u64 = self.sacked.iter().map(|(from, to)| to - from).sum();
        (self.next - self.una).saturating_sub(sacked)
    }

    fn piece(&self, from: u64, to: u64) -> Piece {
        let start = (from - self.una) as usize;
        let length = (to.min(self.end) - from.min(self.end)) as usize;
        Piece {
            from,
            bytes: self.bytes.range(start..start + length).copied().collect(),
            is_end: to > self.end,
        }
    }

    /// The piece that may be sent now, if any.
    pub fn next_piece(&mut self, now: u64) -> Option<Piece> {
        if let Some(piece) = self.lost_piece() {
            self.timed = None;
            self.start_timer(now);
            return Some(piece);
        }
        if self.next == self.limit() || self.in_flight() >= self.window {
            return None;
        }
        let mut to = (self.next + self.mss).min(self.end);
        if to == self.end && self.has_end && self.end < self.edge {
            to += 1;
        }
        // Data that fits only partly waits for the timer, as in Linux (tcp_snd_wnd_test).
        if to > self.edge || to == self.next {
            self.start_timer_once(now);
            return None;
        }
        let piece = self.piece(self.next, to);
        self.next = to;
        self.sent_max = self.sent_max.max(to);
        if self.timed.is_none() && self.recovery.is_none() {
            self.timed = Some((to, now));
        }
        self.start_timer_once(now);
        Some(piece)
    }

    /// The next lost piece.
    fn lost_piece(&mut self) -> Option<Piece> {
        let known = self.sacked.last().map_or(self.una + 1, |(_, to)| *to);
        let window = self.window;
        let recovery = self.recovery.as_mut()?;
        let mut from = recovery.from.max(self.una);
        let point = if recovery.is_timeout {
            recovery.point
        } else {
            recovery.point.min(known)
        };
        let mut to = point;
        for (left, right) in &self.sacked {
            if from < *left {
                to = to.min(*left);
                break;
            }
            from = from.max(*right);
        }
        to = to.max(from).min(from + self.mss);
        // Beyond the window, only the first one is sent (tcp_retransmit_skb).
        if self.edge > from {
            to = to.min(self.edge);
        } else if from != self.una {
            return None;
        }
        if !recovery.is_timeout && self.sacked.is_empty() {
            // The receiver does not report what it has: one at a time (RFC 6582).
            to = (from + self.mss).min(recovery.point);
        }
        let may = if recovery.is_timeout {
            from - self.una < window
        } else {
            recovery.credit > 0
        };
        if !may || from >= point || from >= to {
            return None;
        }
        recovery.credit = recovery.credit.saturating_sub(1);
        recovery.from = to;
        Some(self.piece(from, to))
    }

    /// The receiver has everything before `ack`, and allows bytes up to `edge`; `blocks` are what it has behind gaps. A
    /// duplicate is an acknowledgement without other news.
    pub fn acknowledged(
        &mut self,
        now: u64,
        ack: u64,
        blocks: &[(u64, u64)],
        is_duplicate: bool,
        sample: Option<u64>,
    ) {
        let before = self.sacked.len();
        for block in blocks {
            self.note_sacked(*block);
        }
        let learned = self.sacked.len() != before || !blocks.is_empty();
        if ack > self.una {
            self.advance(now, ack, sample);
        } else if (is_duplicate || learned) && self.una < self.next {
            self.duplicates += 1;
            if let Some(recovery) = &mut self.recovery {
                recovery.credit += u32::from(!recovery.is_timeout);
            } else if self.duplicates >= DUPLICATES {
                self.reduce();
                self.window = self.threshold;
                self.recovery = Some(Recovery {
                    point: self.next,
                    from: self.una,
                    is_timeout: false,
                    credit: 1,
                });
            }
        }
        if self.una == self.next {
            self.timer = None;
        }
    }

    fn advance(&mut self, now: u64, ack: u64, sample: Option<u64>) {
        let bytes = (ack.min(self.end) - self.una.min(self.end)) as usize;
        self.bytes.drain(..bytes);
        let step = ack - self.una;
        self.una = ack;
        self.next = self.next.max(ack);
        self.sacked.retain(|(_, to)| *to > ack);
        if let Some((from, _)) = self.sacked.first_mut() {
            *from = (*from).max(ack);
        }
        self.duplicates = 0;
        self.backoff = 0;
        let timed = self.timed.filter(|(to, _)| *to <= ack);
        if timed.is_some() {
            self.timed = None;
        }
        if let Some(sample) = sample.or(timed.map(|(_, sent)| now - sent)) {
            self.measure(sample);
        }
        match &mut self.recovery {
            Some(recovery) if ack >= recovery.point => self.recovery = None,
            Some(recovery) => {
                recovery.credit += u32::from(!recovery.is_timeout);
                if !recovery.is_timeout && self.sacked.is_empty() {
                    recovery.from = ack;
                }
            }
            None => {}
        }
        let grows_fast = self.window < self.threshold;
        if self.recovery.as_ref().is_none_or(|some| some.is_timeout) {
            self.window += if grows_fast {
                step.min(self.mss)
            } else {
                self.mss * self.mss / self.window
            };
            self.window = self.window.min(WINDOW_MAX * self.mss);
        }
        self.start_timer(now);
    }

    fn note_sacked(&mut self, (from, to): (u64, u64)) {
        let (from, to) = (from.max(self.una), to.min(self.next));
        if from >= to {
            return;
        }
        self.sacked.push((from, to));
        self.sacked.sort_unstable();
        let mut whole: Vec<(u64, u64)> = Vec::new();
        for (from, to) in self.sacked.drain(..) {
            match whole.last_mut() {
                Some(last) if last.1 >= from => last.1 = last.1.max(to),
                _ => whole.push((from, to)),
            }
        }
        self.sacked = whole;
    }

    fn reduce(&mut self) {
        self.threshold = (self.in_flight() / 2).max(2 * self.mss);
    }

    /// RFC 6298 section 2.
    fn measure(&mut self, sample: u64) {
        let (smoothed, variation) = match self.smoothed {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => (
                (7 * smoothed + sample) / 8,
                (3 * variation + smoothed.abs_diff(sample)) / 4,
            ),
        };
        self.smoothed = Some((smoothed, variation));
        self.rto = (smoothed + 4 * variation).clamp(RTO_MIN, RTO_MAX);
    }

    fn wait(&self) -> u64 {
        (self.rto << self.backoff.min(8)).min(RTO_MAX)
    }

    fn start_timer(&mut self, now: u64) {
        let is_needed = self.una < self.limit();
        self.timer = is_needed.then_some(now + self.wait());
    }

    fn start_timer_once(&mut self, now: u64) {
        if self.timer.is_none() {
            self.start_timer(now);
        }
    }

    /// The timer has expired.
    pub fn alarm(&mut self, now: u64) -> Alarm {
        self.timer = None;
        if self.una == self.limit() {
            return Alarm::No;
        }
        self.backoff += 1;
        self.start_timer(now);
        if self.una == self.next {
            if self.edge <= self.next {
                return Alarm::Probe(None);
            }
            let to = self.edge.min(self.limit()).min(self.next + self.mss);
            let piece = self.piece(self.next, to);
            self.next = to;
            self.sent_max = self.sent_max.max(to);
            return Alarm::Probe(Some(piece));
        }
        self.reduce();
        self.window = self.mss;
        self.duplicates = 0;
        // The receiver may have discarded it (RFC 2018 section 8).
        self.sacked.clear();
        self.timed = None;
        self.recovery = Some(Recovery {
            point: self.next,
            from: self.una,
            is_timeout: true,
            credit: 0,
        });
        Alarm::Again
    }

    /// The byte beyond the window, with which some senders probe it.
    pub fn byte_behind(&mut self) -> Option<Piece> {
        (self.next < self.end).then(|| {
            let piece = self.piece(self.next, self.next + 1);
            self.next += 1;
            self.sent_max = self.sent_max.max(self.next);
            piece
        })
    }
}
