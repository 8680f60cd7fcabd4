//! A client, a router, and a server, each in its own network namespace. Packet rules are tested there, too.

use crate::hosts::{Hosts, Interface, succeed};
use crate::support::{link_address, wait_until};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::process::Command;

pub use crate::hosts::Host;
pub use carrick_test::listen;

/// A client, a router and a server. The router has the interfaces `rc`, towards the client, and `rs`, towards the
/// server, and is the default route. It sends checksums, which receivers verify.
pub struct Bed(Hosts);

const INTERFACES: [Interface; 4] = [
    (Host::Client, "c"),
    (Host::Middle, "rc"),
    (Host::Middle, "rs"),
    (Host::Server, "s"),
];

impl Deref for Bed {
    type Target = Hosts;

    fn deref(&self) -> &Hosts {
        &self.0
    }
}

/// Addresses of the hosts in one family; clients connect to port 80, servers listen on 8080.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "the tests of packet rules use all of it")]
pub struct Family {
    pub client: &'static str,
    pub router: &'static str,
    pub server: &'static str,
    /// An unused address that is reached by the router.
    pub elsewhere: &'static str,
    pub clients: &'static str,
    pub all: &'static str,
}

pub const FAMILIES: [Family; 2] = [
    Family {
        client: "10.79.1.2",
        router: "10.79.1.1",
        server: "10.79.2.2",
        elsewhere: "192.0.2.9",
        clients: "10.79.1.0/24",
        all: "0.0.0.0/0",
    },
    Family {
        client: "fd79:1::2",
        router: "fd79:1::1",
        server: "fd79:2::2",
        elsewhere: "2001:db8::9",
        clients: "fd79:1::/64",
        all: "::/0",
    },
];

/// The bed, or a message why there is none.
pub fn bed() -> Option<Bed> {
    if !carrick_test::is_root() {
        return None;
    }
    if Command::new("ethtool").arg("--version").output().is_err() {
        carrick_test::lacks!("there is no ethtool");
        return None;
    }
    Some(Bed::new())
}

impl Bed {
    fn new() -> Bed {
        let bed = Bed(Hosts::new(INTERFACES, 79));
        bed.give_addresses();
        for (host, device) in INTERFACES {
            // Its packets then have checksums, which are otherwise omitted between such interfaces.
            bed.run(host, &format!("ethtool -K {device} tx off"));
            bed.wait_for(host, device);
        }
        for (host, network) in [(Host::Client, 1), (Host::Server, 2)] {
            bed.ip(host, &format!("route add default via 10.79.{network}.1"));
            bed.ip(host, &format!("-6 route add default via fd79:{network}::1"));
        }
        bed
    }

    /// Enables routing.
    pub fn route(&self) {
        for key in ["ipv4.ip_forward", "ipv6.conf.all.forwarding"] {
            self.run(Host::Middle, &format!("sysctl -q -w net.{key}=1"));
        }
    }

    /// Whether client and server leave checksums and segmentation to the router's interfaces, which then do them in software.
    pub fn offload(&self, is_on: bool) {
        let state = if is_on { "on" } else { "off" };
        for (host, device) in [(Host::Client, "c"), (Host::Server, "s")] {
            self.run(host, &format!("ethtool -K {device} tx {state}"));
            self.run(host, &format!("ethtool -K {device} tso {state}"));
        }
    }

    /// Waits until an interface sends: before that, the kernel drops packets.
    fn wait_for(&self, host: Host, device: &str) {
        wait_until(device, || {
            let shown = succeed(&mut self.command(host, &["ip", "link", "show", device]));
            String::from_utf8_lossy(&shown.stdout).contains("state UP")
        });
    }

    /// Runs `what` on a host, and waits for it.
    pub fn at<T: Send + 'static>(
        &self,
        host: Host,
        what: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.on(host, what).join().unwrap()
    }
}

pub fn address(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse::<IpAddr>().unwrap(), port)
}

/// Sends a whole Ethernet frame on an interface of this thread's namespace.
pub fn send_frame(device: &str, frame: &[u8]) {
    send_frames(device, [frame]);
}

/// Sends many.
pub fn send_frames(device: &str, frames: impl IntoIterator<Item = impl AsRef<[u8]>>) {
    let kind = socket2::Type::RAW;
    let socket = socket2::Socket::new(socket2::Domain::PACKET, kind, None).unwrap();
    let address = link_address(&socket, device);
    for frame in frames {
        let frame = frame.as_ref();
        assert_eq!(socket.send_to(frame, &address).unwrap(), frame.len());
    }
}
