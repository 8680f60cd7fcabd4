//! Connections with different TCP options: which the kernel forwards, and which the process relays.

use super::bed::*;
use crate::hosts::succeed;
use crate::support::{HANG, lacks, wait_until};
use carrick_splice::{Choice, Engine};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc;

/// A tunnel, IPv4 and IPv6: the kernel forwards it, or the process relays it for this reason.
fn tunnel(refused: Option<&str>, prepare: impl Fn(&Bed)) {
    for addresses in [V4, V6] {
        let Some(bed) = Bed::new() else { return };
        prepare(&bed);
        let serving = bed.serve(addresses[1], 1, answer);
        let proxying = bed.tunnels(addresses, 1);
        let asking = bed.on(Host::Client, move || ask_and_close(addresses[0], 40));
        let sent = asking.join().unwrap();
        serving.join().unwrap();
        let told = proxying.join().unwrap().remove(0);
        match refused {
            None => told.assert_closed(sent),
            Some(reason) => assert_relayed(&told, sent, reason),
        }
    }
}

/// The process has relayed everything, for this reason.
#[track_caller]
fn assert_relayed(told: &Told, sent: (u64, u64), reason: &str) {
    assert_eq!((told.by_kernel, told.bytes), (0, sent), "{told:?}");
    assert_ne!(told.engines.0, Engine::Packet, "{told:?}");
    let of_packets = told.reasons.iter().filter(|one| one.starts_with("packet"));
    assert_eq!(of_packets.collect::<Vec<_>>(), [&reason], "{told:?}");
}

const SIDES: [Host; 2] = [Host::Client, Host::Server];

#[test]
fn timestamps_on_one_side_only() {
    for host in SIDES {
        tunnel(Some("packet_timestamps"), |bed| {
            bed.set(host, "tcp_timestamps", 0);
        });
    }
}

#[test]
fn timestamps_on_neither_side() {
    tunnel(None, |bed| {
        bed.set(Host::Middle, "tcp_timestamps", 0);
    });
}

#[test]
fn sack_on_one_side_only() {
    tunnel(Some("packet_sack"), |bed| {
        bed.set(Host::Server, "tcp_sack", 0);
    });
}

#[test]
fn sack_on_neither_side() {
    tunnel(None, |bed| {
        bed.set(Host::Middle, "tcp_sack", 0);
    });
}

#[test]
fn ecn_on_one_side_only() {
    // The client requests it, and the proxy agrees; it does not request it itself.
    tunnel(Some("packet_ecn"), |bed| {
        bed.set(Host::Client, "tcp_ecn", 1);
    });
}

#[test]
fn ecn_on_both_sides() {
    tunnel(None, |bed| {
        bed.set(Host::Client, "tcp_ecn", 1);
        bed.set(Host::Middle, "tcp_ecn", 1);
    });
}

#[test]
fn accurate_ecn_on_both_sides() {
    if lacks("tcp_ecn = 3", (7, 0)) {
        return;
    }
    tunnel(Some("packet_ecn"), |bed| {
        for host in [Host::Client, Host::Middle, Host::Server] {
            bed.set(host, "tcp_ecn", 3);
        }
    });
}

#[test]
fn windows_are_scaled_on_one_side_only() {
    for host in SIDES {
        tunnel(None, |bed| {
            bed.set(host, "tcp_window_scaling", 0);
        });
    }
}

#[test]
fn windows_of_other_scales() {
    // The scale follows from the largest receive buffer.
    tunnel(None, |bed| {
        bed.run(
            Host::Client,
            "sysctl -qw net.ipv4.tcp_rmem=4096\t131072\t65536000",
        );
        bed.run(
            Host::Server,
            "sysctl -qw net.ipv4.tcp_rmem=4096\t131072\t262144",
        );
    });
}

#[test]
fn one_side_takes_shorter_segments() {
    for interfaces in [["c", "pc"], ["ps", "s"]] {
        tunnel(Some("packet_segments"), |bed| {
            for (host, interface) in INTERFACES {
                if interfaces.contains(&interface) {
                    bed.ip(host, &format!("link set {interface} mtu 1400"));
                }
            }
        });
    }
}

#[test]
fn both_sides_take_shorter_segments() {
    tunnel(None, |bed| {
        for (host, interface) in INTERFACES {
            bed.ip(host, &format!("link set {interface} mtu 1300"));
        }
    });
}

/// Signs packets to a peer from now on, and accepts only signed ones (`TCP_MD5SIG`, tcp(7)). False if this kernel does not support it.
#[expect(unsafe_code, reason = "no library has this option")]
fn sign(stream: &impl AsRawFd, peer: Ipv4Addr) -> bool {
    const KEY: &[u8] = b"key";
    /// `struct tcp_md5sig` of linux/tcp.h: behind the address (`struct sockaddr_storage`) flags, a prefix, and the key's length.
    const KEY_LENGTH_AT: usize = 130;
    const KEY_AT: usize = 136;
    let mut signature = [0_u8; KEY_AT + 80];
    signature[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    signature[4..8].copy_from_slice(&peer.octets());
    signature[KEY_LENGTH_AT..][..2].copy_from_slice(&(KEY.len() as u16).to_ne_bytes());
    signature[KEY_AT..][..KEY.len()].copy_from_slice(KEY);
    // SAFETY: the descriptor is open, and the option is `signature.len()` bytes that live for the call.
    let outcome = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MD5SIG,
            signature.as_ptr().cast(),
            signature.len() as libc::socklen_t,
        )
    };
    let error = std::io::Error::last_os_error();
    if outcome != 0 {
        assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT), "{error}");
    }
    outcome == 0
}

#[test]
fn one_side_is_signed() {
    let Some(bed) = Bed::new() else { return };
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = bed.proxy(V4, (1, 128), |splicer, client, server| async move {
        let is_signed = sign(&client, Ipv4Addr::new(10, 78, 1, 2));
        (
            is_signed,
            relay(splicer, client, server, Choice::Packet).await,
        )
    });
    let asking = bed.on(Host::Client, || {
        let stream = connect(V4[0]);
        sign(&stream, Ipv4Addr::new(10, 78, 1, 1));
        ask_and_close_on(stream, 40)
    });
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    match &proxying.join().unwrap()[0] {
        (true, told) => assert_relayed(told, sent, "packet_signed"),
        (false, _) => carrick_test::lacks!("this kernel does not sign (CONFIG_TCP_MD5SIG)"),
    }
}

#[test]
fn data_with_the_syn() {
    let Some(bed) = Bed::new() else { return };
    // Client and proxy do it without a cookie (net.ipv4.tcp_fastopen), and the proxy on all listeners.
    bed.set(Host::Client, "tcp_fastopen", 1 | 4);
    bed.set(Host::Middle, "tcp_fastopen", 2 | 0x200 | 0x400);
    // For a while, nothing follows the SYN: the first question is relayed before the connection is established.
    bed.nft(
        Host::Middle,
        "table netdev early { chain c { type filter hook ingress device pc priority -500; tcp flags == ack counter drop; }; }",
    );
    let (relayed, is_relayed) = mpsc::channel();
    let (opened, is_open) = mpsc::channel();
    let serving = bed.serve(V4[1], 1, move |stream| {
        stream.peek(&mut [0]).unwrap();
        relayed.send(()).unwrap();
        answer(stream)
    });
    let proxying = bed.tunnels(V4, 1);
    let asking = bed.on(Host::Client, move || {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let proxy = SocketAddr::new(V4[0], PROXY_PORT);
        let question = [0; 16];
        socket
            .send_to_with_flags(&question, &proxy.into(), libc::MSG_FASTOPEN)
            .unwrap();
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        is_open.recv_timeout(HANG).unwrap();
        let (asked, answered) = ask_and_close_on(stream, 40);
        (asked + question.len() as u64, answered)
    });
    is_relayed.recv_timeout(HANG).unwrap();
    wait_until("an acknowledgement is dropped", || {
        let mut list = bed.command(Host::Middle, &["nft", "list", "table", "netdev", "early"]);
        let listed = succeed(&mut list).stdout;
        !String::from_utf8(listed).unwrap().contains("packets 0 ")
    });
    bed.nft(Host::Middle, "delete table netdev early");
    opened.send(()).unwrap();
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    let counted = bed.read(Host::Middle, "/proc/net/netstat");
    let told = &proxying.join().unwrap()[0];
    match extended(&counted, "TCPSynRetrans") {
        0 => told.assert_closed(sent),
        // On a slow machine the SYN-ACK is sent again, which the programs take for another connection's.
        _ => assert_eq!(told.bytes, sent, "{told:?}"),
    }
    // Otherwise the test proves nothing.
    assert_eq!(extended(&counted, "TCPFastOpenPassive"), 1);
}

#[test]
fn one_side_is_ipv4_and_the_other_ipv6() {
    for addresses in [[V4[0], V6[1]], [V6[0], V4[1]]] {
        let Some(bed) = Bed::new() else { return };
        // The segments have the same length.
        for (host, interface) in INTERFACES {
            let is_ipv6 = addresses[usize::from(["ps", "s"].contains(&interface))].is_ipv6();
            let mtu = if is_ipv6 { 1420 } else { 1400 };
            bed.ip(host, &format!("link set {interface} mtu {mtu}"));
        }
        let serving = bed.serve(addresses[1], 1, answer);
        let proxying = bed.tunnels(addresses, 1);
        let asking = bed.on(Host::Client, move || ask_and_close(addresses[0], 40));
        let sent = asking.join().unwrap();
        serving.join().unwrap();
        let told = proxying.join().unwrap().remove(0);
        assert_relayed(&told, sent, "packet_families");
    }
}

/// A tunnel whose server is on the proxy's host, at this address of it.
fn to_this_host(server: IpAddr, refused: &str) {
    let Some(bed) = Bed::new() else { return };
    let serving = bed.serve_at(Host::Middle, server, 1, answer);
    let proxying = bed.tunnels([V4[0], server], 1);
    let asking = bed.on(Host::Client, || ask_and_close(V4[0], 40));
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    let told = proxying.join().unwrap().remove(0);
    assert_relayed(&told, sent, refused);
}

#[test]
fn a_server_on_this_host() {
    to_this_host(IpAddr::V4(Ipv4Addr::LOCALHOST), "packet_loopback");
    // Not the address that it is reached from: only the route tells.
    to_this_host(IpAddr::V4(Ipv4Addr::new(127, 7, 7, 7)), "packet_loopback");
}

#[test]
fn an_interface_without_the_programs() {
    let Some(mut bed) = Bed::new() else {
        return;
    };
    bed.hooked = vec!["pc".to_owned()];
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = bed.tunnels(V4, 1);
    let asking = bed.on(Host::Client, || ask_and_close(V4[0], 40));
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    let told = proxying.join().unwrap().remove(0);
    assert_relayed(&told, sent, "packet_interface");
}

#[test]
fn translated_addresses() {
    let Some(bed) = Bed::new() else { return };
    // The server has another address on the proxy's host.
    let known = IpAddr::V4(Ipv4Addr::new(10, 78, 2, 9));
    bed.nft(
        Host::Middle,
        "table ip moved { chain c { type nat hook output priority -100; ip daddr 10.78.2.9 dnat to 10.78.2.2; }; }",
    );
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = bed.tunnels([V4[0], known], 1);
    let asking = bed.on(Host::Client, || ask_and_close(V4[0], 40));
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    let told = proxying.join().unwrap().remove(0);
    assert_relayed(&told, sent, "packet_unseen");
}
