//! Programs that are compared, and what they are used for.

use serde::{Deserialize, Serialize};

/// What a proxy is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Requests with a path, to servers that the proxy chooses.
    Switch,
    /// The same, inside TLS from the client to the proxy.
    Https,
    /// Calls of gRPC, by HTTP/2 on both sides.
    Grpc,
    /// Bytes, whatever they are.
    Tunnel,
    /// Requests with an absolute target.
    Forward,
    /// As a switch, with a cache in memory.
    Cache,
    /// The same with a cache on disk that is many times as large as its memory.
    CacheDisk,
    /// Bytes of connections that clients open to the server, and that come in here on their way.
    Gateway,
}

impl Job {
    /// The port on which every proxy serves this job.
    #[must_use]
    pub fn port(self) -> u16 {
        match self {
            Self::Switch | Self::Cache | Self::CacheDisk => 8080,
            Self::Https => 8444,
            Self::Grpc => 8445,
            Self::Tunnel => 8443,
            Self::Forward => 3128,
            Self::Gateway => 3130,
        }
    }

    /// The name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Https => "https",
            Self::Grpc => "grpc",
            Self::Tunnel => "tunnel",
            Self::Forward => "forward",
            Self::Cache => "cache",
            Self::CacheDisk => "cache-disk",
            Self::Gateway => "gateway",
        }
    }
}

/// The program behind one or more rows of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// No proxy: the kernel routes the packets.
    Routed,
    /// carrick.
    Carrick,
    /// HAProxy.
    Haproxy,
    /// nginx.
    Nginx,
    /// Squid.
    Squid,
    /// 3proxy.
    ThreeProxy,
    /// socat.
    Socat,
    /// Varnish.
    Varnish,
    /// Apache Traffic Server.
    TrafficServer,
    /// PEPsal, a splitter of TCP connections.
    Pepsal,
}

impl Family {
    /// The name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Routed => "routed",
            Self::Carrick => "carrick",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Squid => "squid",
            Self::ThreeProxy => "3proxy",
            Self::Socat => "socat",
            Self::Varnish => "varnish",
            Self::TrafficServer => "trafficserver",
            Self::Pepsal => "pepsal",
        }
    }

    /// Whether some distributions lack it, so that a machine without it is not at fault.
    #[must_use]
    pub fn is_rare(self) -> bool {
        matches!(self, Self::Varnish | Self::TrafficServer | Self::Pepsal)
    }
}
