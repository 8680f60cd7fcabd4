//! The kernel's counters of TCP in one namespace: what its side has sent and received, and what went wrong.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::testbed::namespace::Namespace;

/// Counters since the namespace was made, or the difference of two readings. Segments, not buffers: a buffer of 64 KB
/// that is segmented on the way out counts as its segments. On the way in, each packet counts as one: exact with
/// segmentation offloads off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Connections opened from this side (`ActiveOpens`).
    pub opened: u64,
    /// Connections accepted on this side (`PassiveOpens`).
    pub accepted: u64,
    /// Segments received (`InSegs`).
    pub segments_in: u64,
    /// Segments sent, without those sent again (`OutSegs`).
    pub segments_out: u64,
    /// Segments sent again (`RetransSegs`).
    pub retransmitted: u64,
    /// Of these, segments that open a connection (`TCPSynRetrans`).
    pub retransmitted_opening: u64,
    /// Segments with data, sent for the first time (`TCPOrigDataSent`).
    pub data_out: u64,
    /// Segments received that only acknowledge, on the kernel's slow path (`TCPPureAcks`).
    pub pure_acks_in: u64,
    /// Segments received that acknowledge new data, on the fast path (`TCPHPAcks`): nearly all of them carry no data at
    /// the side that sends bodies; a request that comes with an acknowledgement counts, too.
    pub predicted_acks_in: u64,
    /// Segments received while the program held the socket, and merged into the one before (`TCPBacklogCoalesce`):
    /// acknowledgements, at the side that sends bodies.
    pub merged_in: u64,
    /// Retransmission time-outs (`TCPTimeouts`).
    pub timeouts: u64,
    /// Retransmissions after duplicate or selective acknowledgements (`TCPFastRetrans`).
    pub fast_retransmitted: u64,
    /// Probes for a lost tail (`TCPLossProbes`, RFC 8985 section 7).
    pub loss_probes: u64,
    /// Connections refused or forgotten because a queue of the listening socket was full (`ListenDrops`).
    pub listen_drops: u64,
    /// Segments with a wrong checksum or a broken header (`InErrs`).
    pub errors_in: u64,
}

impl TcpCounters {
    /// Reads the counters of a namespace.
    ///
    /// # Errors
    /// When the namespace is gone, or the kernel lacks a counter.
    pub fn read(namespace: &Namespace) -> Result<Self> {
        // The files of a thread are those of the thread's own namespace (proc(5), /proc/thread-self).
        let (snmp, netstat) = namespace.inside(|| {
            let read = |path: &str| {
                fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
            };
            Ok((
                read("/proc/thread-self/net/snmp")?,
                read("/proc/thread-self/net/netstat")?,
            ))
        })?;
        Self::parse(&snmp, &netstat)
    }

    /// What was counted since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |pick: fn(&Self) -> u64| pick(self).saturating_sub(pick(earlier));
        Self {
            opened: less(|counters| counters.opened),
            accepted: less(|counters| counters.accepted),
            segments_in: less(|counters| counters.segments_in),
            segments_out: less(|counters| counters.segments_out),
            retransmitted: less(|counters| counters.retransmitted),
            retransmitted_opening: less(|counters| counters.retransmitted_opening),
            data_out: less(|counters| counters.data_out),
            pure_acks_in: less(|counters| counters.pure_acks_in),
            predicted_acks_in: less(|counters| counters.predicted_acks_in),
            merged_in: less(|counters| counters.merged_in),
            timeouts: less(|counters| counters.timeouts),
            fast_retransmitted: less(|counters| counters.fast_retransmitted),
            loss_probes: less(|counters| counters.loss_probes),
            listen_drops: less(|counters| counters.listen_drops),
            errors_in: less(|counters| counters.errors_in),
        }
    }

    /// Acknowledgements received, of the side that sends bodies.
    #[must_use]
    pub fn acks_in(&self) -> u64 {
        self.pure_acks_in + self.predicted_acks_in + self.merged_in
    }

    /// Segments with data that were sent, those sent again included.
    #[must_use]
    pub fn data_out_with_retransmitted(&self) -> u64 {
        self.data_out
            + self
                .retransmitted
                .saturating_sub(self.retransmitted_opening)
    }

    /// All segments that were sent, those sent again included.
    #[must_use]
    pub fn packets_out(&self) -> u64 {
        self.segments_out + self.retransmitted
    }

    /// Segments with data sent for each acknowledgement received (Rosu 2002, Figure 8). `None`: no acknowledgement.
    #[must_use]
    pub fn data_per_ack(&self) -> Option<f64> {
        ratio(self.data_out_with_retransmitted(), self.acks_in())
    }

    /// Retransmission time-outs for each 1,000 segments sent (Rosu 2002, Figure 9). `None`: nothing was sent.
    #[must_use]
    pub fn timeouts_per_1000_packets(&self) -> Option<f64> {
        ratio(self.timeouts * 1000, self.packets_out())
    }

    fn parse(snmp: &str, netstat: &str) -> Result<Self> {
        let basic = table(snmp, "Tcp:");
        let extended = table(netstat, "TcpExt:");
        let find = |table: &HashMap<&str, u64>, name: &str| {
            table
                .get(name)
                .copied()
                .with_context(|| format!("this kernel has no counter {name}"))
        };
        Ok(Self {
            opened: find(&basic, "ActiveOpens")?,
            accepted: find(&basic, "PassiveOpens")?,
            segments_in: find(&basic, "InSegs")?,
            segments_out: find(&basic, "OutSegs")?,
            retransmitted: find(&basic, "RetransSegs")?,
            retransmitted_opening: find(&extended, "TCPSynRetrans")?,
            data_out: find(&extended, "TCPOrigDataSent")?,
            pure_acks_in: find(&extended, "TCPPureAcks")?,
            predicted_acks_in: find(&extended, "TCPHPAcks")?,
            merged_in: find(&extended, "TCPBacklogCoalesce")?,
            timeouts: find(&extended, "TCPTimeouts")?,
            fast_retransmitted: find(&extended, "TCPFastRetrans")?,
            loss_probes: find(&extended, "TCPLossProbes")?,
            listen_drops: find(&extended, "ListenDrops")?,
            errors_in: find(&basic, "InErrs")?,
        })
    }
}

fn ratio(count: u64, per: u64) -> Option<f64> {
    (per > 0).then(|| count as f64 / per as f64)
}

/// A line of names and a line of values, both with the same first word. A value below nought (`MaxConn`) is left out.
fn table<'a>(text: &'a str, first_word: &str) -> HashMap<&'a str, u64> {
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(first_word));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let values = lines.next().unwrap_or_default().split_whitespace();
    names
        .zip(values)
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests;
