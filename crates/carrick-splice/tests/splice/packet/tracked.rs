//! Connections that netfilter tracks (nf_conntrack), with a firewall that lets in nothing but new connections to the proxy.

use super::bed::*;
use crate::support::*;
use carrick_splice::{Choice, ExchangeEnd, ExchangeOrder};
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, mpsc};
use tokio::sync::Notify;

const TABLE: &str = "/proc/net/nf_conntrack";

/// Rules of a stateful firewall; nothing is picked up in its middle.
fn firewalled() -> Option<Bed> {
    let bed = Bed::new()?;
    bed.nft(
        Host::Middle,
        "add table inet firewall; \
         add chain inet firewall in { type filter hook input priority 0; policy drop; }; \
         add rule inet firewall in ct state invalid drop; \
         add rule inet firewall in ct state established,related accept; \
         add rule inet firewall in meta l4proto { icmp, ipv6-icmp } accept; \
         add rule inet firewall in tcp dport 8080 ct state new accept; \
         add chain inet firewall out { type filter hook output priority 0; policy drop; }; \
         add rule inet firewall out ct state invalid drop; \
         add rule inet firewall out ct state established,related accept; \
         add rule inet firewall out meta l4proto { icmp, ipv6-icmp } accept; \
         add rule inet firewall out tcp dport 8000 ct state new accept",
    );
    if !bed.can(Host::Middle, &format!("test -e {TABLE}")) {
        carrick_test::lacks!("the kernel has no {TABLE}");
        return None;
    }
    track(&bed, "tcp_loose", 0);
    for end in ["close", "time_wait", "fin_wait", "last_ack"] {
        track(&bed, &format!("tcp_timeout_{end}"), 1);
    }
    Some(bed)
}

/// Sets `net.netfilter.nf_conntrack_NAME` of the proxy.
fn track(bed: &Bed, name: &str, value: u32) {
    let setting = format!("net.netfilter.nf_conntrack_{name}={value}");
    bed.run(Host::Middle, &format!("sysctl -qw {setting}"));
}

/// The seconds that are left to each entry of an established connection on the proxy.
fn established(bed: &Bed) -> Vec<u32> {
    let table = bed.read(Host::Middle, TABLE);
    let entries = table.lines().map(|line| line.split_whitespace().collect());
    entries
        .filter_map(|words: Vec<_>| {
            let seconds = words.get(4)?.parse().ok()?;
            (words.get(5) == Some(&"ESTABLISHED")).then_some(seconds)
        })
        .collect()
}

/// Waits until there is no entry. (Reading the table removes those whose time is over.)
fn until_untracked(bed: &Bed) {
    wait_until("no connection is tracked", || {
        bed.read(Host::Middle, TABLE).is_empty()
    });
    let count = "/proc/sys/net/netfilter/nf_conntrack_count";
    assert_eq!(bed.read(Host::Middle, count), "0");
}

#[test]
fn tunnels_pass_a_stateful_firewall_and_leave_no_entries() {
    for addresses in [V4, V6] {
        let Some(bed) = firewalled() else { return };
        let serving = bed.serve(addresses[1], 1, answer);
        let proxying = bed.tunnels(addresses, 1);
        let asking = bed.on(Host::Client, move || ask_and_close(addresses[0], 50));
        let sent = asking.join().unwrap();
        serving.join().unwrap();
        proxying.join().unwrap()[0].assert_closed(sent);
        until_untracked(&bed);
    }
}

/// Time passes, but connection tracking sees no packet of what the kernel forwards.
#[test]
fn entries_are_renewed_and_the_connections_come_back() {
    for addresses in [V4, V6] {
        let Some(bed) = firewalled() else { return };
        // Equal packets would be retransmissions, after which an entry is kept for a short time only.
        track(&bed, "tcp_max_retrans", 1);
        let bed = Arc::new(bed);
        let next = Arc::new(Notify::new());
        let serving = bed.serve(addresses[1], 1, answer);
        let asked = Arc::clone(&next);
        let (taken_back, is_taken_back) = mpsc::channel();
        let proxying = bed.proxy(addresses, (1, 8), move |splicer, client, server| {
            let (next, taken_back) = (Arc::clone(&next), taken_back.clone());
            async move {
                let order = ExchangeOrder::new(Choice::Packet);
                let mut exchange = splicer.exchange(client, server, order);
                tokio::select! {
                    end = exchange.run() => panic!("{end:?}"),
                    () = next.notified() => {}
                }
                let (_, _, [a, b]) = exchange.unsplice_own().await;
                taken_back.send(()).unwrap();
                let order = ExchangeOrder::new(Choice::Copy);
                let mut exchange = splicer.exchange(a.unwrap(), b.unwrap(), order);
                assert!(matches!(exchange.run().await, ExchangeEnd::Closed));
            }
        });
        let hosts = Arc::clone(&bed);
        let asking = bed.on(Host::Client, move || {
            let mut stream = connect(addresses[0]);
            ask_until_decided(&mut stream);
            ask(&mut stream, 20_000, 300_000);
            for seconds in [500_000, 600_000, 700_000] {
                track(&hosts, "tcp_timeout_established", seconds);
                wait_until("both entries are renewed", || {
                    ask(&mut stream, 1, 1);
                    let left = established(&hosts);
                    left.len() == 2 && left.iter().all(|left| *left > seconds - 50_000)
                });
            }
            until_at_rest();
            hosts.on(Host::Server, until_at_rest).join().unwrap();
            asked.notify_one();
            is_taken_back.recv_timeout(HANG).unwrap();
            ask(&mut stream, 300_000, 300_000);
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        });
        asking.join().unwrap();
        serving.join().unwrap();
        proxying.join().unwrap();
        until_untracked(&bed);
    }
}

#[test]
fn entries_of_reset_tunnels_go() {
    for client_resets in [true, false] {
        let Some(bed) = firewalled() else { return };
        let end = move |is_mine: bool, mut stream: TcpStream| {
            wait_until("everything is acknowledged", || {
                is_all_acknowledged(&stream)
            });
            if is_mine {
                let linger = Some(std::time::Duration::ZERO);
                socket2::SockRef::from(&stream).set_linger(linger).unwrap();
            } else {
                assert!(read_to_any_end(&mut stream).1);
            }
        };
        let serving = bed.serve(V4[1], 1, move |mut stream| {
            greet_back(&mut stream);
            end(!client_resets, stream);
        });
        let proxying = bed.tunnels(V4, 1);
        let client = bed.on(Host::Client, move || {
            let mut stream = connect(V4[0]);
            greet(&mut stream);
            end(client_resets, stream);
        });
        client.join().unwrap();
        serving.join().unwrap();
        let told = proxying.join().unwrap().remove(0);
        assert!(matches!(told.end, ExchangeEnd::Fault { .. }), "{told:?}");
        until_untracked(&bed);
    }
}

#[test]
fn translated_connections_are_left_alone_and_others_are_not() {
    const OTHER_PORT: u16 = 81;
    const REDIRECT: &str = "add table inet nat; \
         add chain inet nat in { type nat hook prerouting priority dstnat; }; \
         add rule inet nat in tcp dport 81 redirect to :8080";
    const MASQUERADE: &str = "add table inet nat; \
         add chain inet nat out { type nat hook postrouting priority srcnat; }; \
         add rule inet nat out oifname ps meta l4proto tcp masquerade to :20000-29999";
    let cases = [
        (REDIRECT, OTHER_PORT, true),
        (MASQUERADE, PROXY_PORT, true),
        (REDIRECT, PROXY_PORT, false),
    ];
    for addresses in [V4, V6] {
        for (rules, port, is_translated) in cases {
            let Some(bed) = Bed::new() else { return };
            bed.nft(Host::Middle, rules);
            let serving = bed.serve(addresses[1], 1, answer);
            let proxying = bed.tunnels(addresses, 1);
            let asking = bed.on(Host::Client, move || {
                let stream = TcpStream::connect((addresses[0], port)).unwrap();
                stream.set_nodelay(true).unwrap();
                ask_and_close_on(stream, 20)
            });
            let sent = asking.join().unwrap();
            serving.join().unwrap();
            let told = proxying.join().unwrap().remove(0);
            assert_eq!(told.bytes, sent, "{told:?}");
            assert_eq!(told.by_kernel == 0, is_translated, "{told:?}");
            let reason = told.reasons.contains(&"packet_unseen");
            assert_eq!(reason, is_translated, "{told:?}");
        }
    }
}
