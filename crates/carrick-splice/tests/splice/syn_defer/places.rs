//! Interfaces of other kinds: a bridge, a VLAN, and a tunnel, whose packets have no Ethernet header.

use super::*;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Moves the addresses of the router's interface towards the client to another one.
fn put_in(bed: &Bed, device: &str) {
    for address in ["10.79.1.1/24", "fd79:1::1/64"] {
        bed.ip(Host::Middle, &format!("addr del {address} dev rc"));
    }
    bed.address(Host::Middle, device, 1, 1);
}

fn is_served_and_refused(bed: &Bed) {
    let deferring = defer(bed, async |_, mut reader| {
        for _ in FAMILIES {
            assert!(next(&mut reader).await.release().unwrap());
            assert!(next(&mut reader).await.refuse().unwrap());
        }
    });
    for family in FAMILIES {
        let listener = bed.at(Host::Server, move || listen(address(family.server, 80)));
        bed.at(Host::Client, move || {
            TcpStream::connect_timeout(&address(family.server, 80), HANG).unwrap();
            let refused = TcpStream::connect_timeout(&address(family.server, 80), HANG);
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        });
        drop(listener);
    }
    deferring.join().unwrap();
}

#[test]
fn on_a_bridge() {
    let Some(bed) = bed() else {
        return;
    };
    bed.ip(Host::Middle, "link add bridge type bridge");
    bed.ip(Host::Middle, "link set rc master bridge");
    bed.ip(Host::Middle, "link set bridge up");
    put_in(&bed, "bridge");
    is_served_and_refused(&bed);
}

#[test]
fn on_a_vlan() {
    let Some(bed) = bed() else {
        return;
    };
    let add = "ip link add link rc name rc.5 type vlan id 5";
    if !bed.can(Host::Middle, add) {
        carrick_test::lacks!("this kernel has no VLANs");
        return;
    }
    bed.ip(Host::Middle, "link set rc.5 up");
    put_in(&bed, "rc.5");
    bed.ip(Host::Client, "link add link c name c.5 type vlan id 5");
    bed.ip(Host::Client, "link set c.5 up");
    bed.ip(Host::Client, "addr flush dev c");
    bed.address(Host::Client, "c.5", 1, 2);
    bed.ip(Host::Client, "route add default via 10.79.1.1");
    bed.ip(Host::Client, "-6 route replace default via fd79:1::1");
    is_served_and_refused(&bed);
}

/// Creates a tunnel in this thread's namespace; this process has its other end.
#[expect(unsafe_code, reason = "there is no other way to a tunnel")]
fn tunnel(name: &str) -> File {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .unwrap();
    // SAFETY: all zero is an `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    // SAFETY: the descriptor is open, the record its own.
    let outcome = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
    file
}

#[test]
fn by_a_tunnel_without_ethernet() {
    let Some(bed) = bed() else {
        return;
    };
    let file = bed.at(Host::Middle, || tunnel("tun"));
    bed.ip(Host::Middle, "link set tun up");
    put_in(&bed, "tun");
    let deferring = defer(&bed, async |_, mut reader| {
        for _ in FAMILIES {
            assert!(next(&mut reader).await.release().unwrap());
            assert!(next(&mut reader).await.refuse().unwrap());
        }
    });
    for family in FAMILIES {
        let listener = bed.at(Host::Server, move || listen(address(family.server, 80)));
        for (port, flags) in [(4000_u16, SYN | ACK), (4001, RST | ACK)] {
            (&file).write_all(&by_hand(&family, port, 5, &[])).unwrap();
            loop {
                let mut packet = [0; 2048];
                let length = (&file).read(&mut packet).unwrap();
                let Some(tcp) = tcp(&packet[..length]) else {
                    continue;
                };
                if tcp[2..4] == port.to_be_bytes() {
                    assert_eq!(tcp[FLAGS_AT] & 0x3f, flags);
                    break;
                }
            }
        }
        drop(listener);
    }
    deferring.join().unwrap();
}
