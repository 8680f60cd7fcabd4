//! The laboratory's torture suite, shortened, with each of this carrick's engines. It needs root for network
//! namespaces; otherwise it is skipped with a message.
use std::process::Command;

use carrick_lab::command::find;
use carrick_lab::torture::cases::Case;
use carrick_lab::torture::http::run::Results as HttpResults;
use carrick_lab::torture::run::{Outcome, Played, Results};
use carrick_test::RunInTime;

const CARRICK: &str = env!("CARGO_BIN_EXE_carrick");

/// Whether it can run here.
fn can_run() -> bool {
    if !carrick_test::is_root() {
        return false;
    }
    let missing = ["ip", "ss", "taskset"]
        .into_iter()
        .find(|tool| find(tool).is_none());
    if let Some(tool) = missing {
        carrick_test::skip!("there is no {tool}");
    }
    missing.is_none()
}

/// Every case with one engine: no byte may be lost, every half-close must be kept, every reset must stay one, nothing
/// may be left behind. `None` if it is skipped.
fn torture(engine: &str) -> Option<Vec<(Case, Played)>> {
    if !can_run() {
        return None;
    }
    let relay = format!("carrick-{engine}");
    let output = Command::new(CARRICK)
        .args(["lab", "torture", "--smoke", "--json", "--relay", &relay])
        .args(["--carrick", CARRICK])
        .output_in_time()
        .expect("carrick");
    let said = String::from_utf8_lossy(&output.stderr);
    let results: Results = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no results ({error}): {said}"));
    let mut all = Vec::new();
    for row in results.rows {
        match row.outcome {
            Outcome::Played(played) => all.push((row.case, *played)),
            other => panic!("{:?} with {relay}: {other:?}", row.case),
        }
    }
    assert_eq!(all.len(), Case::ALL.len(), "{said}");
    for (case, played) in &all {
        let complaints = played.tally.complaints.join("\n");
        assert_eq!(
            played.harms(),
            Vec::<String>::new(),
            "{case:?} with {relay}, seed {}:\n{complaints}",
            results.seed
        );
        assert!(played.tally.received_bytes > 0, "{case:?}: {played:?}");
        assert!(played.start.is_some() && played.end.is_some(), "{case:?}");
    }
    let tally = |wanted: Case| {
        let found = all.iter().find(|(case, _)| *case == wanted);
        &found.expect("each case once").1.tally
    };
    assert!(tally(Case::HalfClose).half_closes.of >= 96);
    assert!(tally(Case::Resets).resets.of >= 100);
    assert!(tally(Case::SlowReader).held_bytes_max > Some(100_000));
    assert!(output.status.success(), "{said}");
    Some(all)
}

#[test]
fn copy_passes() {
    torture("copy");
}

#[test]
fn pipe_passes() {
    torture("pipe");
}

#[test]
fn auto_passes() {
    torture("auto");
}

#[test]
fn socket_passes() {
    let Some(all) = torture("socket") else {
        return;
    };
    if !is_usable("socket") {
        carrick_test::skip!("the kernel's share: the engine is not usable here");
        return;
    }
    // With alternating senders, the kernel must have done some of the work; otherwise something else was tested.
    for wanted in [Case::Many, Case::Churn] {
        let found = all.iter().find(|(case, _)| *case == wanted);
        let share = found.and_then(|(_, played)| played.kernel_share());
        assert!(share > Some(0.0), "{wanted:?}: {share:?}");
    }
}

/// Whether `carrick doctor` says that the engine is usable.
fn is_usable(engine: &str) -> bool {
    let doctor = Command::new(CARRICK)
        .arg("doctor")
        .output_in_time()
        .expect("carrick");
    let table = String::from_utf8_lossy(&doctor.stdout);
    table.lines().any(|line| {
        let mut words = line.split_whitespace();
        (words.next(), words.next(), words.next()) == (Some("engine"), Some(engine), Some("yes"))
    })
}

/// HTTP with one of carrick's ways, two seeds. Responses that were not cut must be complete, nothing may be left
/// behind, and if packets are forwarded, some must have been.
fn torture_http(way: &str, seed: &str) {
    if !can_run() {
        return;
    }
    let output = Command::new(CARRICK)
        .args([
            "lab",
            "torture",
            "--http",
            "--json",
            "--runs",
            "2",
            "--disturb",
        ])
        .args(["--way", way, "--seed", seed, "--carrick", CARRICK])
        .output_in_time()
        .expect("carrick");
    let said = String::from_utf8_lossy(&output.stderr);
    let results: HttpResults = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no results ({error}): {said}"));
    assert_eq!(results.runs.len(), 2, "{said}");
    for run in &results.runs {
        assert_eq!(run.tally.complaints, Vec::<String>::new(), "{said}");
        assert!(run.tally.whole > 0, "{said}");
    }
    assert!(output.status.success(), "{said}");
    if way == "auto" {
        return;
    }
    if !is_usable("packet") {
        carrick_test::skip!("the kernel's share: the engine is not usable here");
        return;
    }
    let forwarded: u64 = results.runs.iter().map(|run| run.forwarded_bytes).sum();
    assert!(forwarded > 0, "{said}");
}

#[test]
fn responses_by_packet_pass() {
    torture_http("unread", "3000");
}

#[test]
fn bodies_by_packet_pass() {
    torture_http("bodies", "2000");
}

#[test]
fn requests_by_packet_pass() {
    torture_http("classified", "3000");
}

#[test]
fn responses_through_the_process_pass() {
    torture_http("auto", "3000");
}

#[test]
fn unknown_names_are_reported() {
    for (arguments, part) in [
        (
            ["--relay", "varnish"],
            "there is no relay `varnish`: routed, carrick-copy",
        ),
        (
            ["--case", "fire"],
            "there is no case `fire`: slow-reader, end-with-backlog",
        ),
        (["--connections", "0"], "invalid value '0'"),
        (["--runs", "3"], "--http"),
    ] {
        let output = Command::new(CARRICK)
            .args(["lab", "torture"])
            .args(arguments)
            .output_in_time()
            .expect("carrick");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{said}");
    }
}

#[test]
fn the_list_has_every_case() {
    let output = Command::new(CARRICK)
        .args(["lab", "torture", "--list"])
        .output_in_time()
        .expect("carrick");
    let text = String::from_utf8_lossy(&output.stdout);
    for case in Case::ALL {
        assert!(
            text.contains(case.name()) && text.contains(case.about()),
            "{text}"
        );
    }
    assert!(output.status.success());
}
