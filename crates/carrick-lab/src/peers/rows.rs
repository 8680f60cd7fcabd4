//! The rows of comparisons: each a program in one mode.

use super::{Family, Job, Mode, Peer};

/// carrick as users get it: the row that the targets judge.
pub const JUDGED: &str = "carrick-auto";

/// The engine `packet`: tunnels, and whole responses of a switch whose requests the process reads.
pub const PACKET: &str = "carrick-packet";

/// All rows, in the order of reports.
pub const PEERS: [Peer; 18] = {
    use Family::{Carrick, Haproxy, Nginx, Pepsal, Routed, Squid, TrafficServer, Varnish};
    use Job::{Cache, CacheDisk, Forward, Gateway, Grpc, Https, Switch, Tunnel};
    const ALL: &[Job] = &[Switch, Tunnel, Forward, Gateway];
    const PROXY: &[Job] = &[Switch, Tunnel, Forward];
    const REVERSE: &[Job] = &[Switch, Tunnel];
    const CACHES: &[Job] = &[Cache, CacheDisk];
    [
        Peer {
            name: "routed",
            family: Routed,
            jobs: ALL,
            mode: Mode::None,
        },
        Peer {
            name: JUDGED,
            family: Carrick,
            jobs: &[
                Switch, Https, Grpc, Tunnel, Forward, Cache, CacheDisk, Gateway,
            ],
            mode: Mode::Engine("auto"),
        },
        Peer {
            name: "carrick-copy",
            family: Carrick,
            jobs: ALL,
            mode: Mode::Engine("copy"),
        },
        Peer {
            name: "carrick-pipe",
            family: Carrick,
            jobs: ALL,
            mode: Mode::Engine("pipe"),
        },
        Peer {
            name: "carrick-socket",
            family: Carrick,
            jobs: ALL,
            mode: Mode::Engine("socket"),
        },
        // Of a forward proxy, it has what `CONNECT` opens, and what is left of long bodies.
        Peer {
            name: PACKET,
            family: Carrick,
            jobs: PROXY,
            mode: Mode::Engine("packet"),
        },
        Peer {
            name: "carrick-packet-body",
            family: Carrick,
            jobs: &[Switch],
            mode: Mode::Bodies,
        },
        // What users have who configure nothing.
        Peer {
            name: "carrick-fields",
            family: Carrick,
            jobs: &[Switch],
            mode: Mode::Fields,
        },
        Peer {
            name: "carrick-uncached",
            family: Carrick,
            jobs: &[Cache],
            mode: Mode::Uncached,
        },
        Peer {
            name: "haproxy",
            family: Haproxy,
            jobs: &[Switch, Https, Grpc, Tunnel],
            mode: Mode::SplicingOff,
        },
        Peer {
            name: "haproxy-splice",
            family: Haproxy,
            jobs: REVERSE,
            mode: Mode::SplicingForced,
        },
        Peer {
            name: "haproxy-fields",
            family: Haproxy,
            jobs: &[Switch],
            mode: Mode::Fields,
        },
        Peer {
            name: "nginx",
            family: Nginx,
            jobs: &[Switch, Https, Grpc, Tunnel, Cache, CacheDisk],
            mode: Mode::None,
        },
        Peer {
            name: "nginx-fields",
            family: Nginx,
            jobs: &[Switch],
            mode: Mode::Fields,
        },
        Peer {
            name: "squid",
            family: Squid,
            jobs: &[Forward, Cache, CacheDisk],
            mode: Mode::None,
        },
        Peer {
            name: "varnish",
            family: Varnish,
            jobs: CACHES,
            mode: Mode::None,
        },
        Peer {
            name: "trafficserver",
            family: TrafficServer,
            jobs: CACHES,
            mode: Mode::None,
        },
        Peer {
            name: "pepsal",
            family: Pepsal,
            jobs: &[Gateway],
            mode: Mode::None,
        },
    ]
};

/// Relays of TCP that only the torture suite compares.
pub const FURTHER: [Peer; 4] = [
    // As a gateway: clients connect to the server.
    Peer {
        name: "carrick-split",
        family: Family::Carrick,
        jobs: &[Job::Gateway],
        mode: Mode::Engine("auto"),
    },
    Peer {
        name: "nginx-half-close",
        family: Family::Nginx,
        jobs: &[Job::Tunnel],
        mode: Mode::HalfClose,
    },
    Peer {
        name: "3proxy",
        family: Family::ThreeProxy,
        jobs: &[Job::Tunnel],
        mode: Mode::None,
    },
    Peer {
        name: "socat",
        family: Family::Socat,
        jobs: &[Job::Tunnel],
        mode: Mode::None,
    },
];

/// A row by its name.
#[must_use]
pub fn by_name(name: &str) -> Option<Peer> {
    PEERS
        .into_iter()
        .chain(FURTHER)
        .find(|peer| peer.name == name)
}
