//! Metrics of splitters: decisions and gain.
use super::writer::Writer;
use crate::telemetry::declarations as declared;
use crate::telemetry::metrics::SplitEnd;
use carrick_logic::split::{Gain, Reason, SizeClass};
use std::fmt;

impl Writer<'_, '_> {
    pub(super) fn splitting(&mut self) -> fmt::Result {
        let state = self.state;
        let ends = SplitEnd::ALL.map(|end| {
            let count = state.sum(|worker| worker.split.ends(end).get());
            ([("was", end.label())], count)
        });
        self.counters(&declared::SPLIT_CONNECTIONS, ends)?;
        let reasons = Reason::ALL.map(|reason| {
            let count = state.sum(|worker| worker.split.reasons(reason).get());
            ([("reason", reason.name())], count)
        });
        self.counters(&declared::SPLIT_DECISIONS, reasons)?;
        self.counter(&declared::SPLIT_REFUSED, |worker| &worker.split.refused)?;
        self.counter(&declared::SPLIT_LEFT_OUT, |worker| &worker.split.left_out)?;
        let (pairs, evicted) = state.kernel.path_history.counts();
        self.gauge(&declared::SPLIT_PAIRS, pairs)?;
        self.total(&declared::SPLIT_PAIRS_EVICTED, evicted)?;
        let gains: Vec<(SizeClass, Gain)> = (state.kernel.path_history.gains().into_iter())
            .filter(|(class, _)| *class != SizeClass::Tiny)
            .filter_map(|(class, gain)| Some((class, gain?)))
            .collect();
        let mut family = self.family(&declared::SPLIT_GAIN)?;
        for (class, gain) in &gains {
            let [low, high] = gain.interval;
            for (bound, value) in [("mean", gain.gos), ("low", low), ("high", high)] {
                let labels = [("size", class.name()), ("bound", bound)];
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        let mut family = self.family(&declared::SPLIT_GAIN_SAMPLES)?;
        for (class, gain) in &gains {
            for (was, value) in [("split", gain.split), ("joined", gain.joined)] {
                let labels = [("size", class.name()), ("was", was)];
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}
