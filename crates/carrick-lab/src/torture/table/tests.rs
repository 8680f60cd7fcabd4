//! What a reader of the tables learns.

use std::collections::BTreeMap;

use super::*;
use crate::torture::cases::Scale;
use crate::torture::watch::Holdings;

fn row(relay: &str, case: Case, outcome: Outcome) -> Row {
    Row {
        relay: relay.to_owned(),
        is_carrick: relay.starts_with("carrick"),
        case,
        outcome,
    }
}

fn played(tally: Tally, sockets_left: u64) -> Outcome {
    let start = Holdings {
        rss_bytes: 1_000_000,
        sockets: 4,
        ..Holdings::default()
    };
    Outcome::Played(Box::new(Played {
        tally,
        start: Some(start),
        peak: Holdings {
            rss_bytes: 3_500_000,
            socket_bytes: 6_200_000,
            ..Holdings::default()
        },
        end: Some(Holdings {
            sockets: 4 + sockets_left,
            ..start
        }),
        seconds: 1.5,
    }))
}

fn results() -> Results {
    let good = Tally {
        connections: 2,
        received_bytes: 77,
        unread_bytes_max: Some(8_000_000),
        half_closes: Share { good: 2, of: 2 },
        ..Tally::default()
    };
    let bad = Tally {
        connections: 2,
        lost_bytes: 12,
        false_ends: 1,
        half_closes: Share { good: 0, of: 2 },
        complaints: vec![String::from("connection 1 up: 5 of 17 bytes arrived")],
        ..Tally::default()
    };
    Results {
        seed: 9,
        scale: Scale::Smoke,
        versions: BTreeMap::from([(String::from("nginx"), String::from("nginx version: 1"))]),
        rows: vec![
            row("carrick-copy", Case::SlowReader, played(good, 0)),
            row("nginx", Case::SlowReader, played(bad, 3)),
            row(
                "3proxy",
                Case::SlowReader,
                Outcome::Skipped(String::from("missing")),
            ),
        ],
    }
}

#[test]
fn everything_that_was_found_is_told() {
    let text = markdown(&results());
    for part in [
        "Seed 9.",
        "nginx: nginx version: 1.",
        "| carrick-copy | 0 ",
        "2 of 2",
        "8.0",
        "6.2",
        "2.5",
        "| good ",
        "12 bytes lost, 1 false ends, 2 half-closes not honoured, 3 sockets left",
        "slow-reader: 3 sockets left",
        "skipped: missing",
        "- slow-reader nginx: connection 1 up: 5 of 17 bytes arrived",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

#[test]
fn every_line_of_a_table_has_as_many_cells_as_its_head() {
    let text = markdown(&results());
    for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
        let cells: Vec<usize> = table
            .lines()
            .map(|line| line.matches('|').count())
            .collect();
        assert!(cells.iter().all(|count| *count == cells[0]), "{table}");
    }
}

#[test]
fn only_carrick_is_judged() {
    let faults: Vec<bool> = results().rows.iter().map(Row::is_fault).collect();
    assert_eq!(faults, [false, false, false]);
    let failed = row(
        "carrick-pipe",
        Case::Tiny,
        Outcome::Failed(String::from("it ended")),
    );
    assert!(failed.is_fault());
    let leaks = row(
        "carrick-pipe",
        Case::Tiny,
        played(
            Tally {
                connections: 1,
                ..Tally::default()
            },
            1,
        ),
    );
    assert!(leaks.is_fault());
    assert_eq!(line(&failed), "tiny carrick-pipe: FAILED: it ended");
}
