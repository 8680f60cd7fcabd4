//! The plan for a start without a configuration file: a forward proxy for the programs of this machine.
use super::check::{ADMIN_DEFAULT, workers};
use super::keys::PINS_DEFAULT;
use super::plan::{
    CachePlan, ForwardPlan, Handshake, Limits, ListenerPlan, LogFormat, LogPlan, LogTarget, Mode,
    PacePlan, PacketUse, Plan, RouteCache, Sandbox, Timeouts, TrustedProxies,
};
use carrick_logic::access::Access;
use carrick_logic::cache::Policy;
use carrick_logic::http1::{Forwarded, HeadLimits, OddNames};
use carrick_splice::Choice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

impl Plan {
    /// A forward proxy on 127.0.0.1:3128, admin on 127.0.0.1:3129; the same as `config/built-in.toml`.
    ///
    /// `CONNECT` to any port is allowed: only programs on this machine can reach the listener, and they can connect to any
    /// port without it.
    #[must_use]
    pub fn built_in() -> Self {
        let forward = ListenerPlan {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3128),
            interception: None,
            handshake: Handshake::default(),
            legs: None,
            proxy_protocol: false,
            forwarded: Forwarded::Unchanged,
            trusted: TrustedProxies::default(),
            odd_names: OddNames::Drop,
            via: "carrick".to_owned(),
            access: Access::default(),
            mode: Mode::Forward(ForwardPlan {
                engine: Choice::Auto,
                users: None,
                parent: None,
                cache: Some(Arc::new(RouteCache::new(Policy::default()))),
                pace: None,
            }),
        };
        Self {
            admin: Some(ADMIN_DEFAULT),
            workers: workers(0),
            account: None,
            pins: Some(PINS_DEFAULT.into()),
            packet: PacketUse::default(),
            sandbox: Sandbox::default(),
            limits: Limits {
                connections: 100_000,
                connections_per_client: 0,
                head: HeadLimits {
                    head_bytes_max: 64 * 1024,
                    fields_max: 100,
                },
                rate_min: 0,
                attempts: 3,
                log_queue: 8192,
                dns_cache: 10_000,
                pipes: 1024,
                splices: 16_384,
                unsent: 128 * 1024,
                unread: 1536 * 1024,
                stalled: super::check::stalled_default(),
            },
            timeouts: Timeouts {
                head: Duration::from_secs(10),
                idle: Duration::from_secs(60),
                connect: Duration::from_secs(5),
                tunnel_idle: Duration::from_secs(3600),
                drain: Duration::from_secs(30),
            },
            log: LogPlan {
                access: LogTarget::Stdout,
                format: LogFormat::Combined,
            },
            cache: Some(CachePlan::default()),
            legs: Vec::new(),
            links: Vec::new(),
            pace: PacePlan::default(),
            listeners: vec![Arc::new(forward)],
            upstreams: Vec::new(),
        }
    }
}
