//! How both legs of a splice fare, told to the packet engine: by their local sockets, which have legs of their own, and by what
//! was sent again while the packets were forwarded.

use super::PacketEngine;
use super::paths::{Pair, Seen};
use super::state::State;
use crate::sys::tcp_info::connection_statistics;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Instant;

/// Packets that were put together on their way are counted as if they had been segments of so many bytes.
const SEGMENT_BYTES: u64 = 1448;

/// What was told already.
pub(crate) struct PathStatistics {
    pair: Pair,
    /// Segments sent by each local socket, and sent again.
    local: [[u32; 2]; 2],
    /// Segments forwarded each way, and sent again.
    forwarded: [(u64, u32); 2],
}

impl PathStatistics {
    /// Of connections to these peers, from their beginning.
    pub(crate) fn new(peers: [IpAddr; 2]) -> PathStatistics {
        PathStatistics {
            pair: Pair::of(peers),
            local: [[0; 2]; 2],
            forwarded: [(0, 0); 2],
        }
    }

    /// Likewise, from now on. Costs two system calls.
    pub(crate) fn from_now(peers: [IpAddr; 2], sockets: [&impl AsFd; 2]) -> PathStatistics {
        let mut path_statistics = PathStatistics::new(peers);
        path_statistics.look(sockets);
        path_statistics
    }

    /// Tells the engine what was seen since the last time; also of what was forwarded, if there is something. Costs two system calls.
    pub(crate) fn note(
        &mut self,
        engine: &PacketEngine,
        sockets: [&impl AsFd; 2],
        forwarded: Option<&State>,
    ) {
        let mut seen = self.look(sockets);
        for (way, state) in forwarded
            .into_iter()
            .flat_map(|state| [(0, state), (1, state)])
        {
            // What one peer sends goes to the other. It may be lost on either leg: who has it, is the one who suffers.
            let (seen, told) = (&mut seen[1 - way], &mut self.forwarded[way]);
            let segments = state.packets[way].max(state.bytes[way] / SEGMENT_BYTES);
            seen.segments += segments.saturating_sub(told.0);
            seen.again += u64::from(state.again[way].wrapping_sub(told.1));
            *told = (segments, state.again[way]);
        }
        engine.paths().observe(self.pair, seen, Instant::now());
    }

    /// Whether both connections are better off by themselves.
    pub(crate) fn has_bad_leg(&self, engine: &PacketEngine) -> bool {
        engine.paths().is_bad(self.pair, Instant::now())
    }

    /// What the local sockets have seen since the last time.
    fn look(&mut self, sockets: [&impl AsFd; 2]) -> [Seen; 2] {
        let mut seen = [Seen::default(); 2];
        for ((socket, told), seen) in sockets.into_iter().zip(&mut self.local).zip(&mut seen) {
            // It fails for nothing but a closed descriptor.
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
