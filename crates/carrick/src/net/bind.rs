//! Binds to addresses, also such that the previous carrick is about to release.
use socket2::Socket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// How long to wait for addresses that a draining carrick is releasing.
pub const FREE_WAIT: Duration = Duration::from_secs(1);

const FREE_EVERY: Duration = Duration::from_millis(5);

/// Chooses the families of a socket that is to listen at `address`, whatever `net.ipv6.bindv6only` is: `[::]` includes
/// IPv4, and `[::ffff:192.0.2.7]` is IPv4.
///
/// # Errors
/// Those of `setsockopt(2)`.
pub fn choose_families(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match address.ip() {
        IpAddr::V4(_) => Ok(()),
        IpAddr::V6(ip) => socket.set_only_v6(!ip.is_unspecified() && ip.to_ipv4_mapped().is_none()),
    }
}

/// Binds as soon as the address is free; tries until `give_up_at`.
///
/// # Errors
/// The last error; at once if it is not that the address is in use.
pub fn bind_when_free<T>(
    give_up_at: Instant,
    mut bind: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match bind() {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < give_up_at =>
            {
                std::thread::sleep(FREE_EVERY);
            }
            result => return result,
        }
    }
}
