//! Reports loss and round-trip times of both legs to the packet engine: from the local sockets, and from
//! retransmissions while packets are forwarded.

use super::PacketEngine;
use super::paths::{NetworkPair, Seen};
use super::state::PacketState;
use crate::sys::tcp_info::connection_statistics;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Merged packets (GRO) are counted as if they were segments of this many bytes.
const SEGMENT_BYTES: u64 = 1448;

/// What was reported less long ago is not looked up again for each attempt to attach.
const OLD: Duration = Duration::from_millis(100);

/// What was already reported.
pub(crate) struct PathStatistics {
    pair: NetworkPair,
    noted: Option<Instant>,
    /// Segments sent by each local socket, and retransmitted.
    local: [[u32; 2]; 2],
    /// Segments forwarded each way, and retransmitted.
    forwarded: [(u64, u32); 2],
}

impl PathStatistics {
    /// For connections to these peers, counting from their beginning.
    pub(crate) fn new(peers: [IpAddr; 2]) -> PathStatistics {
        PathStatistics {
            pair: NetworkPair::of(peers),
            noted: None,
            local: [[0; 2]; 2],
            forwarded: [(0, 0); 2],
        }
    }

    /// Likewise, counting from now. Costs two system calls.
    pub(crate) fn from_now(peers: [IpAddr; 2], sockets: [&impl AsFd; 2]) -> PathStatistics {
        let mut path_statistics = PathStatistics::new(peers);
        path_statistics.look(sockets);
        path_statistics
    }

    /// Reports what was seen since the last call, with `forwarded` what was forwarded. Costs two system
    /// calls.
    pub(crate) fn note(
        &mut self,
        engine: &PacketEngine,
        sockets: [&impl AsFd; 2],
        forwarded: Option<&PacketState>,
    ) {
        let mut seen = self.look(sockets);
        for (way, state) in forwarded
            .into_iter()
            .flat_map(|state| [(0, state), (1, state)])
        {
            // A forwarded packet may be lost on either leg: it counts for the receiver's.
            let (seen, told) = (&mut seen[1 - way], &mut self.forwarded[way]);
            let segments = state.packets[way].max(state.bytes[way] / SEGMENT_BYTES);
            seen.segments += segments.saturating_sub(told.0);
            seen.again += u64::from(state.again[way].wrapping_sub(told.1));
            *told = (segments, state.again[way]);
        }
        let now = Instant::now();
        self.noted = Some(now);
        engine.paths().observe(self.pair, seen, now);
    }

    /// Whether nothing was reported for a while.
    pub(crate) fn are_old(&self) -> bool {
        self.noted.is_none_or(|noted| noted.elapsed() >= OLD)
    }

    /// Whether both connections do better unjoined.
    pub(crate) fn is_lossy(&self, engine: &PacketEngine) -> bool {
        engine.paths().is_lossy(self.pair, Instant::now())
    }

    /// The connections of both networks are better left unjoined, whatever they lose.
    pub(crate) fn avoid(&self, engine: &PacketEngine) {
        engine.paths().avoid(self.pair, Instant::now());
    }

    /// What the local sockets have seen since the last time.
    fn look(&mut self, sockets: [&impl AsFd; 2]) -> [Seen; 2] {
        let mut seen = [Seen::default(); 2];
        for ((socket, told), seen) in sockets.into_iter().zip(&mut self.local).zip(&mut seen) {
            // It fails only for a closed descriptor.
            let Ok(connection_statistics) = connection_statistics(socket) else {
                continue;
            };
            let now = [
                connection_statistics.segments,
                connection_statistics.retransmissions,
            ];
            let [segments, again] = [0, 1].map(|index: usize| now[index].wrapping_sub(told[index]));
            *told = now;
            *seen = Seen {
                segments: segments.into(),
                again: again.into(),
                rtt_us: connection_statistics.rtt_us,
            };
        }
        seen
    }
}
