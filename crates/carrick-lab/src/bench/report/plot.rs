//! The results as bar charts: one file per job, and one for memory.

mod chart;

use crate::bench::memory::MemoryKind;
use crate::bench::report::plot::chart::{Bar, Chart, Panel, Row, Value};
use crate::bench::results::{Cell, Figure, Results};
use crate::bench::talk::Talk;
use crate::bench::targets::{What, judge, memory_bytes_max};
use crate::bench::works::{Load, WORKS, Work};
use crate::peers::{Family, JUDGED, Job, PEERS, Peer};

/// File names and their contents; jobs that were not measured have no file.
#[must_use]
pub fn render(results: &Results) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (job, title) in [
        (Job::Switch, "Layer-7 switch"),
        (Job::Tunnel, "TCP tunnel"),
        (Job::Forward, "Forward proxy"),
        (Job::Cache, "Cache"),
        (Job::CacheDisk, "Cache on disk"),
    ] {
        let rows: Vec<Row> = WORKS
            .iter()
            .filter(|work| work.job == job && results.runs.iter().any(|run| run.work == work.name))
            .map(|work| work_row(results, work))
            .collect();
        if !rows.is_empty() {
            let chart = Chart {
                title: title.to_owned(),
                subtitle: subtitle(results),
                rows,
            };
            files.push((format!("{}.svg", job.name()), chart.to_svg()));
        }
    }
    let rows: Vec<Row> = MemoryKind::ALL
        .into_iter()
        .filter(|kind| results.memory.iter().any(|run| run.kind == *kind))
        .map(|kind| memory_row(results, kind))
        .collect();
    if !rows.is_empty() {
        let chart = Chart {
            title: String::from("Process memory"),
            subtitle: subtitle(results),
            rows,
        };
        files.push((String::from("memory.svg"), chart.to_svg()));
    }
    files
}

fn subtitle(results: &Results) -> String {
    let settings = &results.settings;
    let runs = if settings.repetitions == 1 {
        String::from("a single run (a look, not a result)")
    } else {
        format!("medians of {} interleaved runs", settings.repetitions)
    };
    let partial = if results.complete { "" } else { " · PARTIAL" };
    format!(
        "{runs} of {} s · one proxy thread · 16 connections unless said otherwise · {} · Linux {}{partial}",
        settings.seconds, settings.congestion_control, results.machine.kernel
    )
}

fn work_row(results: &Results, work: &Work) -> Row {
    let of_each = if work.is_stream() { "ms" } else { "µs" };
    let each = match work.load {
        Load::Get | Load::Cache(_) => "request",
        Load::Talk(Talk::PingPong) => "round trip",
        Load::Talk(Talk::Stream) => "GB",
    };
    let panels = [
        (
            Figure::Rate,
            format!(
                "{}, all sharing two cores (more is better)",
                work.rate_unit()
            ),
        ),
        (
            Figure::Cpu,
            format!("{of_each} of the proxy machine's CPU per {each} (less is better)"),
        ),
    ]
    .map(|(figure, unit)| Panel {
        unit,
        bars: bars(|peer| results.cell(work.name, peer.name, figure)),
        target: target_value(results, work, figure),
    });
    Row {
        title: work.title.to_owned(),
        panels: panels.into(),
    }
}

/// The hardest of the bounds of carrick as users get it, as a value on the panel's axis.
fn target_value(results: &Results, work: &Work, figure: Figure) -> Option<f64> {
    let wanted = match figure {
        Figure::Rate => What::Rate,
        Figure::Cpu => What::Cpu,
    };
    let values = judge(results)
        .into_iter()
        .filter(|verdict| (verdict.work, verdict.own, verdict.what) == (work.name, JUDGED, wanted))
        .map(|verdict| verdict.factor * verdict.best);
    match figure {
        Figure::Rate => values.max_by(f64::total_cmp),
        Figure::Cpu => values.min_by(f64::total_cmp),
    }
}

fn memory_row(results: &Results, kind: MemoryKind) -> Row {
    const KIB: f64 = 1024.0;
    let mut bars = bars(|peer| results.memory_cell(kind, peer.name));
    for bar in &mut bars {
        if let Value::Measured { median, min, max } = &mut bar.value {
            for value in [median, min, max] {
                *value /= KIB;
            }
        }
    }
    let panel = Panel {
        unit: String::from("KB of process memory each (less is better)"),
        target: bars
            .iter()
            .any(|bar| bar.label == JUDGED)
            .then_some(memory_bytes_max(kind) / KIB),
        bars,
    };
    Row {
        title: format!("per {}", kind.title()),
        panels: vec![panel],
    }
}

fn bars(cell: impl Fn(&Peer) -> Cell) -> Vec<Bar> {
    PEERS
        .iter()
        .filter_map(|peer| {
            let value = match cell(peer) {
                Cell::Absent => return None,
                Cell::Failed(_) => Value::Failed,
                Cell::Measured(summary) => Value::Measured {
                    median: summary.median,
                    min: summary.min,
                    max: summary.max,
                },
            };
            Some(Bar {
                label: peer.name,
                class: peer.family.name(),
                legend: legend(peer.family),
                is_judged: peer.name == JUDGED,
                value,
            })
        })
        .collect()
}

fn legend(family: Family) -> &'static str {
    match family {
        Family::Routed => "routed (no proxy)",
        Family::Carrick => "carrick",
        Family::Haproxy => "HAProxy",
        Family::Nginx => "nginx",
        Family::Squid => "Squid",
        Family::ThreeProxy => "3proxy",
        Family::Socat => "socat",
        Family::Varnish => "Varnish",
        Family::TrafficServer => "Traffic Server",
        Family::Pepsal => "PEPsal",
    }
}

#[cfg(test)]
mod tests;
