//! Tunnels on a proxy with a stateful firewall: connection tracking keeps nothing of what has ended.
use super::bed::{Bed, inside, say};
use crate::support::wait_until;
use crate::transparent::bed::inside as command_in;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// The number of tunnels, one after another, at most so many at a time: 500, if `CARRICK_TRACKED_TUNNELS` does not say otherwise.
const TUNNELS: usize = 500;
const TOGETHER: usize = 50;

const FIREWALL: [&str; 10] = [
    "add table inet firewall",
    "add chain inet firewall in { type filter hook input priority 0 ; policy drop ; }",
    "add rule inet firewall in iif lo accept",
    "add rule inet firewall in ct state invalid drop",
    "add rule inet firewall in ct state established,related accept",
    "add rule inet firewall in tcp dport 8080 ct state new accept",
    "add chain inet firewall out { type filter hook output priority 0 ; policy drop ; }",
    "add rule inet firewall out ct state invalid drop",
    "add rule inet firewall out oif lo accept",
    "add rule inet firewall out ct state new,established,related accept",
];

const TABLE: &str = "/proc/net/nf_conntrack";

/// Runs a test behind the firewall.
fn behind_a_firewall<F: FnOnce(&Bed)>(bed: &Bed, play: F) {
    for line in FIREWALL {
        let words: Vec<&str> = line.split(' ').collect();
        bed.proxy.run("nft", &words).expect("nft");
    }
    if !std::path::Path::new(TABLE).exists() {
        carrick_test::lacks!("the kernel has no {TABLE}");
        return;
    }
    let settings = ["close", "time_wait", "fin_wait", "last_ack", "close_wait"]
        .map(|end| (format!("tcp_timeout_{end}"), "2"));
    // Nothing is picked up in its middle.
    for (name, value) in settings.into_iter().chain([("tcp_loose".to_owned(), "0")]) {
        let path = format!("net/netfilter/nf_conntrack_{name}");
        bed.proxy.set_parameter(&path, value).expect("a parameter");
    }
    play(bed);
}

/// What the proxy's netfilter knows. (Reading removes what has expired.)
fn tracked(bed: &Bed) -> String {
    let output = command_in(&bed.proxy, &["cat", TABLE]).output();
    String::from_utf8(output.expect("cat").stdout).expect("text")
}

fn until_untracked(bed: &Bed) {
    wait_until("netfilter to forget all", || tracked(bed).is_empty());
    let count = ["cat", "/proc/sys/net/netfilter/nf_conntrack_count"];
    let count = command_in(&bed.proxy, &count).output().expect("cat").stdout;
    assert_eq!(count, b"0\n");
}

/// Ends a tunnel, by a reset or in order, from either side; the other one notices.
fn end(ends: [TcpStream; 2], number: usize) {
    let who = number % 2;
    let [mut first, mut second] = ends;
    if who == 1 {
        (first, second) = (second, first);
    }
    if number.is_multiple_of(3) {
        let linger = Some(Duration::ZERO);
        socket2::SockRef::from(&first)
            .set_linger(linger)
            .expect("set");
        drop(first);
        let read = second.read(&mut [0]);
        assert!(!matches!(read, Ok(1..)), "{read:?}");
    } else {
        first.shutdown(Shutdown::Write).expect("ended");
        assert_eq!(second.read(&mut [0]).expect("its end"), 0);
        drop(second);
        assert_eq!(first.read(&mut [0]).expect("its end"), 0);
    }
}

#[test]
fn many_tunnels_leave_no_entries() {
    inside(|bed| {
        behind_a_firewall(bed, |bed| {
            let wanted = std::env::var("CARRICK_TRACKED_TUNNELS").ok();
            let wanted = wanted.map_or(TUNNELS, |number| number.parse().expect("a number"));
            let carrick = bed.start(0, "");
            let mut number = 0;
            while number < wanted {
                let mut tunnels: Vec<_> = (0..TOGETHER.min(wanted - number))
                    .map(|_| bed.tunnel())
                    .collect();
                bed.wait_for_kernel(&carrick, &mut tunnels);
                for ends in tunnels {
                    end(ends, number);
                    number += 1;
                }
                bed.wait_until(&carrick, "their end", |told| told["tunnels"]["packet"] == 0);
            }
            until_untracked(bed);
            carrick.stop();
        });
    });
}

#[test]
fn tunnels_go_on_behind_a_firewall_when_carrick_is_killed_and_leave_no_entries() {
    inside(|bed| {
        behind_a_firewall(bed, |bed| {
            bed.forget_orphans();
            let first = bed.start(0, "");
            let mut tunnels: Vec<_> = (0..20).map(|_| bed.tunnel()).collect();
            bed.wait_for_kernel(&first, &mut tunnels);
            first.kill();
            // Netfilter has seen the ends of the dead process's sockets; their peers have not.
            until_untracked(bed);
            for ends in &mut tunnels {
                say(ends, 0, b"still here");
                say(ends, 1, b"me too");
            }
            let second = bed.start(0, "");
            bed.wait_until(&second, "them", |told| told["outliving"]["adopted"] == 20);
            for (number, ends) in tunnels.into_iter().enumerate() {
                end(ends, number);
            }
            bed.wait_until(&second, "their end", |told| {
                told["outliving"]["adopted"] == 0
            });
            second.stop();
            until_untracked(bed);
        });
    });
}

/// The rules apply to new connections as ever.
#[test]
fn a_new_rule_refuses_new_connections_beside_a_tunnel_that_is_forwarded() {
    inside(|bed| {
        behind_a_firewall(bed, |bed| {
            let carrick = bed.start(0, "");
            let mut ends = bed.kernel_tunnel(&carrick);
            let words =
                "insert rule inet firewall in tcp dport 8080 ct state new reject with tcp reset";
            let words: Vec<&str> = words.split(' ').collect();
            bed.proxy.run("nft", &words).expect("nft");
            let refused = super::on(&bed.client, || TcpStream::connect(super::PROXY));
            assert!(refused.is_err(), "{refused:?}");
            say(&mut ends, 0, b"undisturbed");
            say(&mut ends, 1, b"so am I");
            wait_until("both entries", || {
                tracked(bed).matches("ESTABLISHED").count() >= 2
            });
        });
    });
}
