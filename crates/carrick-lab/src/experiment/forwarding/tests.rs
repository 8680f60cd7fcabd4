//! Tests of forwarding delays.

use super::*;

const CLIENT: &str = "10.77.1.2";
const PROXY: &str = "10.77.3.2";
const SERVER: &str = "10.77.2.2";

fn packet(at_us: i128, outgoing: bool, from: &str, to: &str) -> Packet {
    Packet {
        at_ns: at_us * 1000,
        outgoing,
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
    }
}

fn ends() -> Ends {
    Ends {
        client: CLIENT.parse().unwrap(),
        server: SERVER.parse().unwrap(),
    }
}

#[test]
fn the_first_packets_of_each_direction_count() {
    let packets = [
        packet(100, false, CLIENT, PROXY),
        packet(280, true, PROXY, SERVER),
        packet(500, false, SERVER, PROXY),
        packet(505, false, SERVER, PROXY),
        packet(540, true, PROXY, CLIENT),
        packet(541, true, PROXY, CLIENT),
        // The response's end, then the next request.
        packet(600, false, SERVER, PROXY),
        packet(610, true, PROXY, CLIENT),
        packet(1000, false, CLIENT, PROXY),
        packet(1200, true, PROXY, SERVER),
        packet(1500, false, SERVER, PROXY),
        packet(1560, true, PROXY, CLIENT),
    ];
    let found = delays(&packets, ends());
    assert_eq!(found, [(180_000, 40_000), (200_000, 60_000)]);
    let mut sample = Sample::new();
    add(&mut sample, &found);
    assert_eq!(sample["request_forwarding_us"], 190.0);
    assert_eq!(sample["response_forwarding_us"], 50.0);
}

#[test]
fn routed_packets_are_seen_twice() {
    let packets = [
        packet(100, false, CLIENT, SERVER),
        packet(104, true, CLIENT, SERVER),
        packet(300, false, SERVER, CLIENT),
        packet(303, true, SERVER, CLIENT),
    ];
    assert_eq!(delays(&packets, ends()), [(4_000, 3_000)]);
}

#[test]
fn what_is_not_whole_does_not_count() {
    let packets = [
        packet(100, false, SERVER, PROXY),
        packet(101, true, PROXY, CLIENT),
        packet(200, false, CLIENT, PROXY),
    ];
    assert_eq!(delays(&packets, ends()), []);
    let mut sample = Sample::new();
    add(&mut sample, &[]);
    assert!(sample.is_empty());
}
