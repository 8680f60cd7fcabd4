//! The configuration as it is used: checked, resolved to types, and never changed; a reload makes a new one.
mod acme;
mod cache;
mod interception;
mod link;
mod split;
mod tcp_profile;

pub use acme::{AcmePlan, ChallengeKind, ExternalAccount, certificate_file};
pub use cache::{
    CachePeersPlan, CachePlan, DiskPlan, OBJECT_SHARE, Password, PrefetchPlan, RouteCache,
    SharedPlan,
};
pub use interception::{Interception, LocalInterception, PortRange};
pub use link::{FarPlan, LinkPlan};
pub use split::{Handshake, SplitPlan};
pub use tcp_profile::{TcpProfilePlan, TcpProfileRules};

pub use super::file::{
    Fallback, HashOn, Ktls, Limits, LogFormat, PacketUse, ProxyVersion, Requests, Responses,
    Sandbox, ServerHttp2, Splitting, Timeouts,
};
pub use super::tls::{ClientCertificates, ServerTls, Tls};
pub use super::values::ServerAddress;

use carrick_logic::access::{Access, NamePattern};
use carrick_logic::balance;
use carrick_logic::http1::{Forwarded, OddNames, StatedIn};
use carrick_logic::route::Conditions;
use carrick_splice::{Choice, ClassSettings, INTERVAL};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything that a run needs to know.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where admin listens; `None`: off.
    pub admin: Option<SocketAddr>,
    /// Worker threads, at least 1.
    pub workers: usize,
    /// Whom it becomes once it listens; `None`: it stays who it is.
    pub account: Option<Account>,
    /// The folder in which tunnels of the engine `packet` outlive it; `None`: they do not.
    pub pins: Option<PathBuf>,
    /// When the engine `packet` is loaded.
    pub packet: PacketUse,
    /// Whether the kernel encrypts for clients with TLS.
    pub ktls: Ktls,
    /// Whether it locks itself up once it serves.
    pub sandbox: Sandbox,
    /// Bounds on what clients can make carrick hold.
    pub limits: Limits,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// The access log.
    pub log: LogPlan,
    /// Certificates by ACME; `None`: no listener has any.
    pub acme: Option<Arc<AcmePlan>>,
    /// The cache; `None`: nothing is stored, whatever listeners and routes say.
    pub cache: Option<CachePlan>,
    /// How what is relayed is paced.
    pub pace: PacePlan,
    /// How the TCP of some connections is to be.
    pub tcp_profiles: Vec<Arc<TcpProfilePlan>>,
    /// Connections that are kept to other carricks; routes refer to them by index.
    pub links: Vec<Arc<LinkPlan>>,
    /// What is listened on; at least one.
    pub listeners: Vec<Arc<ListenerPlan>>,
    /// The upstreams; routes refer to them by index.
    pub upstreams: Vec<Arc<UpstreamPlan>>,
}

/// `[pace]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacePlan {
    /// How often rates are estimated anew.
    pub interval: Duration,
    /// The classes; listeners and routes refer to them by index.
    pub classes: Vec<ClassSettings>,
}

impl Default for PacePlan {
    /// Nothing is paced.
    fn default() -> Self {
        Self {
            interval: INTERVAL,
            classes: Vec::new(),
        }
    }
}

/// `[process]`: a user of this machine, as it was found there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its name, or its number if it has none.
    pub user: String,
    /// Its number.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// All its groups.
    pub groups: Vec<u32>,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPlan {
    /// Where lines go.
    pub access: LogTarget,
    /// How a line looks.
    pub format: LogFormat,
}

/// Where the access log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LogTarget {
    Off,
    Stdout,
    Stderr,
    File(PathBuf),
}

/// `[[listener]]`
#[derive(Debug)]
pub struct ListenerPlan {
    /// The address that is bound.
    pub address: SocketAddr,
    /// What is intercepted for it; `None`: clients connect to its address.
    pub interception: Option<Interception>,
    /// When the handshake of an intercepted client is answered.
    pub handshake: Handshake,
    /// Whether connections begin with a PROXY header.
    pub proxy_protocol: bool,
    /// TLS to clients; `None`: they speak plainly.
    pub tls: Option<Tls>,
    /// Whether clients may speak HTTP/2.
    pub http2: bool,
    /// The value of `Strict-Transport-Security`.
    pub hsts: Option<String>,
    /// The port of `https://` to which requests are redirected.
    pub redirect_port: Option<u16>,
    /// What is told to upstreams about the client.
    pub forwarded: Forwarded,
    /// Who is believed what he says of clients.
    pub trusted: TrustedProxies,
    /// What becomes of request fields whose names have `_` and the like.
    pub odd_names: OddNames,
    /// What is added to heads to tell of this proxy.
    pub via: Via,
    /// How the TCP of its clients' connections, and of those to servers, is to be; `None`: as the system has it.
    pub tcp_profiles: Option<TcpProfileRules>,
    /// Networks, ports and names; for switch and tunnel `clients` is used, and the rest only for what goes to its original destination.
    pub access: Access,
    /// The job.
    pub mode: Mode,
}

/// `via` and `via_name`
#[derive(Debug)]
pub struct Via {
    /// The proxy's name.
    pub name: String,
    /// Whether it is in `Via` of requests; else in their `CDN-Loop`, where they could come back.
    pub is_in_requests: bool,
    /// Whether it is in `Via` of responses.
    pub is_in_responses: bool,
}

impl Via {
    /// The name in `Via` of responses; empty: none.
    #[must_use]
    pub fn of_responses(&self) -> &str {
        if self.is_in_responses { &self.name } else { "" }
    }
}

/// `trusted_proxies` and `trusted_field`
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies {
    /// Their networks; empty: nobody is trusted.
    pub networks: Vec<IpNet>,
    /// Where they name the client.
    pub stated_in: StatedIn,
}

impl TrustedProxies {
    /// Whether a proxy at this address is one of them.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks
            .iter()
            .any(|network| network.contains(&address))
    }
}

impl ListenerPlan {
    /// Whether only programs of this machine can be its clients.
    #[must_use]
    pub fn is_on_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback() && self.interception.is_none()
    }

    /// By what clients' certificates are verified, if by anything; `None`: clients speak plainly.
    #[must_use]
    pub fn verifies_by(&self) -> Option<Option<&ClientCertificates>> {
        let tls = self.tls.as_ref()?;
        Some(tls.settings.clients.as_ref())
    }

    /// The routes for connections that are passed on before TLS, by their server names.
    pub fn routes_by_name(&self) -> impl Iterator<Item = &RoutePlan> {
        let routes = self.mode.routes().iter();
        routes.filter(|route| route.conditions.sni.is_some())
    }

    /// Whether it, or one of its routes, has such an engine. What carrick encrypts is copied, whatever engine is named.
    fn has_engine(&self, is_wanted: impl Fn(Choice) -> bool) -> bool {
        match self.tls {
            None => self.mode.has_engine(is_wanted),
            Some(_) => self.routes_by_name().any(|route| is_wanted(route.engine)),
        }
    }

    /// Whether a sender's fields that tell of clients are kept. Where nobody is named, `unchanged` keeps everybody's.
    #[must_use]
    pub fn believes(&self, is_trusted: bool) -> bool {
        match self.forwarded {
            Forwarded::Remove => false,
            Forwarded::Unchanged => is_trusted || self.trusted.networks.is_empty(),
            Forwarded::XForwarded | Forwarded::Standard => is_trusted,
        }
    }
}

impl Plan {
    /// What is intercepted for all listeners.
    pub fn interceptions(&self) -> impl Iterator<Item = &Interception> {
        self.listeners
            .iter()
            .filter_map(|listener| listener.interception.as_ref())
    }

    /// TLS to servers of upstreams, and to parents.
    pub fn server_tls(&self) -> impl Iterator<Item = &ServerTls> {
        let upstreams = self
            .upstreams
            .iter()
            .filter_map(|upstream| upstream.tls.as_deref());
        let parents = self
            .listeners
            .iter()
            .filter_map(|listener| match &listener.mode {
                Mode::Forward(forward) => forward.parent.as_ref()?.tls.as_deref(),
                _ => None,
            });
        upstreams.chain(parents)
    }

    /// The mark of carrick's own connections, where those of this machine's programs are intercepted.
    #[must_use]
    pub fn own_mark(&self) -> Option<u32> {
        let mut local = self.interceptions().filter(|one| one.local.is_some());
        local.next().map(|interception| interception.mark)
    }

    /// Whether connections to servers are to have the clients' ports, with their addresses.
    #[must_use]
    pub fn keeps_client_ports(&self) -> bool {
        self.listeners.iter().any(|listener| {
            let interception = listener.interception.as_ref();
            let stands_for_client = matches!(
                listener.mode,
                Mode::Split(_) | Mode::Tunnel(_) | Mode::Link(_)
            );
            stands_for_client && interception.is_some_and(|one| one.keeps_client)
        })
    }

    /// Whether a listener or admin is on a port below `port`; port 0 is the kernel's choice, which is a high one.
    #[must_use]
    pub fn has_port_below(&self, port: u16) -> bool {
        self.listeners
            .iter()
            .map(|listener| listener.address)
            .chain(self.admin)
            .any(|address| (1..port).contains(&address.port()))
    }

    /// Whether anything asks for the socket engine by name.
    #[must_use]
    pub fn wants_socket_engine(&self) -> bool {
        self.has_engine(|engine| engine == Choice::Socket)
    }

    /// Whether anything would use the socket engine if it were there.
    #[must_use]
    pub fn may_use_socket_engine(&self) -> bool {
        self.has_engine(|engine| matches!(engine, Choice::Socket | Choice::Auto))
    }

    /// Whether anything asks for the packet engine by name.
    #[must_use]
    pub fn wants_packet_engine(&self) -> bool {
        self.has_engine(|engine| engine == Choice::Packet) || self.may_join()
    }

    /// Whether the packet engine is to be loaded.
    #[must_use]
    pub fn loads_packet_engine(&self) -> bool {
        match self.packet {
            PacketUse::Named => self.wants_packet_engine(),
            PacketUse::Auto => self.wants_packet_engine() || self.may_choose_packets(),
            PacketUse::Off => false,
        }
    }

    /// Whether clients come by TLS, and the kernel may encrypt for them.
    #[must_use]
    pub fn may_use_ktls(&self) -> bool {
        self.ktls == Ktls::Auto && self.listeners.iter().any(|listener| listener.tls.is_some())
    }

    /// Whether the choice is left to carrick somewhere.
    #[must_use]
    pub fn has_engine_auto(&self) -> bool {
        self.has_engine(|engine| engine == Choice::Auto)
    }

    /// Whether that is so for clients whose packets come by a network interface.
    fn may_choose_packets(&self) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|listener| {
            !listener.is_on_loopback() && listener.has_engine(|engine| engine == Choice::Auto)
        })
    }

    /// Whether some connections may be joined end to end, because that is quicker or to be compared with.
    fn may_join(&self) -> bool {
        let mut modes = self.listeners.iter().map(|listener| &listener.mode);
        modes.any(|mode| match mode {
            Mode::Split(split) => {
                let mut routes = split.routes.iter();
                split.control_group > 0 || routes.any(|route| route.split == Splitting::Adaptive)
            }
            _ => false,
        })
    }

    fn has_engine(&self, is_wanted: impl Fn(Choice) -> bool) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|listener| listener.has_engine(&is_wanted))
    }
}

/// A listener's job.
#[derive(Debug)]
pub enum Mode {
    /// Forward proxy.
    Forward(ForwardPlan),
    /// Layer-7 switch.
    Switch(Vec<RoutePlan>),
    /// TCP relay, by SNI where routes say so.
    Tunnel(Vec<RoutePlan>),
    /// Splitter: a tunnel whose halves are tuned each for itself.
    Split(SplitPlan),
    /// The far end of a link.
    Link(FarPlan),
}

impl Mode {
    /// Whether it, or one of its routes, has such an engine.
    fn has_engine(&self, is_wanted: impl Fn(Choice) -> bool) -> bool {
        match self {
            Self::Forward(forward) => is_wanted(forward.engine),
            Self::Link(far) => is_wanted(far.engine),
            mode => mode.routes().iter().any(|route| is_wanted(route.engine)),
        }
    }

    /// The routes; a forward proxy has none.
    #[must_use]
    pub fn routes(&self) -> &[RoutePlan] {
        match self {
            Self::Forward(_) | Self::Link(_) => &[],
            Self::Switch(routes) | Self::Tunnel(routes) => routes,
            Self::Split(split) => &split.routes,
        }
    }

    /// Whether it relays bytes without looking at requests.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        matches!(self, Self::Tunnel(_) | Self::Split(_) | Self::Link(_))
    }
}

/// What a forward listener does.
#[derive(Debug)]
pub struct ForwardPlan {
    /// The engine for its splices.
    pub engine: Choice,
    /// Who may use it, with which password; `None`: no authentication.
    pub users: Option<Arc<super::users::Users>>,
    /// Another proxy that some or all requests go through.
    pub parent: Option<ParentPlan>,
    /// What is cached; `None`: nothing.
    pub cache: Option<Arc<RouteCache>>,
    /// The class of what is relayed: index into [`PacePlan::classes`]; `None`: it is not paced.
    pub pace: Option<usize>,
}

/// `parent = { proxy = …, for = […] }`
#[derive(Debug, Clone)]
pub struct ParentPlan {
    /// The parent.
    pub proxy: ServerAddress,
    /// TLS to it; `None`: it is spoken to plainly.
    pub tls: Option<Arc<ServerTls>>,
    /// Destinations that go through it; empty: all.
    pub destinations: Vec<NamePattern>,
}

/// `[[listener.route]]`
#[derive(Debug, Clone)]
pub struct RoutePlan {
    /// When it is taken.
    pub conditions: Conditions,
    /// Index into [`Plan::upstreams`]; `None`: the connection's original destination.
    pub upstream: Option<usize>,
    /// The engine: the route's own, else that of `[splice]`.
    pub engine: Choice,
    /// Where requests are classified on connections that the packet engine has.
    pub requests: Requests,
    /// Why the kernel classifies none of them; `None`: it does, or nothing is to be said of it.
    pub not_in_kernel: Option<String>,
    /// Whether the process reads responses that the packet engine moves.
    pub responses: Responses,
    /// What is cached; `None`: nothing.
    pub cache: Option<Arc<RouteCache>>,
    /// The class of what is relayed, its own, the listener's or the default: index into [`PacePlan::classes`]; `None`: it is not paced.
    pub pace: Option<usize>,
    /// Whether connections are split, if the listener does that.
    pub split: Splitting,
    /// The link that they go through: index into [`Plan::links`]; `None`: carrick connects to the server itself.
    pub link: Option<usize>,
}

/// `[upstream.NAME]`
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamPlan {
    /// Its name.
    pub name: String,
    /// Its servers; at least one.
    pub servers: Vec<ServerPlan>,
    /// TLS to them; `None`: they are spoken to plainly.
    pub tls: Option<Arc<ServerTls>>,
    /// Whether HTTP/2 is spoken to them.
    pub http2: ServerHttp2,
    /// How one is chosen.
    pub balance: balance::Algorithm,
    /// What `hash` looks at.
    pub hash_on: HashOn,
    /// Active health checks.
    pub health: Option<HealthPlan>,
    /// PROXY protocol version sent to the servers, if any.
    pub send_proxy_protocol: Option<ProxyVersion>,
    /// Idle connections kept per server and worker.
    pub keepalive: usize,
    /// Failures in a row after which a server is left alone for a while.
    pub failures_max: u32,
}

/// A server of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPlan {
    /// Where it is.
    pub address: ServerAddress,
    /// Its share, 1 to 1000.
    pub weight: u32,
}

/// `health = { path, every }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthPlan {
    /// The path of a GET that must be answered with 2xx or 3xx; `None`: a connection is enough.
    pub path: Option<String>,
    /// The service that is asked for by the health checking protocol of gRPC, empty for the whole server; `None`: it is not spoken.
    pub grpc: Option<String>,
    /// The `Host` of what is asked; `None`: the server's address.
    pub host: Option<String>,
    /// Time between two checks, and the limit on one.
    pub every: Duration,
    /// Checks in a row that must fail before the server is down, and succeed before it is up again.
    pub fall: u32,
    /// See `fall`.
    pub rise: u32,
}
