//! Writes metric families: one line or several for each kind, summed over the workers.
use super::mode;
use crate::control::ControlState;
use crate::telemetry::declarations::{MetricDeclaration, MetricKind};
use crate::telemetry::job::Job;
use crate::telemetry::metrics::{Counter, Histogram, HistogramTotal, WorkerMetrics};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

pub(super) struct Writer<'e, 's> {
    pub encoder: DescriptorEncoder<'e>,
    pub state: &'s ControlState,
}

impl Writer<'_, '_> {
    pub fn family(
        &mut self,
        metric: &'static MetricDeclaration,
    ) -> Result<MetricEncoder<'_>, fmt::Error> {
        let kind = match metric.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Histogram => MetricType::Histogram,
            MetricKind::Info => MetricType::Info,
        };
        self.encoder
            .encode_descriptor(metric.name, metric.help, None, kind)
    }

    pub fn counters<L: EncodeLabelSet>(
        &mut self,
        metric: &'static MetricDeclaration,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.family(metric)?;
        for (labels, value) in values {
            family
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }

    pub fn counter(
        &mut self,
        metric: &'static MetricDeclaration,
        counter: impl Fn(&WorkerMetrics) -> &Counter,
    ) -> fmt::Result {
        self.total(metric, self.state.sum(|worker| counter(worker).get()))
    }

    pub fn total(&mut self, metric: &'static MetricDeclaration, value: u64) -> fmt::Result {
        self.family(metric)?
            .encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    pub fn gauges<L: EncodeLabelSet>(
        &mut self,
        metric: &'static MetricDeclaration,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.family(metric)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    pub fn gauge(&mut self, metric: &'static MetricDeclaration, value: u64) -> fmt::Result {
        self.family(metric)?.encode_gauge(&value)
    }

    pub fn histogram(
        &mut self,
        metric: &'static MetricDeclaration,
        histogram: impl Fn(&WorkerMetrics) -> &Histogram,
    ) -> fmt::Result {
        let total = self.state.total(histogram);
        encode_histogram(&mut self.family(metric)?, &total)
    }

    pub fn job_histograms(
        &mut self,
        metric: &'static MetricDeclaration,
        histogram: impl Fn(&WorkerMetrics, Job) -> &Histogram,
    ) -> fmt::Result {
        let totals = Job::ALL.map(|job| (job, self.state.total(|worker| histogram(worker, job))));
        let mut family = self.family(metric)?;
        for (job, total) in totals {
            encode_histogram(&mut family.encode_family(&[mode(job)])?, &total)?;
        }
        Ok(())
    }
}

fn encode_histogram(encoder: &mut MetricEncoder<'_>, total: &HistogramTotal) -> fmt::Result {
    let bounds = Histogram::BOUNDS_US
        .iter()
        .map(|bound_us| *bound_us as f64 / 1e6)
        .chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(total.buckets).collect();
    encoder.encode_histogram::<NoLabelSet>(
        total.sum_seconds,
        total.buckets.iter().sum(),
        &buckets,
        None,
    )
}
