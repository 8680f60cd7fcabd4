//! Interfaces and routes that change while the kernel forwards: the packets find their way.

use super::bed::*;
use std::sync::Arc;

#[test]
fn whoever_changes_the_roads_changes_nothing_for_the_travellers() {
    let Some(bed) = Bed::new("whoever_changes_the_roads_changes_nothing_for_the_travellers") else {
        return;
    };
    let bed = Arc::new(bed);
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = bed.tunnels(V4, 1);
    let roads = Arc::clone(&bed);
    let asking = bed.on(Host::Client, move || {
        let mut stream = connect(V4[0]);
        let (mut up, mut down) = (0, 0);
        let mut talk = |stream: &mut std::net::TcpStream, rounds: usize| {
            for round in 0..rounds {
                let (asked, answered) = ask(stream, 10 + round, 1000 * round);
                (up, down) = (up + asked, down + answered);
            }
        };
        talk(&mut stream, 20);
        // The server behind another pair of interfaces, with the same addresses on both sides.
        roads.ip(Host::Proxy, "link add ps2 type veth peer name s2");
        roads.give_to_server("s2");
        roads.ip(Host::Proxy, "link set ps2 up");
        roads.ip(Host::Server, "link set s2 up");
        talk(&mut stream, 20);
        roads.ip(Host::Proxy, "addr add 10.78.3.1/24 dev ps2");
        roads.ip(Host::Server, "addr add 10.78.3.2/24 dev s2");
        roads.ip(
            Host::Proxy,
            "route add 10.78.2.2/32 via 10.78.3.2 src 10.78.2.1",
        );
        roads.ip(
            Host::Server,
            "route add 10.78.2.1/32 via 10.78.3.1 src 10.78.2.2",
        );
        std::thread::sleep(ARMED);
        talk(&mut stream, 40);
        drop(stream);
        let moved = roads.read(Host::Proxy, "/sys/class/net/ps2/statistics/tx_packets");
        assert!(moved.parse::<u64>().unwrap() > 40, "{moved}");
        (up, down)
    });
    let bytes = asking.join().unwrap();
    assert_eq!(serving.join().unwrap().len(), 1);
    let told = proxying.join().unwrap();
    told[0].assert_closed(bytes);
}
