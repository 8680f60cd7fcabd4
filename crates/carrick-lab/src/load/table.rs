//! Outcomes for people: a table of rates and latencies, and what went wrong.

use std::fmt::Write as _;

use crate::load::outcome::{ClassOutcome, Latency, LoadOutcome};
use crate::load::samples::Samples;
use crate::statistics::Mean;
use crate::tables::plain;

/// One outcome.
#[must_use]
pub fn outcome(outcome: &LoadOutcome) -> String {
    let mut text = String::new();
    // Writing to memory cannot fail.
    let _ = writeln!(
        text,
        "{:.1} answers/s, {} connections, {} failures, in {:.3} s",
        outcome.requests_per_second(),
        outcome.connections,
        outcome.failures(),
        outcome.measured_seconds
    );
    if outcome.late > 0 {
        let _ = writeln!(
            text,
            "{} requests were due and could not be sent, as too many were under way",
            outcome.late
        );
    }
    let head = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut rates = vec![head(&[
        "class",
        "answers",
        "answers/s",
        "MB/s",
        "aborted",
        "failed",
    ])];
    let mut times = vec![head(&[
        "class",
        "ms",
        "mean",
        "deviation",
        "min",
        "50 %",
        "90 %",
        "99 %",
        "99.9 %",
        "max",
    ])];
    for class in &outcome.classes {
        let per_second = |count: f64| count / outcome.measured_seconds;
        rates.push(vec![
            class.name.clone(),
            class.completed.to_string(),
            format!("{:.1}", per_second(class.completed as f64)),
            format!("{:.2}", per_second(class.body_bytes as f64 / 1e6)),
            class.aborted.to_string(),
            class.failed.values().sum::<u64>().to_string(),
        ]);
        times.push(row(&class.name, "latency", &class.latency));
        times.push(row("", "first byte", &class.first_byte));
    }
    let _ = write!(text, "\n{}\n{}", plain(&rates, 1), plain(&times, 2));
    for class in &outcome.classes {
        failures(&mut text, class);
    }
    text
}

/// Several samples: each one's rate, and the means.
#[must_use]
pub fn samples(samples: &Samples) -> String {
    let mut text = String::new();
    for (sample, number) in samples.samples.iter().zip(1..) {
        let _ = writeln!(
            text,
            "sample {number}: {:.1} answers/s, {} failures",
            sample.requests_per_second(),
            sample.failures()
        );
    }
    let _ = writeln!(
        text,
        "\nmeans of {} samples, with intervals of {} % confidence (Student's t)",
        samples.samples.len(),
        samples.confidence * 100.0
    );
    line(
        &mut text,
        "all",
        "answers/s",
        samples.requests_per_second.as_ref(),
    );
    for class in &samples.classes {
        line(
            &mut text,
            &class.name,
            "answers/s",
            class.requests_per_second.as_ref(),
        );
        line(
            &mut text,
            &class.name,
            "latency, mean, ms",
            class.latency_mean_ms.as_ref(),
        );
        line(
            &mut text,
            &class.name,
            "latency, 99 %, ms",
            class.latency_p99_ms.as_ref(),
        );
    }
    for class in samples.samples.iter().flat_map(|sample| &sample.classes) {
        failures(&mut text, class);
    }
    text
}

fn line(text: &mut String, class: &str, what: &str, mean: Option<&Mean>) {
    let _ = match mean {
        None => writeln!(text, "{class}: {what}: nothing was measured"),
        Some(mean) => match mean.half_width {
            Some(half_width) => {
                writeln!(text, "{class}: {what}: {:.3} ± {half_width:.3}", mean.mean)
            }
            None => writeln!(
                text,
                "{class}: {what}: {:.3} (one sample: no interval)",
                mean.mean
            ),
        },
    };
}

fn row(class: &str, what: &str, latency: &Latency) -> Vec<String> {
    let mut fields = vec![class.to_owned(), what.to_owned()];
    if latency.count == 0 {
        fields.push(String::from("-"));
        return fields;
    }
    let values = [
        latency.mean_ms,
        latency.deviation_ms,
        latency.min_ms,
        latency.p50_ms,
        latency.p90_ms,
        latency.p99_ms,
        latency.p999_ms,
        latency.max_ms,
    ];
    fields.extend(values.map(|value| format!("{value:.3}")));
    fields
}

fn failures(text: &mut String, class: &ClassOutcome) {
    if class.failed.is_empty() {
        return;
    }
    let counts: Vec<String> = class
        .failed
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let _ = writeln!(text, "\nfailures of {}: {}", class.name, counts.join(", "));
    if let Some(first) = &class.first_failure {
        let _ = writeln!(text, "  the first: {first}");
    }
}
