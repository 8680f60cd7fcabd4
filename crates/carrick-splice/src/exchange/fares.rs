//! How both legs of an exchange fare, told to the packet engine: by their local sockets, which have legs of their own, and by what
//! was sent again while the packets were forwarded.

use super::Exchange;
use crate::packet::paths::{Pair, Seen};
use crate::packet::state::State;
use crate::socket::fared;
use crate::{Leg, Splicer};
use std::time::Instant;

/// Packets that were put together on their way are counted as if they had been segments of so many bytes.
const SEGMENT_BYTES: u64 = 1448;

/// What was told already.
pub(super) struct Fares {
    pair: Pair,
    /// Segments sent by each local socket, and sent again.
    local: [[u32; 2]; 2],
    /// Segments forwarded each way, and sent again.
    forwarded: [(u64, u32); 2],
}

impl Fares {
    /// `None` where nobody wants to know.
    pub(super) fn of(splicer: &Splicer, legs: &[Leg<'_>; 2]) -> Option<Box<Fares>> {
        splicer.packet_engine()?;
        // Whoever has gone already has no address any more.
        let peer = |leg: &Leg<'_>| leg.peer_addr().ok();
        let [a, b] = [peer(&legs[0])?, peer(&legs[1])?];
        Some(Box::new(Fares {
            pair: Pair::of([a.ip(), b.ip()]),
            local: [[0; 2]; 2],
            forwarded: [(0, 0); 2],
        }))
    }
}

impl Exchange<'_> {
    /// Tells the engine what was seen since the last time; also of what was forwarded, if there is something.
    pub(super) fn note_fares(&mut self, forwarded: Option<&State>) {
        let (Some(fares), Some(legs)) = (self.fares.as_mut(), self.legs.as_ref()) else {
            return;
        };
        let Some(engine) = self.splicer.packet_engine() else {
            return;
        };
        let mut seen = [Seen::default(); 2];
        for ((leg, told), seen) in legs.iter().zip(&mut fares.local).zip(&mut seen) {
            // It fails for nothing but a closed descriptor.
            let Ok(fared) = fared(&**leg) else { continue };
            let now = [fared.segments, fared.retransmissions];
            let [segments, again] = [0, 1].map(|index: usize| now[index].wrapping_sub(told[index]));
            *told = now;
            *seen = Seen {
                segments: segments.into(),
                again: again.into(),
                rtt_us: fared.rtt_us,
            };
        }
        for (way, state) in forwarded
            .into_iter()
            .flat_map(|state| [(0, state), (1, state)])
        {
            // What one peer sends goes to the other. It may be lost on either leg: who has it, is the one who suffers.
            let (seen, told) = (&mut seen[1 - way], &mut fares.forwarded[way]);
            let segments = state.packets[way].max(state.bytes[way] / SEGMENT_BYTES);
            seen.segments += segments.saturating_sub(told.0);
            seen.again += u64::from(state.again[way].wrapping_sub(told.1));
            *told = (segments, state.again[way]);
        }
        engine.paths().observe(fares.pair, seen, Instant::now());
    }

    /// Whether both connections are better off by themselves.
    pub(super) fn has_bad_leg(&self) -> bool {
        let (Some(engine), Some(fares)) = (self.splicer.packet_engine(), self.fares.as_ref())
        else {
            return false;
        };
        engine.paths().is_bad(fares.pair, Instant::now())
    }
}
