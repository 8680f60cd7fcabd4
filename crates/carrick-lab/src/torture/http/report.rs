//! Runs for people: a line for each, and a table for each way.

use std::fmt::Write as _;

use crate::tables;
use crate::torture::http::Way;
use crate::torture::http::run::{Results, Run};
use crate::torture::http::tally::Tally;

/// One run in one line, as it comes.
#[must_use]
pub fn line(run: &Run) -> String {
    let tally = &run.tally;
    let verdict = match tally.complaint_count {
        0 if run.is_unforwarded => String::from("good, but nothing was forwarded"),
        0 => String::from("good"),
        count => format!("{count} COMPLAINTS"),
    };
    let mut text = format!(
        "seed {} {}: {verdict} ({} connections, {} whole, {:.1} MB, {:.1} MB forwarded, {} requests classified by the kernel, {:.1} s; {})",
        run.seed,
        run.way.name(),
        tally.connections,
        tally.whole,
        megabytes(tally.body_bytes),
        megabytes(run.forwarded_bytes),
        run.classified,
        run.seconds,
        run.network
    );
    for complaint in &tally.complaints {
        // Writing to memory cannot fail.
        let _ = write!(text, "\n  {complaint}");
    }
    text
}

/// A table with a row for each way, the complaints, and where nothing was forwarded.
#[must_use]
pub fn markdown(results: &Results) -> String {
    let head = [
        "way",
        "runs",
        "connections",
        "requests",
        "whole",
        "MB",
        "MB forwarded",
        "requests classified by the kernel",
        "cut by the origin",
        "cut by clients",
        "excused",
        "repeated",
        "complaints",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for way in Way::ALL {
        let runs: Vec<&Run> = results.runs.iter().filter(|run| run.way == way).collect();
        if runs.is_empty() {
            continue;
        }
        let mut sum = Tally::default();
        let mut forwarded = 0;
        for run in &runs {
            sum.add(&run.tally);
            forwarded += run.forwarded_bytes;
        }
        lines.push(vec![
            way.name().to_owned(),
            runs.len().to_string(),
            sum.connections.to_string(),
            sum.requests.to_string(),
            sum.whole.to_string(),
            format!("{:.0}", megabytes(sum.body_bytes)),
            format!("{:.0}", megabytes(forwarded)),
            runs.iter()
                .map(|run| run.classified)
                .sum::<u64>()
                .to_string(),
            sum.cut_by_origin.to_string(),
            sum.cut_by_client.to_string(),
            sum.excused.to_string(),
            sum.repeated.to_string(),
            sum.complaint_count.to_string(),
        ]);
    }
    let mut text = tables::markdown(&lines);
    for run in results.runs.iter().filter(|run| run.is_unforwarded) {
        let _ = write!(
            text,
            "\nSeed {} {}: nothing was forwarded ({}).",
            run.seed,
            run.way.name(),
            run.network
        );
    }
    for run in &results.runs {
        for complaint in &run.tally.complaints {
            let _ = write!(text, "\n- {complaint}");
        }
    }
    text
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
