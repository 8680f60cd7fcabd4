//! Tests of the readers of logs and TCP counters.

use super::*;

#[test]
fn counters_are_found_by_name() {
    let text = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm ActiveOpens PassiveOpens\nTcp: 1 17 42\nUdp: x\nUdp: 1\n";
    assert_eq!(
        Connections::parse(text),
        Some(Connections {
            opened: 17,
            accepted: 42
        })
    );
    assert_eq!(Connections::parse("Tcp: ActiveOpens\n"), None);
}

#[test]
fn the_line_of_a_word_is_found_once_it_is_complete() {
    assert_eq!(line_of("rea", "ready"), None);
    assert_eq!(line_of("ready 10.0.0.1:80", "ready"), None);
    assert_eq!(line_of("readying\nalready\n", "ready"), None);
    let text = "starting\nready 10.0.0.1:80\nready 2\n";
    assert_eq!(line_of(text, "ready").as_deref(), Some("10.0.0.1:80"));
    assert_eq!(line_of("ready\n", "ready").as_deref(), Some(""));
}
