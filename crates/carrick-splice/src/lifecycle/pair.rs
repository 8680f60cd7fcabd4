//! Two connections and both directions between them: what the process relays, and what an engine gets.

use super::policy::Joining;
use crate::engine::tc::path_statistics::PathStatistics;
use crate::engine::tc::state::PacketState;
use crate::relay::flow::Flow;
use crate::relay::watch::Watch;
use crate::sys::tcp_info::unacked_bytes;
use crate::{Choice, Fault, Leg, Side, Splicer, sys, tcp};
use std::time::{Duration, Instant};

/// Direction 0 is from connection 0, direction 1 from connection 1.
pub(crate) struct Pair<'a> {
    pub(crate) splicer: Splicer,
    /// `None` while tokio does not have them.
    pub(crate) legs: Option<[Leg<'a>; 2]>,
    /// What was already read from each.
    pub(crate) prefixes: [&'a [u8]; 2],
    pub(crate) flows: [Flow; 2],
    /// The owner's number for this splice.
    pub(crate) label: u64,
    joining: Joining,
    /// The direction that failed first; the other one goes on for a while.
    pub(crate) failed: Option<(u8, Fault)>,
    /// Nothing more can be delivered.
    pub(crate) is_over: bool,
    pub(crate) watch: Watch,
    /// Path statistics for the packet engine.
    pub(crate) path_statistics: Option<Box<PathStatistics>>,
    /// Boxed, since most exchanges have none.
    pub(crate) forwarded: Option<Box<Forwarded>>,
}

/// What the packet engine has done in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forwarded {
    /// Bytes forwarded and acknowledged: from `a` to `b`, and from `b` to `a`.
    pub bytes: [u64; 2],
    /// Packets forwarded, and those of them that were retransmissions.
    pub packets: [u64; 2],
    #[expect(missing_docs, reason = "as said above")]
    pub again: [u32; 2],
    /// For how long data was in flight, from the moment the engine had the packets to the last
    /// acknowledgement. A pause with nothing in flight counts for at most one second.
    pub active: Duration,
    /// When the engine first had the packets.
    pub since: Option<Instant>,
}

impl<'a> Pair<'a> {
    pub(crate) fn new(
        splicer: Splicer,
        legs: [Leg<'a>; 2],
        prefixes: [&'a [u8]; 2],
        flows: [Flow; 2],
        label: u64,
        joining: Joining,
    ) -> Self {
        Pair {
            path_statistics: path_statistics_of(&splicer, &legs),
            legs: Some(legs),
            prefixes,
            flows,
            label,
            joining,
            failed: None,
            is_over: false,
            watch: Watch::default(),
            forwarded: None,
            splicer,
        }
    }

    /// Records the first fault. If a receiver failed, the other direction delivers what its sender's queue
    /// still holds, but does not pass on its FIN: that would make a broken stream look whole. If a sender
    /// failed, everything it sent is delivered already, and nothing can be delivered to it.
    pub(crate) fn fail(&mut self, side: usize, fault: Fault) {
        if self.failed.is_some() {
            self.is_over = true;
            return;
        }
        self.is_over = fault.side == Side::From;
        if !self.is_over {
            self.splicer.counters().faults_to.add(1);
        }
        for flow in &mut self.flows {
            flow.set_pass_end(false);
        }
        self.failed = Some((u8::from(side == 1), fault));
        self.watch.disarm();
    }

    /// Whether a direction has ended or failed: no engine takes a half-closed exchange.
    pub(crate) fn has_ended(&self) -> bool {
        self.failed.is_some() || self.flows.iter().any(Flow::is_ended)
    }

    /// Bytes that the process has taken from each connection.
    pub(crate) fn taken_bytes(&self) -> [u64; 2] {
        [self.flows[0].taken_bytes(), self.flows[1].taken_bytes()]
    }

    /// Bytes moved, both directions.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.flows.iter().map(Flow::moved_bytes).sum()
    }

    /// Whether the process holds bytes of either direction.
    pub(crate) fn holds_bytes(&self) -> bool {
        self.flows.iter().any(Flow::holds_bytes)
    }

    /// Whether nothing from this side waits: here, at its own connection, or at the receiver's.
    pub(crate) fn is_quiet(&self, side: usize) -> bool {
        let (flow, Some(legs)) = (&self.flows[side], &self.legs) else {
            return false;
        };
        !flow.holds_bytes()
            && flow.has_sent(self.prefixes[side])
            && matches!(tcp::pending_input(&legs[side]), Ok(0))
            && matches!(unacked_bytes(&*legs[1 - side]), Ok(0))
    }

    /// Whether something has arrived that the process has not read.
    pub(crate) fn has_unread(&self) -> bool {
        (self.legs.iter().flatten()).any(|leg| !matches!(tcp::pending_input(leg), Ok(0)))
    }

    /// Relays everything in the process, as if no engine had been asked for.
    pub(crate) fn relay_alone(&mut self) {
        for side in [0, 1] {
            let flow = &mut self.flows[side];
            flow.set_choice(Choice::Auto);
            flow.set_pass_end(true);
            if flow.is_ended()
                && let Some(legs) = &self.legs
                && let Err(source) = sys::shutdown_write(&legs[1 - side])
            {
                let fault = Fault::new(Side::To, "shutdown", source);
                self.fail(side, fault);
            }
        }
    }

    /// Reports both connections' path statistics since the last call to the packet engine, with `forwarded`
    /// what it has forwarded.
    pub(crate) fn note_path_statistics(&mut self, forwarded: Option<&PacketState>) {
        let (Some(statistics), Some([a, b])) = (self.path_statistics.as_mut(), self.legs.as_ref())
        else {
            return;
        };
        if let Some(engine) = self.splicer.packet_engine() {
            statistics.note(engine, [&**a, &**b], forwarded);
        }
    }

    /// The same, unless that was done a moment ago.
    pub(crate) fn note_path_statistics_if_old(&mut self) {
        if (self.path_statistics.as_ref()).is_some_and(|statistics| statistics.are_old()) {
            self.note_path_statistics(None);
        }
    }

    /// Whether one leg loses so much that both connections do better with their own control loops, and the order
    /// takes that into account.
    pub(crate) fn is_lossy(&self) -> bool {
        if self.joining == Joining::Anyway {
            return false;
        }
        let engine = self.splicer.packet_engine();
        let statistics = self.path_statistics.as_ref();
        (engine.zip(statistics)).is_some_and(|(engine, statistics)| statistics.is_lossy(engine))
    }
}

/// `None` without the packet engine, the only user.
fn path_statistics_of(splicer: &Splicer, legs: &[Leg<'_>; 2]) -> Option<Box<PathStatistics>> {
    splicer.packet_engine()?;
    // A peer that has disconnected has no address.
    let peer = |leg: &Leg<'_>| leg.peer_addr().ok();
    let [a, b] = [peer(&legs[0])?, peer(&legs[1])?];
    Some(Box::new(PathStatistics::new([a.ip(), b.ip()])))
}
