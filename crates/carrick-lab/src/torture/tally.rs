//! What a case did to the bytes: counts, and which of them are harm.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use crate::torture::stream::{Ending, Lane, Wrong};

/// Complaints that are kept word by word; all are counted.
const COMPLAINTS_MAX: usize = 8;
/// A relay may hold so many bytes for one direction of one connection whose receiver does not read: the largest buffers
/// that Linux gives to two sockets by default are 6 and 4 MB, and a proxy's own come on top.
pub const HELD_BYTES_MAX: u64 = 64 << 20;

/// So many of so many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// That were as they should be.
    pub good: u64,
    /// All.
    pub of: u64,
}

impl Share {
    /// Counts one.
    pub fn count(&mut self, is_good: bool) {
        self.good += u64::from(is_good);
        self.of += 1;
    }

    fn add(&mut self, other: Self) {
        self.good += other.good;
        self.of += other.of;
    }
}

/// The counts of one case with one relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Connections through the relay.
    pub connections: u64,
    /// Connections that could not be made.
    pub refused: u64,
    /// Bytes that senders gave to their kernel.
    pub offered_bytes: u64,
    /// Bytes that were read at the other end.
    pub received_bytes: u64,
    /// Bytes that should have arrived and did not.
    pub lost_bytes: u64,
    /// Directions in which a byte was read that was not sent there: changed, doubled, in another order, or after a gap.
    pub wrong: u64,
    /// Directions that seemed to end well, before all bytes had arrived or although the sender had reset the connection.
    pub false_ends: u64,
    /// Directions that were broken though neither end had reset its connection.
    pub broken: u64,
    /// Directions in which nothing came any more, not even an end.
    pub hung: u64,
    /// Half-closes that were passed on while the other direction went on to its own end.
    pub half_closes: Share,
    /// Resets that the other side saw as a reset.
    pub resets: Share,
    /// Most bytes that the relay had acknowledged to senders whose receivers did not read, for one connection; none: it
    /// was not looked at.
    pub unread_bytes_max: Option<u64>,
    /// Most bytes that the relay held for one direction of a connection; none: it was not looked at.
    pub held_bytes_max: Option<u64>,
    /// The first complaints, word by word.
    pub complaints: Vec<String>,
}

impl Tally {
    /// Judges a direction whose bytes all have to arrive, with a clean end behind them.
    pub fn whole(&mut self, what: &str, lane: &Lane, ending: Ending) {
        self.bytes(what, lane);
        let missing = lane.offered().saturating_sub(lane.received());
        self.lost_bytes += missing;
        match ending {
            Ending::Clean if missing > 0 => self.false_ends += 1,
            Ending::Clean => return,
            Ending::Broken => self.broken += 1,
            Ending::Silent => self.hung += 1,
        }
        self.complain(|| {
            format!(
                "{what}: {} of {} bytes arrived, {}",
                lane.received(),
                lane.offered(),
                in_words(ending)
            )
        });
    }

    /// Judges a direction whose sender has reset the connection: what arrived has to be right, and must not end as if that
    /// had been all.
    pub fn cut(&mut self, what: &str, lane: &Lane, ending: Ending) {
        self.bytes(what, lane);
        self.resets.count(ending == Ending::Broken);
        match ending {
            Ending::Broken => return,
            Ending::Clean => self.false_ends += 1,
            Ending::Silent => self.hung += 1,
        }
        self.complain(|| {
            format!(
                "{what}: reset behind {} bytes; {} arrived, {}",
                lane.offered(),
                lane.received(),
                in_words(ending)
            )
        });
    }

    /// Judges a direction whose receiver has gone: only what arrived until then.
    pub fn abandoned(&mut self, what: &str, lane: &Lane) {
        self.bytes(what, lane);
    }

    fn bytes(&mut self, what: &str, lane: &Lane) {
        self.offered_bytes += lane.offered();
        self.received_bytes += lane.received();
        if let Some(Wrong { at, belongs_at }) = lane.wrong() {
            self.wrong += 1;
            self.complain(|| {
                let what_came = match belongs_at {
                    Some(place) => format!("what came belongs to byte {place}"),
                    None => String::from("what came is nowhere near"),
                };
                format!("{what}: byte {at} is not the one that was sent; {what_came}")
            });
        }
    }

    /// Takes note that so much was held.
    pub fn held(&mut self, bytes: u64) {
        self.held_bytes_max = self.held_bytes_max.max(Some(bytes));
    }

    /// Takes note that so much was accepted while the receiver did not read.
    pub fn unread(&mut self, bytes: u64) {
        self.unread_bytes_max = self.unread_bytes_max.max(Some(bytes));
    }

    /// Keeps a complaint, unless there are many.
    pub fn complain(&mut self, complaint: impl FnOnce() -> String) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(complaint());
        }
    }

    /// Adds the counts of another part of the same case.
    pub fn add(&mut self, other: Self) {
        self.connections += other.connections;
        self.refused += other.refused;
        self.offered_bytes += other.offered_bytes;
        self.received_bytes += other.received_bytes;
        self.lost_bytes += other.lost_bytes;
        self.wrong += other.wrong;
        self.false_ends += other.false_ends;
        self.broken += other.broken;
        self.hung += other.hung;
        self.half_closes.add(other.half_closes);
        self.resets.add(other.resets);
        self.unread_bytes_max = self.unread_bytes_max.max(other.unread_bytes_max);
        self.held_bytes_max = self.held_bytes_max.max(other.held_bytes_max);
        for complaint in other.complaints {
            self.complain(|| complaint);
        }
    }

    /// What must not have happened, in words; empty if all is well.
    #[must_use]
    pub fn harms(&self) -> Vec<String> {
        let counted = [
            (self.lost_bytes, "bytes lost"),
            (self.wrong, "directions with a wrong byte"),
            (self.false_ends, "false ends"),
            (self.broken, "directions broken"),
            (self.hung, "directions hung"),
            (self.refused, "connections not made"),
            (
                self.half_closes.of - self.half_closes.good,
                "half-closes not honoured",
            ),
            (
                self.resets.of - self.resets.good,
                "resets not passed on as resets",
            ),
        ];
        let mut harms: Vec<String> = counted
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if let Some(held) = self.held_bytes_max.filter(|held| *held > HELD_BYTES_MAX) {
            harms.push(format!(
                "{held} bytes held for one direction, more than {HELD_BYTES_MAX}"
            ));
        }
        if self.connections == 0 {
            harms.push(String::from("no connection at all"));
        }
        harms
    }
}

fn in_words(ending: Ending) -> &'static str {
    match ending {
        Ending::Clean => "then a clean end",
        Ending::Broken => "then a reset",
        Ending::Silent => "then nothing more",
    }
}

/// A tally that many connections of one thread write to.
pub type SharedTally = RefCell<Tally>;
