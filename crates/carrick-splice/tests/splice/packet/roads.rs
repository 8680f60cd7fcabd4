//! Interfaces of other kinds, and with less help by the hardware.

use super::bed::*;

fn tunnel_on(bed: &Bed) {
    for addresses in [V4, V6] {
        let serving = bed.serve(addresses[1], 1, answer);
        let proxying = bed.tunnels(addresses, 1);
        let asking = bed.on(Host::Client, move || ask_and_close(addresses[0], 60));
        let sent = asking.join().unwrap();
        serving.join().unwrap();
        proxying.join().unwrap()[0].assert_closed(sent);
    }
}

/// Turns features of all interfaces on or off.
fn features(bed: &Bed, features: &str) {
    for (host, interface) in INTERFACES {
        bed.run(host, &format!("ethtool -K {interface} {features}"));
    }
}

fn has_ethtool() -> bool {
    let is_there = std::process::Command::new("ethtool")
        .arg("--version")
        .output();
    if is_there.is_err() {
        carrick_test::lacks!("it needs ethtool");
    }
    is_there.is_ok()
}

#[test]
fn segments_are_cut_and_summed_up_by_hand() {
    let Some(bed) = Bed::new() else { return };
    if !has_ethtool() {
        return;
    }
    // Every packet is a segment, and its checksum is looked at.
    features(&bed, "tso off gso off gro off tx off rx off");
    tunnel_on(&bed);
}

#[test]
fn segments_are_put_together() {
    let Some(bed) = Bed::new() else { return };
    if !has_ethtool() {
        return;
    }
    features(&bed, "tso off gso off gro on");
    tunnel_on(&bed);
}

#[test]
fn checksums_without_large_packets() {
    let Some(bed) = Bed::new() else { return };
    if !has_ethtool() {
        return;
    }
    features(&bed, "tx off gro on");
    tunnel_on(&bed);
}

#[test]
fn by_a_vlan() {
    let Some(bed) = Bed::bare() else {
        return;
    };
    if !bed.can(Host::Middle, "ip link add link ps name v8 type vlan id 8") {
        carrick_test::lacks!("by_a_vlan: this kernel has no VLANs");
        return;
    }
    bed.address(Host::Client, "c", 1, 2);
    bed.address(Host::Middle, "pc", 1, 1);
    for (host, interface, own) in [(Host::Middle, "ps", 1), (Host::Server, "s", 2)] {
        bed.ip(
            host,
            &format!("link add link {interface} name v7 type vlan id 7"),
        );
        bed.ip(host, "link set v7 up");
        bed.address(host, "v7", 2, own);
    }
    tunnel_on(&bed);
}

#[test]
fn by_a_bridge() {
    let Some(bed) = Bed::bare() else {
        return;
    };
    bed.address(Host::Client, "c", 1, 2);
    bed.ip(Host::Middle, "link add br7 type bridge");
    bed.ip(Host::Middle, "link set br7 up");
    bed.ip(Host::Middle, "link set pc master br7");
    bed.address(Host::Middle, "br7", 1, 1);
    bed.address(Host::Middle, "ps", 2, 1);
    bed.address(Host::Server, "s", 2, 2);
    tunnel_on(&bed);
}

#[test]
fn by_a_router_on_the_way() {
    let Some(bed) = Bed::bare() else {
        return;
    };
    bed.address(Host::Client, "c", 1, 2);
    bed.address(Host::Middle, "pc", 1, 1);
    // The server's address is behind its interface's.
    bed.address(Host::Middle, "ps", 3, 1);
    bed.address(Host::Server, "s", 3, 2);
    bed.address(Host::Server, "lo", 2, 2);
    bed.ip(Host::Middle, "route add 10.78.2.0/24 via 10.78.3.2");
    bed.ip(Host::Middle, "route add fd78:2::/64 via fd78:3::2");
    tunnel_on(&bed);
}
