//! Connections that have other options than each other, and what is done about it.

use super::bed::*;
use carrick_splice::Engine;

/// What becomes of a tunnel, IPv4 and IPv6: does the kernel forward it, or does the process relay it, because the two are unlike?
fn tunnel(test: &str, is_spliced: bool, prepare: impl Fn(&Bed)) {
    for addresses in [V4, V6] {
        let Some(bed) = Bed::new(test) else { return };
        prepare(&bed);
        let serving = bed.serve(addresses[1], 1, answer);
        let proxying = bed.tunnels(addresses, 1);
        let asking = bed.on(Host::Client, move || ask_and_close(addresses[0], 40));
        let sent = asking.join().unwrap();
        serving.join().unwrap();
        let told = proxying.join().unwrap().remove(0);
        if is_spliced {
            told.assert_closed(sent);
        } else {
            assert_eq!((told.by_kernel, told.bytes), (0, sent), "{told:?}");
            assert_ne!(told.engines.0, Engine::Packet, "{told:?}");
            assert!(told.reasons.contains(&"packet_unlike"), "{told:?}");
        }
    }
}

const SIDES: [Host; 2] = [Host::Client, Host::Server];

#[test]
fn timestamps_on_one_side_only() {
    for host in SIDES {
        tunnel("timestamps_on_one_side_only", false, |bed| {
            bed.set(host, "tcp_timestamps", 0);
        });
    }
}

#[test]
fn timestamps_on_neither_side() {
    tunnel("timestamps_on_neither_side", true, |bed| {
        bed.set(Host::Proxy, "tcp_timestamps", 0);
    });
}

#[test]
fn sack_on_one_side_only() {
    tunnel("sack_on_one_side_only", false, |bed| {
        bed.set(Host::Server, "tcp_sack", 0);
    });
}

#[test]
fn sack_on_neither_side() {
    tunnel("sack_on_neither_side", true, |bed| {
        bed.set(Host::Proxy, "tcp_sack", 0);
    });
}

#[test]
fn ecn_on_one_side_only() {
    // The client asks for it, and the proxy agrees; it does not ask by itself.
    tunnel("ecn_on_one_side_only", false, |bed| {
        bed.set(Host::Client, "tcp_ecn", 1);
    });
}

#[test]
fn ecn_on_both_sides() {
    tunnel("ecn_on_both_sides", true, |bed| {
        bed.set(Host::Client, "tcp_ecn", 1);
        bed.set(Host::Proxy, "tcp_ecn", 1);
    });
}

#[test]
fn windows_are_scaled_on_one_side_only() {
    for host in SIDES {
        tunnel("windows_are_scaled_on_one_side_only", true, |bed| {
            bed.set(host, "tcp_window_scaling", 0);
        });
    }
}

#[test]
fn windows_of_other_scales() {
    // The scale follows from the largest receive buffer.
    tunnel("windows_of_other_scales", true, |bed| {
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
        tunnel("one_side_takes_shorter_segments", false, |bed| {
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
    tunnel("both_sides_take_shorter_segments", true, |bed| {
        for (host, interface) in INTERFACES {
            bed.ip(host, &format!("link set {interface} mtu 1300"));
        }
    });
}
