//! Interfaces of other kinds, and with fewer hardware offloads.

use super::bed::*;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Four interfaces, of which the first two and the last two are linked: in virtual machines (scripts/kernels).
const LENT: &str = "CARRICK_TEST_INTERFACES";

/// One tunnel; the proxy listens at `own`. Returns its report, and the bytes in each direction.
fn told(bed: &Bed, own: IpAddr, addresses: [IpAddr; 2]) -> (Told, (u64, u64)) {
    let serving = bed.serve(addresses[1], 1, answer);
    let proxying = bed.tunnels([own, addresses[1]], 1);
    let asking = bed.on(Host::Client, move || ask_and_close(addresses[0], 60));
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    (proxying.join().unwrap().remove(0), sent)
}

fn tunnel_on(bed: &Bed) {
    for addresses in [V4, V6] {
        let (told, sent) = told(bed, addresses[0], addresses);
        told.assert_closed(sent);
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
        carrick_test::skip!("it needs ethtool");
    }
    is_there.is_ok()
}

/// Reports that this machine lacks something; a virtual machine that was made for these tests must not.
#[track_caller]
fn lacks(what: &str) {
    assert!(std::env::var_os(LENT).is_none(), "{what}");
    carrick_test::lacks!("{what}");
}

#[test]
fn segments_are_cut_and_summed_up_by_hand() {
    let Some(bed) = Bed::new() else { return };
    if !has_ethtool() {
        return;
    }
    // Every packet is a segment, and its checksum is verified.
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
        lacks("this kernel has no VLANs");
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

/// The client's packets have a tag without a number: a mere priority. Those to it have none.
#[test]
fn with_a_priority() {
    let Some(bed) = Bed::new() else {
        return;
    };
    if !bed.can(Host::Client, "ip link add link c name c0 type vlan id 0") {
        lacks("this kernel has no VLANs");
        return;
    }
    bed.ip(Host::Middle, "link set pc address 02:00:00:00:00:78");
    let proxy = V4[0];
    for change in [
        "link set c0 up".to_owned(),
        format!("neigh add {proxy} lladdr 02:00:00:00:00:78 dev c0"),
        format!("route add {proxy} dev c0 src 10.78.1.2"),
    ] {
        bed.ip(Host::Client, &change);
    }
    let (told, sent) = told(&bed, proxy, V4);
    told.assert_closed(sent);
}

/// The server's interface is on top of another one of the same host, which could also translate the packets.
#[test]
fn by_a_macvlan() {
    let Some(bed) = Bed::bare() else {
        return;
    };
    if !bed.can(
        Host::Middle,
        "ip link add link ps name mv7 type macvlan mode bridge",
    ) {
        lacks("this kernel has no macvlans");
        return;
    }
    bed.address(Host::Client, "c", 1, 2);
    bed.address(Host::Middle, "pc", 1, 1);
    bed.ip(Host::Middle, "link set mv7 up");
    bed.address(Host::Middle, "mv7", 2, 1);
    bed.address(Host::Server, "s", 2, 2);
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
fn by_a_bond() {
    let Some(bed) = Bed::bare() else {
        return;
    };
    if !bed.can(
        Host::Middle,
        "ip link add bond7 type bond mode active-backup miimon 100",
    ) {
        lacks("this kernel has no bonds");
        return;
    }
    bed.address(Host::Client, "c", 1, 2);
    bed.address(Host::Middle, "pc", 1, 1);
    bed.ip(Host::Middle, "link set ps down");
    bed.ip(Host::Middle, "link set ps master bond7");
    bed.ip(Host::Middle, "link set bond7 up");
    bed.address(Host::Middle, "bond7", 2, 1);
    bed.address(Host::Server, "s", 2, 2);
    tunnel_on(&bed);
}

/// Clients are in their own routing table, the server is not. The kernel does not find their sockets for a program in a test run.
#[test]
fn from_a_vrf() {
    let Some(bed) = Bed::bare() else {
        return;
    };
    if !bed.can(Host::Middle, "ip link add vrf7 type vrf table 77") {
        lacks("this kernel has no VRFs");
        return;
    }
    bed.ip(Host::Middle, "link set vrf7 up");
    bed.ip(Host::Middle, "link set pc master vrf7");
    bed.set(Host::Middle, "tcp_l3mdev_accept", 1);
    bed.give_addresses();
    for (any, addresses) in [
        (Ipv4Addr::UNSPECIFIED.into(), V4),
        (Ipv6Addr::UNSPECIFIED.into(), V6),
    ] {
        let (told, sent) = told(&bed, any, addresses);
        assert_eq!((told.bytes, told.by_kernel), (sent, 0), "{told:?}");
    }
}

/// A stateful firewall, which sees fewer packets of spliced connections.
#[test]
fn with_what_does_not_belong_to_a_connection_dropped() {
    let Some(bed) = Bed::new() else { return };
    for hook in ["input", "output"] {
        bed.nft(
            Host::Middle,
            &format!(
                "add table inet wall; add chain inet wall {hook} {{ type filter hook {hook} priority 0; policy drop; }}; \
                 add rule inet wall {hook} ct state invalid drop; \
                 add rule inet wall {hook} ct state established,related accept; \
                 add rule inet wall {hook} meta l4proto {{ tcp, ipv6-icmp }} accept"
            ),
        );
    }
    tunnel_on(&bed);
}

/// Connections that are translated between a socket and the wire stay with the process.
#[test]
fn behind_an_address_translation_on_the_same_host() {
    let Some(bed) = Bed::new() else { return };
    bed.nft(
        Host::Middle,
        "add table inet nat; add chain inet nat out { type nat hook postrouting priority 100; }; \
         add rule inet nat out oifname ps meta l4proto tcp masquerade random",
    );
    for addresses in [V4, V6] {
        let (told, sent) = told(&bed, addresses[0], addresses);
        assert_eq!((told.bytes, told.by_kernel), (sent, 0), "{told:?}");
    }
}

/// IPVS between the wire and the proxy's sockets, on both sides: the client knows a virtual address of the proxy, and
/// the proxy one of the server.
#[test]
fn behind_virtual_services_on_the_same_host() {
    let Some(bed) = Bed::new() else { return };
    for (interface, [network, real], port) in
        [("pc", [1, 1], PROXY_PORT), ("ps", [2, 2], SERVER_PORT)]
    {
        let service = format!("10.78.{network}.9:{port}");
        if !bed.can(Host::Middle, &format!("ipvsadm -A -t {service} -s rr")) {
            lacks("this kernel has no IPVS, or there is no ipvsadm");
            return;
        }
        bed.address(Host::Middle, interface, network, 9);
        let real = format!("10.78.{network}.{real}:{port}");
        bed.run(
            Host::Middle,
            &format!("ipvsadm -a -t {service} -r {real} -m"),
        );
    }
    let serving = bed.serve(V4[1], 1, answer);
    let virtual_server = Ipv4Addr::new(10, 78, 2, 9).into();
    let proxying = bed.tunnels([V4[0], virtual_server], 1);
    let asking = bed.on(Host::Client, || {
        ask_and_close(Ipv4Addr::new(10, 78, 1, 9).into(), 60)
    });
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    let told = proxying.join().unwrap().remove(0);
    assert_eq!((told.bytes, told.by_kernel), (sent, 0), "{told:?}");
}

/// A queue that obeys departure times in packets: forwarded packets must not carry that of their arrival.
#[test]
fn by_fair_queues() {
    let Some(bed) = Bed::new() else { return };
    for interface in ["pc", "ps"] {
        if !bed.can(
            Host::Middle,
            &format!("tc qdisc replace dev {interface} root fq"),
        ) {
            lacks("this kernel has no fq");
            return;
        }
    }
    tunnel_on(&bed);
}

#[test]
fn by_several_queues() {
    let Some(bed) = Bed::new() else { return };
    if !has_ethtool() {
        return;
    }
    for (host, interface) in INTERFACES {
        if !bed.can(host, &format!("ethtool -L {interface} rx 2 tx 2")) {
            lacks("an interface has one queue only");
            return;
        }
    }
    features(&bed, "gro on");
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

#[test]
fn by_interfaces_of_the_machine() {
    let Ok(names) = std::env::var(LENT) else {
        carrick_test::lacks!("{LENT} names none");
        return;
    };
    let names = names.split(',').map(str::to_owned).collect();
    let Some(bed) = Bed::by(names) else { return };
    bed.give_addresses();
    tunnel_on(&bed);
    let serving = bed.serve(V4[1], 1, answer);
    let proxying = bed.tunnels(V4, 1);
    let asking = bed.on(Host::Client, || {
        let mut stream = connect(V4[0]);
        let mut sum = (0, 0);
        // Long enough for large packets.
        for bytes in [10, 20, 30, 10_000_000, 10_000_000] {
            let (up, down) = ask(&mut stream, bytes, bytes);
            sum = (sum.0 + up, sum.1 + down);
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        sum
    });
    let sent = asking.join().unwrap();
    serving.join().unwrap();
    proxying.join().unwrap()[0].assert_closed(sent);
}
