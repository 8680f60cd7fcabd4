//! A client, a gateway and a server, each in its own network namespace, and their kernels' views of connections.

use crate::hosts::{Hosts, Interface, succeed};
use crate::support::tcp_info;
use socket2::{Domain, Socket, Type};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::os::fd::AsFd;
use std::time::Duration;

pub use crate::hosts::Host;

/// The gateway has the interfaces `sat`, towards the client, and `ground`, towards the server.
pub struct Bed(Hosts);

pub const INTERFACES: [Interface; 4] = [
    (Host::Client, "c"),
    (Host::Middle, "sat"),
    (Host::Middle, "ground"),
    (Host::Server, "s"),
];

/// The addresses of both families: the client's, the gateway's towards it and towards the server, the server's.
pub const CLIENT: [&str; 2] = ["10.83.1.2", "fd83:1::2"];
pub const GATEWAY: [&str; 2] = ["10.83.1.1", "fd83:1::1"];
pub const SERVER: [&str; 2] = ["10.83.2.2", "fd83:2::2"];

impl Deref for Bed {
    type Target = Hosts;

    fn deref(&self) -> &Hosts {
        &self.0
    }
}

/// The bed, or a message why there is none.
pub fn bed() -> Option<Bed> {
    if !carrick_test::is_root() {
        return None;
    }
    if let Err(because) = carrick_splice::tcp_tuning::TcpTuning::load().handshake() {
        carrick_test::skip!("{because}");
        return None;
    }
    let bed = Bed(Hosts::new(INTERFACES, 83));
    bed.give_addresses();
    // Tail loss probes would send more than the initial flight.
    bed.sysctl(Host::Middle, "tcp_early_retrans", "0");
    // A busy machine must not reset it after a pause (`tcp_cwnd_restart`).
    bed.sysctl(Host::Middle, "tcp_slow_start_after_idle", "0");
    // Otherwise several segments would wait for an acknowledgement that makes them more (`tcp_tso_should_defer`).
    bed.ip(Host::Middle, "link set sat gso_max_segs 1");
    Some(bed)
}

impl Bed {
    /// Runs `what` on this host.
    pub fn at<T: Send + 'static>(
        &self,
        host: Host,
        what: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.on(host, what).join().unwrap()
    }

    /// Sets a sysctl of TCP.
    pub fn sysctl(&self, host: Host, name: &str, value: &str) {
        let words = ["sysctl", "-q", "-w", &format!("net.ipv4.{name}={value}")];
        succeed(&mut self.command(host, &words));
    }

    /// A listener at an address of the gateway, client or server.
    pub fn listen(&self, host: Host, family: usize) -> TcpListener {
        let address = match host {
            Host::Client => CLIENT[family],
            Host::Middle => GATEWAY[family],
            Host::Server => SERVER[family],
        };
        let address = SocketAddr::new(address.parse().unwrap(), 0);
        self.at(host, move || carrick_test::listen(address))
    }

    /// Drops packets from the client to the gateway, or stops dropping them.
    pub fn mute_client(&self, family: usize, is_mute: bool) {
        let (verb, bits) = (["del", "add"][usize::from(is_mute)], ["32", "128"][family]);
        self.ip(
            Host::Client,
            &format!("route {verb} blackhole {}/{bits} metric 1", GATEWAY[family]),
        );
    }

    /// Sends the gateway's packets for an unused address out of an interface.
    pub fn lead_nowhere(&self, interface: &str, address: &str) {
        self.ip(
            Host::Middle,
            &format!("neigh add {address} lladdr 02:00:00:00:00:77 dev {interface} nud permanent"),
        );
    }

    /// Number of TCP segments that a host has retransmitted, including handshakes.
    pub fn sent_again(&self, host: Host) -> u64 {
        let snmp = self.read(host, "/proc/net/snmp");
        let mut lines = snmp.lines().filter(|line| line.starts_with("Tcp:"));
        let names = lines.next().unwrap().split(' ');
        let mut fields = names.zip(lines.next().unwrap().split(' '));
        let (_, number) = fields.find(|(name, _)| *name == "RetransSegs").unwrap();
        number.parse().unwrap()
    }
}

/// A socket that is not connected yet.
pub fn socket(family: usize) -> Socket {
    let domain = [Domain::IPV4, Domain::IPV6][family];
    Socket::new(domain, Type::STREAM, None).unwrap()
}

/// `tcpi_rto`
pub fn retransmission_timeout(socket: &impl AsFd) -> Duration {
    Duration::from_micros(number::<4>(socket, 8))
}

/// `tcpi_unacked`, in segments.
pub fn unacknowledged(stream: &TcpStream) -> u64 {
    number::<4>(stream, 24)
}

/// `tcpi_pacing_rate`
pub fn pacing_rate(stream: &TcpStream) -> u64 {
    number::<8>(stream, 104)
}

/// `tcpi_bytes_acked`
pub fn acked_bytes(stream: &TcpStream) -> u64 {
    number::<8>(stream, 120)
}

/// `tcpi_bytes_received`
pub fn received_bytes(stream: &TcpStream) -> u64 {
    number::<8>(stream, 128)
}

/// `tcpi_snd_wnd`: the window that the peer gives this side.
pub fn send_window(stream: &TcpStream) -> u64 {
    number::<4>(stream, 228)
}

/// A number of `BYTES` in `struct tcp_info`.
fn number<const BYTES: usize>(socket: &impl AsFd, offset: usize) -> u64 {
    let mut number = [0; 8];
    number[..BYTES].copy_from_slice(&tcp_info::<BYTES>(socket, offset));
    u64::from_le_bytes(number)
}
