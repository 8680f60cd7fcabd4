//! The results as a table for the terminal.

use std::fmt::Write as _;

use crate::bench::memory::MemoryKind;
use crate::bench::results::{Cell, Crowd, Figure, Results};
use crate::bench::targets::{self, SPLIT_BYTES_MAX, Verdict, What, judge, memory_bytes_max};
use crate::bench::works::{self, WORKS, Work};
use crate::peers::{JUDGED, PEERS};
use crate::statistics::Summary;

/// What carrick's other engines are compared with.
const COPY: &str = "carrick-copy";
/// Above this, other programs have a say in the figures.
const FOREIGN_CORES_MAX: f64 = 0.1;

/// The whole table.
#[must_use]
pub fn render(results: &Results) -> String {
    let mut text = heading(results);
    let verdicts = judge(results);
    for work in WORKS {
        if results.runs.iter().any(|run| run.work == work.name) {
            text.push_str(&work_table(results, &work, &verdicts));
        }
    }
    text.push_str(&memory_table(results));
    text.push_str(&summary(results, &verdicts));
    text
}

fn heading(results: &Results) -> String {
    let settings = &results.settings;
    let machine = &results.machine;
    let mut lines = vec![
        format!(
            "{}, {} cores, Linux {}",
            machine.processor, machine.cores, machine.kernel
        ),
        format!(
            "{} at both ends of every connection; {} interleaved run(s) of {} s; load of the machine at the start: {}",
            settings.congestion_control,
            settings.repetitions,
            settings.seconds,
            machine.load_at_start
        ),
    ];
    lines.extend(
        results
            .versions
            .iter()
            .map(|(program, version)| format!("{program}: {version}")),
    );
    if let Some(calibration) = &results.calibration {
        let spinners: Vec<String> = calibration
            .spinners
            .iter()
            .map(|spinner| {
                format!(
                    "{:.1} -> {:.1} %",
                    spinner.used_share * 100.0,
                    spinner.metered_share * 100.0
                )
            })
            .collect();
        lines.push(format!(
            "CPU meter of core {}: {}",
            settings.cores.proxy,
            calibration.source.describe()
        ));
        lines.push(format!(
            "  idle core: {:.2} % busy (background noise, not subtracted), {:.2} % stolen by the hypervisor",
            calibration.idle_busy_share * 100.0,
            calibration.idle_stolen_share * 100.0
        ));
        lines.push(format!(
            "  spinners, used -> metered: {}",
            spinners.join(", ")
        ));
    }
    if let Some(foreign) = results.foreign_cores() {
        let noisy = if foreign.max > FOREIGN_CORES_MAX {
            "  NOISY: measure again on a quiet machine"
        } else {
            ""
        };
        lines.push(format!(
            "other programs kept {:.2} cores busy in the median run, {:.2} at most{noisy}",
            foreign.median, foreign.max
        ));
    }
    if !results.complete {
        lines.push(String::from(
            "PARTIAL: this benchmark did not come to its end",
        ));
    }
    lines.join("\n") + "\n"
}

fn work_table(results: &Results, work: &Work, verdicts: &[Verdict]) -> String {
    let mut text = format!("\n{} ({})\n", work.title, work.name);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "  {:<19} {:>10} {:>6} {:>9} {:>6}   {:>8} {:>6} {:>9} {:>6} {:>8}   {:>8} {:>8}",
        "",
        work.rate_unit(),
        "+-",
        "carrick x",
        "x copy",
        format!("CPU {}", work.cpu_unit()),
        "+-",
        "carrick x",
        "x copy",
        "process",
        "p50 us",
        "p99 us"
    );
    let own = |figure| results.cell(work.name, JUDGED, figure).median();
    let copy = |figure| results.cell(work.name, COPY, figure).median();
    let rate_decimals = if work.is_stream() { 2 } else { 0 };
    for peer in PEERS {
        let rate = results.cell(work.name, peer.name, Figure::Rate);
        let cpu = results.cell(work.name, peer.name, Figure::Cpu);
        if (&rate, &cpu) == (&Cell::Absent, &Cell::Absent) {
            continue;
        }
        let latency = results.latency_us(work.name, peer.name);
        let latency_text =
            |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.0}"));
        let process = results.process_cell(work.name, peer.name).median();
        let _ = writeln!(
            text,
            "  {:<19} {} {:>9} {:>6}   {} {:>9} {:>6} {:>8}   {:>8} {:>8}",
            peer.name,
            figure_columns(&rate, 10, rate_decimals),
            ratio(own(Figure::Rate), rate.median()),
            ratio(rate.median(), copy(Figure::Rate)),
            figure_columns(&cpu, 8, 1),
            ratio(own(Figure::Cpu), cpu.median()),
            ratio(cpu.median(), copy(Figure::Cpu)),
            process.map_or_else(String::new, |value| format!("{value:.1}")),
            latency_text(latency.map(|(p50, _)| p50)),
            latency_text(latency.map(|(_, p99)| p99)),
        );
        if let Some(share) = results.engine_share(work.name, peer.name) {
            let percent = share * 100.0;
            let _ = writeln!(
                text,
                "      its engine moved {percent:.1} % of the bytes in the median run, copying the rest"
            );
        }
        if let Some(line) = crowd_line(results, work.name, peer.name) {
            let _ = writeln!(text, "      {line}");
        }
        for cell in [&rate, &cpu] {
            if let Cell::Failed(fault) = cell {
                let _ = writeln!(text, "      FAILED: {fault}");
            }
        }
    }
    for verdict in verdicts.iter().filter(|verdict| verdict.work == work.name) {
        let _ = writeln!(text, "  {}", verdict_line(verdict));
    }
    text
}

/// What a crowd saw: medians of all runs.
fn crowd_line(results: &Results, work: &str, peer: &str) -> Option<String> {
    let of = |pick: fn(&Crowd) -> u64| {
        results.median_of(work, peer, |run| {
            run.crowd.as_ref().map(|crowd| pick(crowd) as f64)
        })
    };
    let first_us = of(|crowd| crowd.first_us)?;
    let last_us = of(|crowd| crowd.last_us)?;
    let fetches = results.median_of(work, peer, |run| Some(run.origin_requests? as f64))?;
    let spread = targets::median(results, work, peer, What::LastToFirst)?;
    Some(format!(
        "the origin was asked {fetches:.0} time(s); first client done after {:.0} ms, last after {:.0} ms ({spread:.2} x)",
        first_us / 1e3,
        last_us / 1e3
    ))
}

fn figure_columns(cell: &Cell, width: usize, decimals: usize) -> String {
    match cell {
        Cell::Absent => format!("{:>width$} {:>6}", "", ""),
        Cell::Failed(_) => format!("{:>width$} {:>6}", "FAILED", ""),
        Cell::Measured(summary) => {
            format!(
                "{:>width$.decimals$} {:>5.1}%",
                summary.median,
                summary.spread() * 100.0
            )
        }
    }
}

fn ratio(one: Option<f64>, other: Option<f64>) -> String {
    match (one, other) {
        (Some(one), Some(other)) if other > 0.0 => format!("{:.2}", one / other),
        _ => String::new(),
    }
}

fn verdict_line(verdict: &Verdict) -> String {
    let (what, sign) = match verdict.what {
        What::Rate => (
            works::named(verdict.work).map_or("rate", |work| work.rate_unit()),
            ">=",
        ),
        What::Cpu => ("CPU", "<="),
        What::Process => ("CPU of the process", "<="),
        What::Latency => ("median latency", "<="),
        What::Fetches => ("requests to the origin", "<="),
        What::LastToFirst => ("time of the last client, by that of the first,", "<="),
    };
    let of = if verdict.own == JUDGED {
        String::new()
    } else {
        format!(" of {}", verdict.own)
    };
    let outcome = if verdict.met { "met" } else { "MISSED" };
    if verdict.best_peer.is_empty() {
        return format!(
            "target: {what}{of} {sign} {:.2}: {:.2}, {outcome}",
            verdict.factor, verdict.ratio
        );
    }
    format!(
        "target: {what}{of} {sign} {:.2} x {}: {:.2} x, {outcome}",
        verdict.factor, verdict.best_peer, verdict.ratio
    )
}

fn memory_table(results: &Results) -> String {
    let mut text = String::new();
    for kind in MemoryKind::ALL {
        let cells: Vec<_> = PEERS
            .iter()
            .map(|peer| (peer.name, results.memory_cell(kind, peer.name)))
            .filter(|(_, cell)| *cell != Cell::Absent)
            .collect();
        let Some(connections) = results
            .memory
            .iter()
            .find(|run| run.kind == kind)
            .map(|run| run.connections)
        else {
            continue;
        };
        let _ = writeln!(
            text,
            "\nprocess memory per {} ({}; growth of PSS over {connections} of them{})",
            kind.title(),
            kind.name(),
            kind.besides()
        );
        for (peer, cell) in cells {
            let _ = match &cell {
                Cell::Absent => Ok(()),
                Cell::Failed(fault) => writeln!(text, "  {peer:<19} FAILED: {fault}"),
                Cell::Measured(summary) => {
                    let verdict = match (peer == JUDGED, summary.median <= memory_bytes_max(kind)) {
                        (false, _) => String::new(),
                        (true, true) => {
                            format!("   target: at most {:.0}: met", memory_bytes_max(kind))
                        }
                        (true, false) => {
                            format!("   target: at most {:.0}: MISSED", memory_bytes_max(kind))
                        }
                    };
                    writeln!(
                        text,
                        "  {peer:<19} {:>8.0} bytes {:>5.1}%{verdict}",
                        summary.median,
                        summary.spread() * 100.0
                    )
                }
            };
            text.push_str(&kernel_lines(results, kind, peer, &cell));
        }
    }
    text
}

/// Of split connections: what the kernel keeps for them, and whether that of idle ones is little enough.
fn kernel_lines(results: &Results, kind: MemoryKind, peer: &str, process: &Cell) -> String {
    let each: Vec<(f64, f64)> = results
        .memory
        .iter()
        .filter(|run| run.kind == kind && run.peer == peer && run.fault.is_none())
        .filter_map(|run| Some(run.kernel?.bytes_each(run.connections)))
        .collect();
    let median = |pick: fn(&(f64, f64)) -> f64| {
        let values: Vec<f64> = each.iter().map(pick).collect();
        Summary::of(&values).map(|summary| summary.median)
    };
    let (Some(slabs), Some(queued), Some(process)) = (
        median(|each| each.0),
        median(|each| each.1),
        process.median(),
    ) else {
        return String::new();
    };
    if kind != MemoryKind::Split {
        return format!("  {:<19} {queued:>8.0} bytes in the kernel's sockets\n", "");
    }
    let all = process + slabs;
    let outcome = if all <= SPLIT_BYTES_MAX {
        "met"
    } else {
        "MISSED"
    };
    format!(
        "  {:<19} {slabs:>8.0} bytes in the kernel's slabs; {all:.0} in all   target: at most {SPLIT_BYTES_MAX:.0}: {outcome}\n",
        ""
    )
}

fn summary(results: &Results, verdicts: &[Verdict]) -> String {
    let mut text = String::from("\n");
    let missed: Vec<&Verdict> = verdicts.iter().filter(|verdict| !verdict.met).collect();
    let _ = writeln!(
        text,
        "speed targets: {} met, {} missed",
        verdicts.len() - missed.len(),
        missed.len()
    );
    for verdict in missed {
        let _ = writeln!(text, "  {:<19} {}", verdict.work, verdict_line(verdict));
    }
    for note in &results.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text.push_str(
        "+-: the run farthest from the median. carrick x: carrick-auto's figure divided by this row's. x copy: this row's\n\
         divided by carrick-copy's. CPU: busy time of the proxy machine's core per request, round trip or GB, packet work\n\
         included. process: of that, what the proxy's processes were on the core for.\n",
    );
    text
}

#[cfg(test)]
mod tests;
