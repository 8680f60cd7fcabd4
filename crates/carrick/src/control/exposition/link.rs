//! Metrics of links.
use super::writer::Writer;
use crate::telemetry::declarations as declared;
use std::fmt;

impl Writer<'_, '_> {
    pub(super) fn links(&mut self) -> fmt::Result {
        let state = self.state;
        self.counter(&declared::LINK_OPENED, |worker| &worker.link.opened)?;
        self.counter(&declared::LINK_FAILED, |worker| &worker.link.failed)?;
        self.gauge(&declared::LINK_OPEN, state.sum(|worker| worker.link.open()))?;
        self.gauge(&declared::LINK_IDLE, state.sum(|worker| worker.link.idle()))?;
        self.counter(&declared::LINK_RELAYED, |worker| &worker.link.relayed)?;
        self.counter(&declared::LINK_REUSED, |worker| &worker.link.reused)?;
        self.counter(&declared::LINK_REFUSED, |worker| &worker.link.refused)?;
        self.counter(&declared::LINK_LOST, |worker| &worker.link.lost)?;
        self.counter(&declared::LINK_DIRECT, |worker| &worker.link.direct)?;
        self.counter(&declared::LINK_MALFORMED, |worker| &worker.link.malformed)?;
        let bytes = super::directions(
            state.sum(|worker| worker.link.bytes_received.get()),
            state.sum(|worker| worker.link.bytes_sent.get()),
        );
        self.counters(&declared::LINK_BYTES, bytes)
    }
}
