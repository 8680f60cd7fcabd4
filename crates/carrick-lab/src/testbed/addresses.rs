//! Who has which address in the test bed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::testbed::kinds::Job;
use crate::testbed::plan::Layout;
use crate::wan::spec::Subnet;

/// Port of the HTTP origin, nginx or our own.
const ORIGIN_HTTP_PORT: u16 = 8000;
/// Port of the echo origin.
const ORIGIN_ECHO_PORT: u16 = 7000;
/// Port of the server of ping-pongs.
const ORIGIN_PING_PONG_PORT: u16 = 7001;
/// Port of the server of streams.
const ORIGIN_STREAM_PORT: u16 = 7002;
/// Port of the server of pages.
const ORIGIN_PAGES_PORT: u16 = 7003;
/// Port of the server of calls.
const ORIGIN_CALLS_PORT: u16 = 7004;
/// Length of each subnet's prefix.
pub(crate) const PREFIX_BITS: u8 = 24;

/// Addresses of one layout. Each bed has its own namespaces, so all beds of a layout have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// The client.
    pub client: IpAddr,
    /// The client's subnet.
    pub client_subnet: Subnet,
    /// The proxy, as clients reach it.
    pub proxy: IpAddr,
    /// The proxy, as servers see it: another one unless the layout is routed.
    pub proxy_to_server: IpAddr,
    /// The subnet of `proxy`; in the direct layout it is the client's.
    pub proxy_subnet: Subnet,
    /// The server.
    pub server: IpAddr,
    /// The server's subnet.
    pub server_subnet: Subnet,
}

impl Addresses {
    /// The addresses of a layout.
    #[must_use]
    pub fn of(layout: Layout) -> Self {
        let (proxy, proxy_to_server, proxy_subnet) = match layout {
            Layout::Direct => (host(1, 1), host(2, 1), subnet(1)),
            Layout::Routed => (host(3, 2), host(3, 2), subnet(3)),
            Layout::Gateway => (host(3, 2), host(2, 1), subnet(3)),
        };
        Self {
            client: host(1, 2),
            client_subnet: subnet(1),
            proxy,
            proxy_to_server,
            proxy_subnet,
            server: host(2, 2),
            server_subnet: subnet(2),
        }
    }

    /// Where the HTTP origin listens.
    #[must_use]
    pub fn origin_http(&self) -> SocketAddr {
        SocketAddr::new(self.server, ORIGIN_HTTP_PORT)
    }

    /// Where the echo origin listens.
    #[must_use]
    pub fn origin_echo(&self) -> SocketAddr {
        SocketAddr::new(self.server, ORIGIN_ECHO_PORT)
    }

    /// Where the server of ping-pongs listens.
    #[must_use]
    pub fn origin_ping_pong(&self) -> SocketAddr {
        SocketAddr::new(self.server, ORIGIN_PING_PONG_PORT)
    }

    /// Where the server of streams listens.
    #[must_use]
    pub fn origin_stream(&self) -> SocketAddr {
        SocketAddr::new(self.server, ORIGIN_STREAM_PORT)
    }

    /// Where the server of pages listens.
    #[must_use]
    pub fn origin_pages(&self) -> SocketAddr {
        SocketAddr::new(self.server, ORIGIN_PAGES_PORT)
    }

    /// Where the server of calls listens.
    #[must_use]
    pub fn origin_calls(&self) -> SocketAddr {
        SocketAddr::new(self.server, ORIGIN_CALLS_PORT)
    }

    /// Where every proxy serves a job.
    #[must_use]
    pub fn proxy_for(&self, job: Job) -> SocketAddr {
        SocketAddr::new(self.proxy, job.port())
    }
}

/// The neighbour of a subnet's machine: the proxy in the direct layout, the router in the other.
pub(crate) fn gateway(subnet: u8) -> IpAddr {
    host(subnet, 1)
}

/// A further address of the client's machine, for connections beyond the ports of one.
pub(crate) fn another_client(number: usize) -> IpAddr {
    host(
        1,
        100_u8
            .saturating_add(u8::try_from(number).unwrap_or(u8::MAX))
            .min(254),
    )
}

fn host(subnet: u8, number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, subnet, number))
}

fn subnet(number: u8) -> Subnet {
    Subnet {
        address: host(number, 0),
        bits: PREFIX_BITS,
    }
}

#[cfg(test)]
mod tests;
