//! A loopback address for each test, so that fixed ports never collide, and a directory for its files.
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// Listening on this port of an address claims the address, between the tests of a process and between processes.
const CLAIM_PORT: u16 = 1999;

/// carrick's ports on the address: not those of real services, which may listen on all addresses, nor ephemeral ones.
pub const LISTENER_PORT: u16 = 18080;
/// See [`LISTENER_PORT`].
pub const FORWARD_PORT: u16 = 13128;
/// See [`LISTENER_PORT`].
pub const TUNNEL_PORT: u16 = 18443;
/// See [`LISTENER_PORT`].
pub const ADMIN_PORT: u16 = 13129;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An address of 127.0.0.0/8 and a temporary directory, until dropped.
#[derive(Debug)]
pub struct Place {
    ip: Ipv4Addr,
    directory: TempDir,
    _claim: TcpListener,
}

impl Place {
    /// Claims a free address.
    pub fn claim() -> Self {
        let start = std::process::id().wrapping_mul(131);
        for _ in 0..10_000 {
            let number = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            let [_, b, c, d] = number.to_be_bytes();
            // Other programs use 127.0.0.x.
            let ip = Ipv4Addr::new(127, b | 1, c, d.clamp(1, 254));
            if let Ok(claim) = TcpListener::bind((ip, CLAIM_PORT)) {
                return Self {
                    ip,
                    directory: TempDir::with_prefix("carrick-play-").expect("a directory"),
                    _claim: claim,
                };
            }
        }
        panic!("no loopback address is free");
    }

    /// The address.
    pub fn ip(&self) -> IpAddr {
        self.ip.into()
    }

    /// The address with a port.
    pub fn at(&self, port: u16) -> SocketAddr {
        (self.ip, port).into()
    }

    /// A port for what listens on all addresses: rarely another place's, and not an ephemeral one.
    pub fn port_on_all_addresses(&self) -> u16 {
        let [_, _, c, d] = self.ip.octets();
        20_000 + u16::from_be_bytes([c, d]) % 10_000
    }

    /// A port without a listener: connecting is refused. It is on an address that carrick and its servers do not use,
    /// and stays reserved (bound, not listening) as long as the socket lives.
    pub fn refusing(&self) -> (SocketAddr, socket2::Socket) {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        socket
            .bind(&self.at(0).into())
            .expect("an address to bind to");
        let address = socket
            .local_addr()
            .ok()
            .and_then(|address| address.as_socket())
            .expect("an address");
        (address, socket)
    }

    /// The directory of the test's files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file into the directory.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.directory().join(name), text).expect("a file");
    }
}
