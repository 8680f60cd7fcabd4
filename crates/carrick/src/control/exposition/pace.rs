//! Metrics of pacing: classes and workers.
use super::writer::Writer;
use crate::telemetry::declarations::{self as declared, MetricDeclaration};
use carrick_splice::{ClassReport, WorkerReport};
use prometheus_client::encoding::NoLabelSet;
use std::fmt;
use std::time::Duration;

impl Writer<'_, '_> {
    pub(super) fn pace(&mut self) -> fmt::Result {
        let state = self.state;
        let classes = state.kernel.pacing.classes();
        let mut bytes = self.family(&declared::PACE_BYTES)?;
        for class in &classes {
            let by_process = class.bytes.saturating_sub(class.kernel_bytes);
            for (by, count) in [("process", by_process), ("kernel", class.kernel_bytes)] {
                bytes
                    .encode_family(&[("class", &*class.settings.name), ("by", by)])?
                    .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
            }
        }
        let of_class = |value: fn(&ClassReport) -> u64| {
            let labelled = classes
                .iter()
                .map(|class| ([("class", &*class.settings.name)], value(class)));
            labelled.collect::<Vec<_>>()
        };
        self.counters(&declared::PACE_YIELDS, of_class(|class| class.yields))?;
        self.counters(
            &declared::PACE_RATE_WAITS,
            of_class(|class| class.rate_waits),
        )?;
        self.counters(
            &declared::PACE_KERNEL_HOLDS,
            of_class(|class| class.kernel_holds),
        )?;
        let waited = classes.iter();
        let waited = waited.map(|class| ("class", class.settings.name.clone(), class.waited));
        self.times(&declared::PACE_WAITED, waited)?;
        self.counters(&declared::PACE_OVERDUE, of_class(|class| class.overdue))?;
        self.counters(&declared::PACE_UNBOUNDED, of_class(|class| class.unbounded))?;
        self.gauges(&declared::PACE_SPLICES, of_class(|class| class.splices))?;
        let workers: Vec<WorkerReport> = (0..state.workers.len())
            .map(|worker| state.kernel.pacing.worker(worker))
            .collect();
        let of_worker = |time: fn(&WorkerReport) -> Duration| {
            let numbered = workers.iter().enumerate();
            numbered.map(move |(number, worker)| ("worker", number.to_string(), time(worker)))
        };
        self.times(
            &declared::WORKER_RUNNABLE,
            of_worker(|worker| worker.runnable),
        )?;
        self.times(
            &declared::WORKER_FORWARDING,
            of_worker(|worker| worker.forwarding),
        )
    }

    /// Counters in seconds, each with one label.
    fn times(
        &mut self,
        metric: &'static MetricDeclaration,
        values: impl Iterator<Item = (&'static str, String, Duration)>,
    ) -> fmt::Result {
        let mut family = self.family(metric)?;
        for (label, value, time) in values {
            family
                .encode_family(&[(label, value)])?
                .encode_counter::<NoLabelSet, _, f64>(&time.as_secs_f64(), None)?;
        }
        Ok(())
    }
}
