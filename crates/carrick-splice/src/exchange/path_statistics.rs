//! How both legs of an exchange fare, told to the packet engine; and whether that speaks against a splice of packets.

use super::{Exchange, Joining};
use crate::engine::tc::path_statistics::PathStatistics;
use crate::engine::tc::state::State;
use crate::{Leg, Splicer};

impl Exchange<'_> {
    /// `None` where nobody wants to know.
    pub(super) fn path_statistics_of(
        splicer: &Splicer,
        legs: &[Leg<'_>; 2],
    ) -> Option<Box<PathStatistics>> {
        splicer.packet_engine()?;
        // Whoever has gone already has no address any more.
        let peer = |leg: &Leg<'_>| leg.peer_addr().ok();
        let [a, b] = [peer(&legs[0])?, peer(&legs[1])?];
        Some(Box::new(PathStatistics::new([a.ip(), b.ip()])))
    }

    /// Tells the engine what was seen since the last time; also of what was forwarded, if there is something.
    pub(super) fn note_path_statistics(&mut self, forwarded: Option<&State>) {
        let (Some(path_statistics), Some([a, b])) =
            (self.path_statistics.as_mut(), self.legs.as_ref())
        else {
            return;
        };
        if let Some(engine) = self.splicer.packet_engine() {
            path_statistics.note(engine, [&**a, &**b], forwarded);
        }
    }

    /// Whether both connections are better off by themselves.
    pub(super) fn has_bad_leg(&self) -> bool {
        if self.joining == Joining::Anyway {
            return false;
        }
        let engine = self.splicer.packet_engine();
        let path_statistics = self.path_statistics.as_ref();
        (engine.zip(path_statistics))
            .is_some_and(|(engine, path_statistics)| path_statistics.has_bad_leg(engine))
    }
}
