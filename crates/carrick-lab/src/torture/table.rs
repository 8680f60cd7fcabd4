//! Results for people: tables in Markdown, which are also what documents show.

use std::fmt::Write as _;

use crate::tables::markdown as markdown_table;
use crate::torture::cases::Case;
use crate::torture::run::{Outcome, Played, Results, Row};
use crate::torture::tally::{Share, Tally};

/// The table of all cases, and one for each.
#[must_use]
pub fn markdown(results: &Results) -> String {
    let mut text = String::new();
    // Writing to memory cannot fail.
    let _ = writeln!(text, "Seed {}.", results.seed);
    for (program, version) in &results.versions {
        let _ = writeln!(text, "{program}: {version}.");
    }
    let _ = writeln!(text, "\n## All cases\n\n{}", summary(results));
    for case in cases(results) {
        let rows = results.rows.iter().filter(|row| row.case == case);
        let _ = writeln!(
            text,
            "## {}\n\n{}.\n",
            case.name(),
            capitalized(case.about())
        );
        let mut lines = vec![CASE_HEAD.map(str::to_owned).to_vec()];
        lines.extend(rows.map(case_line));
        let _ = writeln!(text, "{}", markdown_table(&lines));
    }
    let complaints = complaints(results);
    if !complaints.is_empty() {
        let _ = writeln!(text, "## Complaints\n\n{complaints}");
    }
    text
}

/// One row in one line, as it comes.
#[must_use]
pub fn line(row: &Row) -> String {
    let verdict = verdict(&row.outcome);
    let seconds = match &row.outcome {
        Outcome::Played(played) => format!(" ({:.1} s)", played.seconds),
        _ => String::new(),
    };
    format!("{} {}: {verdict}{seconds}", row.case.name(), row.relay)
}

const CASE_HEAD: [&str; 11] = [
    "relay",
    "connections",
    "bytes received",
    "lost",
    "half-closes",
    "resets",
    "held, MB",
    "sockets, MB",
    "process, MB",
    "by the kernel",
    "verdict",
];

fn case_line(row: &Row) -> Vec<String> {
    let Outcome::Played(played) = &row.outcome else {
        let mut cells = vec![row.relay.clone()];
        cells.resize(CASE_HEAD.len() - 1, String::new());
        cells.push(verdict(&row.outcome));
        return cells;
    };
    let tally = &played.tally;
    vec![
        row.relay.clone(),
        tally.connections.to_string(),
        tally.received_bytes.to_string(),
        tally.lost_bytes.to_string(),
        share(tally.half_closes),
        share(tally.resets),
        tally.held_bytes_max.map_or(String::new(), megabytes),
        socket_megabytes(played),
        process_megabytes(played),
        played
            .kernel_share()
            .map_or(String::new(), |share| format!("{:.0} %", 100.0 * share)),
        verdict(&row.outcome),
    ]
}

/// What each relay did in all cases together.
fn summary(results: &Results) -> String {
    let head = [
        "relay",
        "bytes lost",
        "wrong bytes",
        "half-closes honoured",
        "resets passed on",
        "false ends",
        "broken, hung, refused",
        "taken unread, MB",
        "sockets, MB",
        "process, MB",
        "left behind",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    let mut relays: Vec<&str> = Vec::new();
    for row in &results.rows {
        if !relays.contains(&row.relay.as_str()) {
            relays.push(&row.relay);
        }
    }
    for relay in relays {
        let of_relay: Vec<(Case, &Played)> = results
            .rows
            .iter()
            .filter(|row| row.relay == relay)
            .filter_map(|row| match &row.outcome {
                Outcome::Played(played) => Some((row.case, played.as_ref())),
                _ => None,
            })
            .collect();
        if of_relay.is_empty() {
            let why = results.rows.iter().find(|row| row.relay == relay);
            let why = why.map_or(String::new(), |row| verdict(&row.outcome));
            let mut cells = vec![relay.to_owned(), why];
            cells.resize(head.len(), String::new());
            lines.push(cells);
            continue;
        }
        let mut sum = Tally::default();
        for (_, played) in &of_relay {
            sum.add(played.tally.clone());
        }
        let slow = of_relay
            .iter()
            .find(|(case, _)| *case == Case::SlowReader)
            .map(|(_, played)| *played);
        let left: Vec<String> = of_relay
            .iter()
            .flat_map(|(case, played)| {
                left(played)
                    .into_iter()
                    .map(|what| format!("{}: {what}", case.name()))
            })
            .collect();
        lines.push(vec![
            relay.to_owned(),
            sum.lost_bytes.to_string(),
            some_or_none(sum.wrong),
            share(sum.half_closes),
            share(sum.resets),
            some_or_none(sum.false_ends),
            format!("{}, {}, {}", sum.broken, sum.hung, sum.refused),
            slow.and_then(|played| played.tally.unread_bytes_max)
                .map_or(String::new(), megabytes),
            slow.map_or(String::new(), socket_megabytes),
            slow.map_or(String::new(), process_megabytes),
            if left.is_empty() {
                String::from("nothing")
            } else {
                left.join("; ")
            },
        ]);
    }
    markdown_table(&lines)
}

fn left(played: &Played) -> Vec<String> {
    played
        .start
        .zip(played.end)
        .map_or(Vec::new(), |(start, end)| end.left_since(&start))
}

fn complaints(results: &Results) -> String {
    let mut text = String::new();
    for row in &results.rows {
        if let Outcome::Played(played) = &row.outcome {
            for complaint in &played.tally.complaints {
                let _ = writeln!(text, "- {} {}: {complaint}", row.case.name(), row.relay);
            }
        }
    }
    text
}

fn verdict(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Played(played) => {
            let harms = played.harms();
            if harms.is_empty() {
                String::from("good")
            } else {
                harms.join(", ")
            }
        }
        Outcome::Skipped(reason) => format!("skipped: {reason}"),
        Outcome::Failed(why) => format!("FAILED: {}", why.replace('\n', " ")),
    }
}

fn cases(results: &Results) -> Vec<Case> {
    let mut cases: Vec<Case> = results.rows.iter().map(|row| row.case).collect();
    cases.dedup();
    cases
}

fn share(share: Share) -> String {
    match share.of {
        0 => String::new(),
        of => format!("{} of {of}", share.good),
    }
}

fn some_or_none(count: u64) -> String {
    match count {
        0 => String::from("none"),
        count => count.to_string(),
    }
}

fn socket_megabytes(played: &Played) -> String {
    let start = played.start.map(|start| start.socket_bytes);
    start.map_or(String::new(), |start| {
        megabytes(played.peak.socket_bytes.saturating_sub(start))
    })
}

fn process_megabytes(played: &Played) -> String {
    let start = played.start.map(|start| start.rss_bytes);
    start.map_or(String::new(), |start| {
        megabytes(played.peak.rss_bytes.saturating_sub(start))
    })
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
