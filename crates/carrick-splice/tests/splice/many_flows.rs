//! The example `many_flows`: two hundred thousand connections fit into the packet engine's maps, and tunnels work beside a crowd.

use crate::support::on_worker;
use carrick_splice::PacketService;

#[allow(dead_code, reason = "its main function is not called here")]
#[path = "../../examples/many_flows.rs"]
mod example;

/// `None` without root.
fn report(words: [&str; 4]) -> Option<example::Report> {
    if !carrick_test::is_root() {
        return None;
    }
    let words = words.map(str::to_owned);
    Some(on_worker(async { example::run(&words).await.unwrap() }))
}

#[test]
fn two_hundred_thousand_flows_take_less_than_a_kilobyte_each() {
    let Some(report) = report(["200000", "1", "0", "0"]) else {
        return;
    };
    let (bytes, added) = (report.bytes_per_flow, report.added_bytes_per_flow);
    assert!(bytes < 1024.0, "{bytes} bytes");
    // At least the addresses of a connection, and its destination. Linux before 6.4 tells what a map may take.
    assert!(
        (40.0..bytes).contains(&added) || added == 0.0,
        "{added} bytes"
    );
}

#[test]
fn tunnels_work_beside_a_crowd() {
    let Some(report) = report(["20000", "2", "2", "200"]) else {
        return;
    };
    assert_eq!(report.rounds.len(), 2);
    for round in report.rounds.as_flattened() {
        let [arriving, leaving] = round.program_ns;
        assert!(
            round.trips_per_second > 0.0 && arriving > 0.0 && leaving > 0.0,
            "{arriving} and {leaving} ns"
        );
    }
}

#[test]
fn a_crowd_needs_a_loaded_engine() {
    let error = PacketService::default().dummy_splices(1).unwrap_err();
    assert!(error.to_string().contains("not loaded"), "{error}");
}
