//! Tunnels between networks with different maximum segments.
use super::bed::{Bed, Running, inside, say};
use crate::support::wait_until;
use carrick_lab::testbed::namespace::Namespace;
use std::net::TcpStream;

/// Sent in one piece, larger than a segment.
const PIECE: &[u8] = &[7; 20_000];

/// Sets the MTU of interfaces.
fn narrow(interfaces: &[(&Namespace, &str)], mtu: &str) {
    for (host, interface) in interfaces {
        let words = ["link", "set", interface, "mtu", mtu];
        host.run("ip", &words).expect("ip");
    }
}

/// Waits until the kernel has a tunnel, and sends something in both directions.
fn go(bed: &Bed, carrick: &Running, ends: [TcpStream; 2]) {
    let mut ends = [ends];
    bed.wait_for_kernel(carrick, &mut ends);
    for (number, direction) in [0, 1, 1, 0].into_iter().enumerate() {
        let mut piece = PIECE.to_vec();
        piece[number] = 9;
        say(&mut ends[0], direction, &piece);
    }
    assert_eq!(bed.tunnels(carrick)["tunnels"]["packet"], 1);
}

/// Whether the segments of two connections did not fit.
fn unfit(bed: &Bed, carrick: &Running) -> bool {
    let metrics = bed.page(carrick, "/metrics");
    let mut lines = metrics.lines();
    lines.any(|line| {
        line.starts_with("carrick_splice_choices_total")
            && line.contains("packet_segments")
            && !line.ends_with(" 0")
    })
}

#[test]
fn the_server_sends_what_a_narrow_network_of_the_client_takes() {
    inside(|bed| {
        narrow(&[(&bed.client, "c"), (&bed.proxy, "pc")], "1400");
        let carrick = bed.start(0, "");
        let ends = bed.tunnel();
        go(bed, &carrick, ends);
    });
}

/// Drops the server's first answers, so that it looks distant.
fn delayed(bed: &Bed) -> [TcpStream; 2] {
    let rules = "add table inet slow; \
         add chain inet slow out { type filter hook output priority 0; }; \
         add rule inet slow out tcp flags & (syn | ack) == (syn | ack) counter drop;";
    let nft = |words: &str| bed.server.run("nft", &[words]).expect("nft");
    nft(rules);
    std::thread::scope(|scope| {
        let tunnel = scope.spawn(|| bed.tunnel());
        wait_until("a lost answer", || {
            !nft("list table inet slow").contains("packets 0 ")
        });
        nft("delete table inet slow");
        tunnel.join().expect("a tunnel")
    })
}

/// As behind most home routers: the client accepts and sends smaller segments than the proxy and the server.
#[test]
fn the_server_sends_what_a_narrow_client_takes() {
    inside(|bed| {
        narrow(&[(&bed.client, "c")], "1400");
        let carrick = bed.start(0, "[timeouts]\nconnect = \"10m\"\n");
        let ends = delayed(bed);
        go(bed, &carrick, ends);
    });
}

#[test]
fn a_client_that_may_send_more_than_the_servers_network_takes_goes_through_the_process() {
    inside(|bed| {
        narrow(&[(&bed.proxy, "ps"), (&bed.server, "s")], "1400");
        let carrick = bed.start(0, "");
        let mut ends = bed.tunnel();
        // Until its engine was chosen: that waits for a moment at which nothing is under way.
        wait_until("segments that do not fit", || {
            for (number, direction) in [0, 1, 1, 0].into_iter().enumerate() {
                let mut piece = PIECE.to_vec();
                piece[number] = 9;
                say(&mut ends, direction, &piece);
            }
            unfit(bed, &carrick)
        });
        assert_eq!(bed.tunnels(&carrick)["tunnels"]["packet"], 0);
    });
}
