//! The plan for a start without a configuration file: a forward proxy for the programs of this machine.
use super::check::{self, workers};
use super::file::{Limits, PINS_DEFAULT, Timeouts};
use super::plan::{
    CachePlan, ForwardPlan, Handshake, Ktls, ListenerPlan, LogFormat, LogPlan, LogTarget, Mode,
    PacePlan, PacketUse, Plan, RouteCache, Sandbox, TrustedProxies, Via,
};
use super::section::Keys;
use carrick_logic::access::Access;
use carrick_logic::cache::Policy;
use carrick_logic::http1::{Forwarded, OddNames};
use carrick_splice::Choice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

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
            tcp_profiles: None,
            proxy_protocol: false,
            tls: None,
            http2: true,
            hsts: None,
            redirect_port: None,
            forwarded: Forwarded::Unchanged,
            trusted: TrustedProxies::default(),
            odd_names: OddNames::Drop,
            via: Via {
                name: "carrick".to_owned(),
                is_in_requests: true,
                is_in_responses: true,
            },
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
            admin: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3129)),
            workers: workers(0),
            account: None,
            pins: Some(PINS_DEFAULT.into()),
            packet: PacketUse::default(),
            ktls: Ktls::default(),
            sandbox: Sandbox::default(),
            limits: check::limits(&Limits::defaults()),
            timeouts: Timeouts::defaults(),
            log: LogPlan {
                access: LogTarget::Stdout,
                format: LogFormat::Combined,
            },
            acme: None,
            cache: Some(CachePlan::default()),
            tcp_profiles: Vec::new(),
            links: Vec::new(),
            pace: PacePlan::default(),
            listeners: vec![Arc::new(forward)],
            upstreams: Vec::new(),
        }
    }
}
