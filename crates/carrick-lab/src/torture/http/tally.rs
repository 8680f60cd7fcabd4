//! What came of a run's exchanges: counts, and complaints.

use serde::{Deserialize, Serialize};

/// Complaints that are kept word by word; all are counted.
const COMPLAINTS_MAX: usize = 12;

/// The counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Connections that clients have made.
    pub connections: u64,
    /// Requests that were sent.
    pub requests: u64,
    /// Responses that came whole, each byte the right one.
    pub whole: u64,
    /// Bytes of bodies that clients have read and found right.
    pub body_bytes: u64,
    /// Responses that the origin has cut, and that did not look whole.
    pub cut_by_origin: u64,
    /// Responses that the client did not want to the end.
    pub cut_by_client: u64,
    /// Requests without an answer, where the origin had closed its connection unasked and the request may not be sent again.
    pub excused: u64,
    /// Connections that clients have reset: a RST that is lost is not sent again.
    pub resets: u64,
    /// Connections that carrick still had for that reason.
    pub resets_lost: u64,
    /// Requests that have reached the origin more than once.
    pub repeated: u64,
    /// What must not have happened.
    pub complaint_count: u64,
    /// The first complaints, word by word.
    pub complaints: Vec<String>,
}

impl Tally {
    /// Counts a complaint, and keeps it unless there are many.
    pub fn complain(&mut self, complaint: String) {
        self.complaint_count += 1;
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(complaint);
        }
    }

    /// Adds another part of the same run, or another run.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.requests += other.requests;
        self.whole += other.whole;
        self.body_bytes += other.body_bytes;
        self.cut_by_origin += other.cut_by_origin;
        self.cut_by_client += other.cut_by_client;
        self.excused += other.excused;
        self.resets += other.resets;
        self.resets_lost += other.resets_lost;
        self.repeated += other.repeated;
        self.complaint_count += other.complaint_count;
        let room = COMPLAINTS_MAX.saturating_sub(self.complaints.len());
        let kept = other.complaints.iter().take(room);
        self.complaints.extend(kept.cloned());
    }
}
