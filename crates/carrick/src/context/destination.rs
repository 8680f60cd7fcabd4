//! Where a request or a tunnel goes.
use crate::config::plan::{Responses, RouteCache, ServerAddress, ServerTls};
use crate::net::transport::Transport;
use crate::upstream::group::Group;
use crate::upstream::state::ServerState;
use carrick_logic::http1::TargetForm;
use carrick_splice::Choice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Where to, and how.
#[derive(Clone)]
pub struct Destination {
    /// The place.
    pub next_hop: NextHop,
    /// The engine for bodies and tunnels.
    pub engine: Choice,
    /// Whether the process reads responses that the packet engine moves.
    pub responses: Responses,
    /// How its answers are cached, if they are.
    pub cache: Option<Arc<RouteCache>>,
    /// The class by which bodies and tunnels are paced, if they are.
    pub pace: Option<usize>,
    /// The form of target that is understood there.
    pub form: TargetForm,
}

/// A place to connect to.
#[derive(Clone)]
pub enum NextHop {
    /// One of the servers of an upstream.
    Group {
        /// The upstream, as this worker uses it.
        group: Rc<Group>,
        /// Its index in the plan.
        index: usize,
    },
    /// What the client named, or the parent proxy.
    Origin {
        /// The address or name to connect to.
        server: ServerAddress,
        /// The key of its idle connections.
        key: Box<[u8]>,
        /// Whether this is the parent, which is not subject to the destination rules.
        parent: bool,
        /// TLS to it.
        tls: Option<Arc<ServerTls>>,
    },
}

impl NextHop {
    /// The server with this index, if this is an upstream.
    #[must_use]
    pub fn server(&self, index: Option<usize>) -> Option<&Arc<ServerState>> {
        match self {
            Self::Group { group, .. } => group.state.servers.get(index?),
            Self::Origin { .. } => None,
        }
    }

    /// Whether this server is up, as far as health checks tell.
    #[must_use]
    pub fn is_up(&self, server: Option<usize>) -> bool {
        self.server(server).is_none_or(|server| server.is_healthy())
    }

    /// Whether a connection there was made by the certificates and revocation lists in force; see [`Group::is_current`].
    #[must_use]
    pub fn is_current(&self, transport: &Transport) -> bool {
        match self {
            Self::Group { group, .. } => group.is_current(transport),
            Self::Origin { tls, .. } => transport.made_by() == tls.as_ref().map(|tls| tls.digest()),
        }
    }

    /// TLS to the server with this index, if that is spoken.
    #[must_use]
    pub fn tls(&self, server: Option<usize>) -> Option<(&Arc<ServerTls>, usize)> {
        match self {
            Self::Group { group, .. } => Some((group.state.plan.tls.as_ref()?, server?)),
            Self::Origin { tls, .. } => Some((tls.as_ref()?, 0)),
        }
    }
}

/// The client's address as bytes to hash; IPv4 in its mapped form.
pub fn client_key(client: SocketAddr, bytes: &mut [u8; 16]) -> &[u8] {
    *bytes = match client.ip() {
        std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(ip) => ip.octets(),
    };
    bytes
}
