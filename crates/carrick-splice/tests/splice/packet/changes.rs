//! Interfaces and routes that change while the kernel forwards: the packets still arrive.

use super::bed::*;
use super::response_ends::{LONG, ask_shortly, bind, hear_question};
use crate::support::*;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Asks so often, and adds the bytes of each direction to the sums.
fn talk(stream: &mut TcpStream, rounds: usize, (up, down): &mut (u64, u64)) {
    for round in 0..rounds {
        let (asked, answered) = ask(stream, 10 + round, 1000 * round);
        (*up, *down) = (*up + asked, *down + answered);
    }
}

#[test]
fn changed_routes_do_not_disturb_splices() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let bed = Arc::new(bed);
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = bed.tunnels(V4, 1);
    let roads = Arc::clone(&bed);
    let asking = bed.on(Host::Client, move || {
        let mut stream = connect(V4[0]);
        let mut sums = (0, 0);
        talk(&mut stream, 20, &mut sums);
        until_given(1);
        // The server behind another pair of interfaces, with the same addresses on both sides.
        roads.ip(Host::Middle, "link add ps2 type veth peer name s2");
        roads.give_to_server("s2");
        roads.ip(Host::Middle, "link set ps2 up");
        roads.ip(Host::Server, "link set s2 up");
        talk(&mut stream, 30, &mut sums);
        roads.ip(Host::Middle, "addr add 10.78.3.1/24 dev ps2");
        roads.ip(Host::Server, "addr add 10.78.3.2/24 dev s2");
        roads.ip(
            Host::Middle,
            "route add 10.78.2.2/32 via 10.78.3.2 src 10.78.2.1",
        );
        roads.ip(
            Host::Server,
            "route add 10.78.2.1/32 via 10.78.3.1 src 10.78.2.2",
        );
        wait_until("it goes by the new road", || {
            talk(&mut stream, 10, &mut sums);
            let moved = roads.read(Host::Middle, "/sys/class/net/ps2/statistics/tx_packets");
            moved.parse::<u64>().unwrap() > 40
        });
        drop(stream);
        sums
    });
    let bytes = asking.join().unwrap();
    assert_eq!(serving.join().unwrap().len(), 1);
    let told = proxying.join().unwrap();
    told[0].assert_closed(bytes);
}

/// A new interface, `above`, comes on top of one over which there is a splice; `change` puts it there.
fn covered_by(above: &str, change: &'static str) {
    let Some(bed) = Bed::new() else {
        return;
    };
    let kind = above.split(' ').next().unwrap();
    let link = if kind == "bridge" { "" } else { "link ps " };
    if !bed.can(
        Host::Middle,
        &format!("ip link add {link}name above8 type {above}"),
    ) {
        carrick_test::lacks!("this kernel has no {kind}");
        return;
    }
    let bed = Arc::new(bed);
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = bed.tunnels(V4, 1);
    let roads = Arc::clone(&bed);
    let asking = bed.on(Host::Client, move || {
        let mut stream = connect(V4[0]);
        let mut sums = (0, 0);
        talk(&mut stream, 20, &mut sums);
        until_given(1);
        roads.ip(Host::Middle, "link set above8 up");
        roads.ip(Host::Middle, change);
        talk(&mut stream, 30, &mut sums);
        drop(stream);
        sums
    });
    let bytes = asking.join().unwrap();
    serving.join().unwrap();
    proxying.join().unwrap()[0].assert_closed(bytes);
}

/// The programs stay there: only they translate between the connections.
#[test]
fn an_interface_that_becomes_a_port_of_a_bridge_keeps_its_splices() {
    covered_by("bridge", "link set ps master above8");
}

#[test]
fn an_interface_below_a_new_macvlan_keeps_its_splices() {
    covered_by("macvlan mode bridge", "addr add 10.78.9.1/24 dev above8");
}

/// Another pair of interfaces between the proxy and another host, which takes over the route between their old addresses.
fn build_other_road(bed: &Bed, host: Host, network: u8, own: u8) {
    bed.ip(
        Host::Middle,
        &format!(
            "link add other type veth peer name its netns {}",
            bed.name(host)
        ),
    );
    bed.ip(Host::Middle, "link set other up");
    bed.ip(host, "link set its up");
    bed.ip(Host::Middle, "addr add 10.78.3.1/24 dev other");
    bed.ip(host, "addr add 10.78.3.2/24 dev its");
    // The client is host 2 of its network, and so is the server; the proxy is host 1.
    let (there, here) = (
        format!("10.78.{network}.{own}"),
        format!("10.78.{network}.1"),
    );
    let proxy = format!("route add {there}/32 via 10.78.3.2 src {here}");
    let peer = format!("route add {here}/32 via 10.78.3.1 src {there}");
    bed.ip(Host::Middle, &proxy);
    bed.ip(host, &peer);
}

#[test]
fn a_forwarded_answer_takes_the_road_that_there_is() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let bed = Arc::new(bed);
    let serving = bed.serve(V4[1], 1, |mut stream| {
        hear_question(&mut stream);
        stream.write_all(&sample(1, LONG)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
    let proxying = bed.proxy(V4, (1, 8), |splicer, mut client, mut server| async move {
        let mut responses = bind(&splicer, &mut client, &mut server).await;
        while responses.progress().acked_bytes < LONG as u64 {
            let looks = poll_fn(|cx| {
                assert!(responses.listen(cx));
                Poll::<()>::Pending
            });
            let _ = tokio::time::timeout(Duration::from_millis(10), looks).await;
        }
        responses.disarm().unwrap();
    });
    let roads = Arc::clone(&bed);
    let asking = bed.on(Host::Client, move || {
        let mut stream = ask_shortly(V4[0]);
        let mut heard = vec![0; LONG];
        stream.read_exact(&mut heard[..LONG / 8]).unwrap();
        build_other_road(&roads, Host::Client, 1, 2);
        // Packets on the old path are lost.
        roads.ip(Host::Middle, "link set pc down");
        stream.read_exact(&mut heard[LONG / 8..]).unwrap();
        assert_same(&heard, &sample(1, LONG), "answer");
        stream.shutdown(Shutdown::Write).unwrap();
        let moved = roads.read(Host::Middle, "/sys/class/net/other/statistics/tx_bytes");
        assert!(moved.parse::<usize>().unwrap() > LONG / 2, "{moved}");
    });
    asking.join().unwrap();
    proxying.join().unwrap();
    serving.join().unwrap();
}
