//! A leg's peer, interface, and round-trip time.

use super::{LegFacts, NeededFacts, ProfileSide, measure};
use crate::engine::tc::hooks;
use crate::sys::sockopt;
use rustix::net::netdevice::index_to_name;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

pub(super) fn facts(
    socket: BorrowedFd<'_>,
    side: ProfileSide,
    wanted: NeededFacts,
) -> io::Result<LegFacts> {
    let peer = ip(SockRef::from(&socket).peer_addr()?.as_socket())?;
    let interface = if wanted.interface {
        interface_towards(&socket).ok()
    } else {
        None
    };
    let rtt = if wanted.rtt {
        measure(&socket).ok().and_then(|measured| measured.rtt)
    } else {
        None
    };
    Ok(LegFacts {
        side,
        peer,
        interface,
        rtt,
    })
}

/// The name of the interface by which a connection's packets leave now: the one it is bound to, otherwise by
/// the routing tables for its addresses and mark, in the calling thread's network namespace. The peer's
/// packets may arrive by another one. Needs no privileges; takes some tens of microseconds.
///
/// # Errors
/// The socket is not connected; there is no route; a netlink socket may be forbidden (seccomp, SELinux).
pub fn interface_towards(socket: &impl AsFd) -> io::Result<String> {
    let socket = socket.as_fd();
    let bound = sockopt::get(socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX).unwrap_or(0);
    let index = if bound > 0 { bound } else { routed(socket)? };
    // `ioctl` needs any socket to look up names.
    Ok(index_to_name(socket, index)?)
}

/// The number of the interface, by the routing tables.
fn routed(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let socket_ref = SockRef::from(&socket);
    let own = ip(socket_ref.local_addr()?.as_socket())?;
    let peer = ip(socket_ref.peer_addr()?.as_socket())?;
    let mark = socket_ref.mark().unwrap_or(0);
    hooks::interface_towards(Some(own), peer, mark)
        // The local address may not be this machine's, as where a client was intercepted: then only the
        // peer's counts.
        .or_else(|_| hooks::interface_towards(None, peer, mark))
}

fn ip(address: Option<SocketAddr>) -> io::Result<IpAddr> {
    let address = address.ok_or(io::ErrorKind::Unsupported)?;
    Ok(address.ip().to_canonical())
}
