//! Counters, buckets and their limits.
use super::*;

fn total(histogram: &Histogram) -> HistogramTotal {
    let mut total = HistogramTotal::default();
    histogram.add_to(&mut total);
    total
}

#[test]
fn a_bucket_includes_its_upper_bound() {
    for (index, bound_us) in Histogram::BOUNDS_US.into_iter().enumerate() {
        let histogram = Histogram::default();
        histogram.observe(Duration::from_micros(bound_us));
        histogram.observe(Duration::from_micros(bound_us) + Duration::from_nanos(1));
        let mut expected = [0; Histogram::BOUNDS_US.len() + 1];
        expected[index] = 1;
        expected[index + 1] = 1;
        assert_eq!(total(&histogram).buckets, expected, "{bound_us} us");
    }
}

#[test]
fn extreme_durations_are_counted() {
    let histogram = Histogram::default();
    histogram.observe(Duration::ZERO);
    histogram.observe(Duration::from_secs(3600));
    let sum = total(&histogram);
    assert_eq!(
        (sum.buckets[0], sum.buckets[Histogram::BOUNDS_US.len()]),
        (1, 1)
    );
    assert!((sum.sum_seconds - 3600.0).abs() < 1e-6);
    histogram.observe(Duration::MAX);
    assert_eq!(total(&histogram).buckets.iter().sum::<u64>(), 3);
}

#[test]
fn bounds_rise() {
    assert!(Histogram::BOUNDS_US.is_sorted());
}

#[test]
fn histograms_of_workers_add_up() {
    let workers = [Histogram::default(), Histogram::default()];
    for worker in &workers {
        worker.observe(Duration::from_millis(250));
    }
    let mut sum = HistogramTotal::default();
    workers.iter().for_each(|worker| worker.add_to(&mut sum));
    assert_eq!(sum.buckets.iter().sum::<u64>(), 2);
    assert!((sum.sum_seconds - 0.5).abs() < 1e-9);
}

#[test]
fn statuses_that_do_not_exist_share_a_counter() {
    let counters = StatusCounters::default();
    for status in [100, 200, 200, 599] {
        counters.count(status);
    }
    for status in [0, 99, 600, 999, u16::MAX] {
        counters.count(status);
    }
    assert_eq!(
        counters.iter().collect::<Vec<_>>(),
        [(100, 1), (200, 2), (599, 1)]
    );
    assert_eq!(counters.other(), 5);
    assert_eq!(counters.get(200), 2);
}

#[test]
fn labels_beyond_the_limit_share_a_counter() {
    let counters = LabelCounters::default();
    let labels: Vec<&'static str> = (0..LabelCounters::LABELS_MAX + 36)
        .map(|index| &*Box::leak(format!("label_{index}").into_boxed_str()))
        .collect();
    for label in labels.iter().chain(&labels) {
        counters.count(label);
    }
    let counts: Vec<_> = counters.iter().collect();
    assert_eq!(counts.len(), LabelCounters::LABELS_MAX + 1);
    assert_eq!(counts[0], ("label_0", 2));
    assert_eq!(counts[LabelCounters::LABELS_MAX - 1].1, 2);
    assert_eq!(counts[LabelCounters::LABELS_MAX], ("other", 72));
}

#[test]
fn every_limit_has_a_counter_and_a_label_of_its_own() {
    let counters = LimitCounters::default();
    for (index, limit) in Limit::ALL.into_iter().enumerate() {
        assert_eq!(limit as usize, index, "{limit:?} is not where ALL has it");
        for _ in 0..=index {
            counters.reached(limit);
        }
    }
    for (index, limit) in Limit::ALL.into_iter().enumerate() {
        assert_eq!(counters.get(limit), index as u64 + 1);
    }
    let mut labels = Limit::ALL.map(Limit::label).to_vec();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), Limit::ALL.len());
}

#[test]
fn jobs_are_counted_apart() {
    let metrics = WorkerMetrics::default();
    for job in Job::ALL {
        metrics.job(job).tunnels_opened.add(job as u64 + 1);
    }
    assert_eq!(
        Job::ALL.map(|job| metrics.job(job).tunnels_open()),
        [1, 2, 3, 4, 5]
    );
}

#[test]
fn what_is_open_is_never_negative() {
    let metrics = WorkerMetrics::default();
    metrics.connections_closed.add(1);
    assert_eq!(metrics.connections_open(), 0);
    metrics.connections_accepted.add(3);
    assert_eq!(metrics.connections_open(), 2);
}
