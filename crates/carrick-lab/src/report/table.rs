//! Results side by side, as text: a table for each workload, its verdicts, and what is worth knowing of the run.

use std::fmt::Write as _;

use crate::bench::plan::{Does, Work};
use crate::experiment::results::{Cell, Described, ExperimentResults};
use crate::experiment::target::What;
use crate::peers::JUDGED;
use crate::report::verdicts::{Verdict, judge, metric, summary};
use crate::statistics::Summary;
use crate::tables::plain;

/// What carrick's other engines are compared with.
const COPY: &str = "carrick-copy";
/// Above this, other programs have a say in the figures.
const FOREIGN_CORES_MAX: f64 = 0.1;

/// The whole text.
#[must_use]
pub fn render(results: &ExperimentResults) -> String {
    let verdicts = judge(results);
    let mut text = heading(results);
    for workload in &results.workloads {
        let is_measured = results.cells.iter().any(|cell| {
            cell.workload == workload.id && (!cell.samples.is_empty() || cell.failure.is_some())
        });
        if let Some(work) = workload.work.filter(|_| is_measured) {
            text.push_str(&section(results, workload, &work, &verdicts));
        }
    }
    text.push_str(&end(results, &verdicts));
    text
}

fn heading(results: &ExperimentResults) -> String {
    let machine = &results.machine;
    let samples = results.workloads.iter().map(|workload| workload.samples);
    let mut lines = vec![
        format!(
            "{}, {} cores, Linux {}",
            machine.processor, machine.cores, machine.kernel
        ),
        format!(
            "{} at both ends of every connection; {} interleaved run(s); load of the machine at the start: {}",
            results.congestion_control,
            samples.max().unwrap_or_default(),
            machine.load_at_start
        ),
        results.command.clone(),
    ];
    let versions = results.versions.iter();
    lines.extend(versions.map(|(program, version)| format!("{program}: {version}")));
    if !results.meter.is_empty() {
        lines.push(format!("CPU meter: {}", results.meter));
    }
    let samples = results.cells.iter().flat_map(|cell| &cell.samples);
    let foreign: Vec<f64> = samples
        .filter_map(|sample| sample.get("foreign_cores").copied())
        .collect();
    if let Some(foreign) = Summary::of(&foreign) {
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
    if let Some(why) = &results.ended_early {
        lines.push(format!("PARTIAL: {why}"));
    }
    lines.join("\n") + "\n"
}

/// A workload: its rows, what else is to be said of each, and the verdicts.
fn section(
    results: &ExperimentResults,
    workload: &Described,
    work: &Work,
    verdicts: &[Verdict<'_>],
) -> String {
    let mut rows: Vec<&str> = Vec::new();
    for cell in results
        .cells
        .iter()
        .filter(|cell| cell.workload == workload.id)
    {
        if cell.waiting_for.is_none() && !rows.contains(&cell.series.as_str()) {
            rows.push(&cell.series);
        }
    }
    let (mut text, table) = match work.does {
        Does::Memory(kind) => (
            format!(
                "\n{} ({}; growth of PSS over {} of them{})\n",
                workload.about,
                workload.id,
                kind.count(work.connections),
                kind.besides()
            ),
            memory(results, workload, &rows),
        ),
        _ => (
            format!("\n{} ({})\n", workload.about, workload.id),
            speed(results, workload, work, &rows),
        ),
    };
    for line in table.lines() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, " {}", line.trim_end());
    }
    for row in &rows {
        for remark in remarks(results, workload, row) {
            let _ = writeln!(text, "  {row}: {remark}");
        }
    }
    let own = verdicts
        .iter()
        .filter(|verdict| verdict.workload == workload.id);
    for verdict in own {
        let _ = writeln!(text, "  {}", verdict_line(verdict, Some(work)));
    }
    text
}

/// A row for each series: rate, CPU, both compared with carrick, and latencies.
fn speed(results: &ExperimentResults, workload: &Described, work: &Work, rows: &[&str]) -> String {
    let of = |row: &str, what| summary(results, &workload.id, row, what);
    let decimals = if work.is_stream() { 2 } else { 0 };
    // Streams are counted in bytes, and told in bits.
    let divide_by = if work.is_stream() { 125e6 } else { 1.0 };
    let head = [
        "",
        work.rate_unit(),
        "+-",
        "carrick x",
        "x copy",
        &format!("CPU {}", work.cpu_unit()),
        "+-",
        "carrick x",
        "x copy",
        "process",
        "p50 us",
        "p99 us",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for row in rows {
        let mut fields = vec![(*row).to_owned()];
        for (what, decimals, divide_by) in [(What::Rate, decimals, divide_by), (What::Cpu, 1, 1.0)]
        {
            let (value, other) = (of(row, what), |other| of(other, what));
            let cells = results.cells_of(&workload.id, row, what.cores());
            fields.extend(figure(value, cells, decimals, divide_by));
            fields.push(ratio(other(JUDGED), value));
            fields.push(ratio(value, other(COPY)));
        }
        let process = of(row, What::Process).map(|summary| format!("{:.1}", summary.median));
        fields.push(process.unwrap_or_default());
        for name in [metric(What::Latency, false), "latency_p99_ms"] {
            let values = results.values(&workload.id, row, What::Latency.cores(), name);
            let median = values.and_then(|values| Summary::of(&values));
            fields.push(median.map_or_else(String::new, |ms| format!("{:.0}", ms.median * 1e3)));
        }
        lines.push(fields);
    }
    plain(&lines, 1)
}

fn memory(results: &ExperimentResults, workload: &Described, rows: &[&str]) -> String {
    let median = |row: &str, name: &str| {
        let values = results.values(&workload.id, row, "shared", name)?;
        Summary::of(&values)
    };
    let shown = [
        ("process_bytes_each", "bytes"),
        ("kernel_slab_bytes_each", "in the kernel's slabs"),
        ("kernel_socket_bytes_each", "in the kernel's sockets"),
    ];
    let has = |name: &str| rows.iter().any(|row| median(row, name).is_some());
    let shown: Vec<_> = shown.iter().filter(|(name, _)| has(name)).collect();
    let mut head = vec![""];
    head.extend(shown.iter().flat_map(|(_, title)| [*title, "+-"]));
    let mut lines: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    for row in rows {
        let mut fields = vec![(*row).to_owned()];
        for (name, _) in &shown {
            let cells = results.cells_of(&workload.id, row, "shared");
            fields.extend(figure(median(row, name), cells, 0, 1.0));
        }
        lines.push(fields);
    }
    plain(&lines, 1)
}

/// The median, and how far the farthest sample is from it.
fn figure<'a>(
    summary: Option<Summary>,
    mut cells: impl Iterator<Item = &'a Cell>,
    decimals: usize,
    divide_by: f64,
) -> [String; 2] {
    match summary {
        Some(summary) => [
            format!("{:.decimals$}", summary.median / divide_by),
            format!("{:.1}%", summary.spread() * 100.0),
        ],
        None if cells.any(|cell| cell.failure.is_some()) => [String::from("FAILED"), String::new()],
        None => [String::new(), String::new()],
    }
}

fn ratio(one: Option<Summary>, other: Option<Summary>) -> String {
    match (one, other) {
        (Some(one), Some(other)) if other.median > 0.0 => {
            format!("{:.2}", one.median / other.median)
        }
        _ => String::new(),
    }
}

/// What else is to be said of a row.
fn remarks(results: &ExperimentResults, workload: &Described, row: &str) -> Vec<String> {
    let cells = || {
        results
            .cells
            .iter()
            .filter(|cell| cell.workload == workload.id && cell.series == row)
    };
    let median = |name: &str| {
        let samples = cells().flat_map(|cell| &cell.samples);
        let values: Vec<f64> = samples
            .filter_map(|sample| sample.get(name).copied())
            .collect();
        Summary::of(&values).map(|summary| summary.median)
    };
    let mut remarks = Vec::new();
    if let Some(share) = median("engine_share") {
        remarks.push(format!(
            "its engine moved {:.1} % of the bytes in the median run, copying the rest",
            share * 100.0
        ));
    }
    if let (Some(first), Some(last), Some(asked)) = (
        median("crowd_first_ms"),
        median("crowd_last_ms"),
        median("origin_requests"),
    ) {
        let spread = summary(results, &workload.id, row, What::LastToFirst);
        let spread = spread.map_or(f64::NAN, |spread| spread.median);
        remarks.push(format!(
            "the origin was asked {asked:.0} time(s); first client done after {first:.0} ms, last after {last:.0} ms ({spread:.2} x)"
        ));
    }
    for failure in cells().filter_map(|cell| cell.failure.as_ref()) {
        let text = format!("FAILED: {failure}");
        if !remarks.contains(&text) {
            remarks.push(text);
        }
    }
    remarks
}

fn verdict_line(verdict: &Verdict<'_>, work: Option<&Work>) -> String {
    let target = verdict.target;
    let (what, sign) = match target.what {
        What::Rate => (work.map_or("rate", Work::rate_unit), ">="),
        What::Cpu => ("CPU", "<="),
        What::Process => ("CPU of the process", "<="),
        What::Latency => ("median latency", "<="),
        What::Fetches => ("requests to the origin", "<="),
        What::LastToFirst => ("time of the last client, by that of the first,", "<="),
        What::Memory => ("bytes of the processes", "<="),
        What::MemoryAndKernel => ("bytes with those of the kernel's slabs", "<="),
    };
    let of = if target.of == JUDGED {
        String::new()
    } else {
        format!(" of {}", target.of)
    };
    let outcome = if verdict.met { "met" } else { "MISSED" };
    let decimals = if target.what.is_memory() { 0 } else { 2 };
    match verdict.best {
        None => format!(
            "target: {what}{of} {sign} {:.decimals$}: {:.decimals$}, {outcome}",
            target.bound, verdict.ratio
        ),
        Some((best, _)) => format!(
            "target: {what}{of} {sign} {:.2} x {best}: {:.2} x, {outcome}",
            target.bound, verdict.ratio
        ),
    }
}

fn end(results: &ExperimentResults, verdicts: &[Verdict<'_>]) -> String {
    let mut text = String::from("\n");
    let speed = || {
        verdicts
            .iter()
            .filter(|verdict| !verdict.target.what.is_memory())
    };
    let missed = speed().filter(|verdict| !verdict.met).count();
    let _ = writeln!(
        text,
        "speed targets: {} met, {missed} missed",
        speed().count() - missed
    );
    for verdict in speed().filter(|verdict| !verdict.met) {
        let work = results.workload(verdict.workload).and_then(|of| of.work);
        let line = verdict_line(verdict, work.as_ref());
        let _ = writeln!(text, "  {:<19} {line}", verdict.workload);
    }
    let mut notes = results.notes.clone();
    for cell in &results.cells {
        if let Some(what) = &cell.waiting_for {
            let note = format!("{} is left out, waiting for {what}", cell.series);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    for note in notes {
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
