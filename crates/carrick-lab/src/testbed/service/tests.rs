//! Tests of the reader of TCP counters.

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
