//! Checks `[upstream.NAME]`.
use super::named::{Named, Words};
use super::server_tls;
use crate::config::file::{self, File, Job, Route, Server};
use crate::config::plan::{
    HashOn, HealthPlan, ServerAddress, ServerHttp2, ServerPlan, UpstreamPlan,
};
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use crate::config::values;
use carrick_logic::balance::Algorithm;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// The port of a server that does not say, where requests are HTTP.
const HTTP_PORT: u16 = 80;

/// The same with TLS.
const HTTPS_PORT: u16 = 443;

const WORDS: Words = Words {
    what: "upstream",
    table: "upstream",
    wanted: " with its `servers`",
    unused: "nothing uses the upstream",
    use_it: "name it in a route, or remove it",
};

/// The upstreams, and which of them are used.
pub struct Known<'f>(Named<'f>);

impl<'f> Known<'f> {
    /// None is used yet.
    pub fn new(written: &'f [Written<file::Upstream>]) -> Self {
        Self(Named::new(WORDS, written.iter().map(|one| &one.name)))
    }

    /// The index of an upstream that a route names, which is used from now on.
    pub fn find(
        &self,
        name: &Setting<String>,
        route: Range<usize>,
        problems: &mut Problems,
    ) -> Option<usize> {
        match name {
            Setting::Wrong => None,
            Setting::Absent => {
                problems
                    .error(route, "the route has no `upstream`")
                    .help("add `upstream = \"NAME\"`");
                None
            }
            Setting::Given(name) => self.0.find(name, problems),
        }
    }

    /// Warns of upstreams that no route names.
    pub fn report_unused(&self, problems: &mut Problems) {
        self.0.report_unused(problems);
    }
}

/// Checks all upstreams; the result has the same order, with `None` for those that cannot be used.
pub fn check_all(
    file: &File,
    directory: &Path,
    problems: &mut Problems,
) -> Vec<Option<UpstreamPlan>> {
    let tunnels = (file.listeners.iter()).filter(|listener| listener.job() == Some(Job::Tunnel));
    let in_tunnels = named_by(tunnels.flat_map(|tunnel| &tunnel.routes));
    // A switch passes on what `sni` names, undecrypted.
    let undecrypted = named_by(file.listeners.iter().flat_map(|listener| {
        let is_split = listener.job() == Some(Job::Split);
        let (routes, has_tls) = (listener.routes.iter(), !listener.tls.is_absent());
        routes.filter(move |route| is_split || (has_tls && !route.sni.is_absent()))
    }));
    file.upstreams
        .iter()
        .map(|written| {
            let name = written.name.get_ref().as_str();
            let in_tunnel = in_tunnels.contains(name);
            let needs_port = in_tunnel || undecrypted.contains(name);
            check(written, (in_tunnel, needs_port), directory, problems)
        })
        .collect()
}

/// The upstreams of these routes.
fn named_by<'r>(routes: impl Iterator<Item = &'r Written<Route>>) -> BTreeSet<&'r str> {
    routes
        .filter_map(|route| Some(route.upstream.given()?.get_ref().as_str()))
        .collect()
}

fn check(
    written: &Written<file::Upstream>,
    (in_tunnel, needs_port): (bool, bool),
    directory: &Path,
    problems: &mut Problems,
) -> Option<UpstreamPlan> {
    check_name(written, problems);
    let servers = check_servers(written, needs_port, problems);
    let addresses: Vec<_> = servers
        .iter()
        .flatten()
        .map(|(place, _)| place.clone())
        .collect();
    let owner = format!("upstream {}", written.name.get_ref());
    let http2 = check_http2(written, problems);
    let by_tls = (owner, http2);
    let tls = server_tls::check(&written.tls, by_tls, &addresses, directory, problems);
    let balance = written.balance;
    let hash_on = check_hash_on(written, balance, in_tunnel, problems);
    let health = check_health(written, (needs_port, http2), problems);
    let send_proxy_protocol = written
        .send_proxy_protocol
        .given()
        .and_then(|version| *version.get_ref());
    // A connection that began with a PROXY header speaks for one client; kept, it would speak for the next one, too.
    let keepalive = if send_proxy_protocol.is_some() {
        0
    } else {
        written.keepalive
    };
    if let (Some(_), ServerHttp2::Always | ServerHttp2::Auto, Some(span)) =
        (send_proxy_protocol, http2, written.key("http2"))
    {
        problems
            .note(span, "with `send_proxy_protocol` each request has a connection of its own, also by HTTP/2")
            .help("a connection with a PROXY header belongs to one client; remove `send_proxy_protocol` to have requests share connections");
    }
    if let (Some(_), Some(span)) = (send_proxy_protocol, written.key("keepalive"))
        && written.keepalive > 0
    {
        problems
            .note(span, "`keepalive` has no effect with `send_proxy_protocol`")
            .help("a connection with a PROXY header belongs to one client, and is not kept for others");
    }
    Some(UpstreamPlan {
        name: written.name.get_ref().clone(),
        servers: servers?.into_iter().map(|(_, server)| server).collect(),
        tls: tls?,
        http2,
        balance,
        hash_on,
        health,
        send_proxy_protocol,
        keepalive,
        failures_max: written.failures_max,
    })
}

/// Without TLS nothing is agreed: what is spoken has to be known.
fn check_http2(written: &Written<file::Upstream>, problems: &mut Problems) -> ServerHttp2 {
    let Some(given) = written.http2.given() else {
        return ServerHttp2::Never;
    };
    let has_tls = matches!(&written.tls, Setting::Given(tls) if tls.get_ref().is_some());
    if *given.get_ref() == ServerHttp2::Auto && !has_tls && written.tls.is_absent() {
        problems
            .error(
                given.span(),
                "without `tls` nothing tells whether the servers speak HTTP/2",
            )
            .help("write `http2 = true` if all of them do, else remove it");
    }
    *given.get_ref()
}

/// Names become labels of metrics and words of log lines.
fn check_name(written: &Written<file::Upstream>, problems: &mut Problems) {
    if let Err(help) = values::plain_name(written.name.get_ref()) {
        problems
            .error(written.name.span(), "this is not a name for an upstream")
            .help(help);
    }
}

fn check_servers(
    written: &Written<file::Upstream>,
    needs_port: bool,
    problems: &mut Problems,
) -> Option<Vec<(Spanned<ServerAddress>, ServerPlan)>> {
    let list = match &written.servers {
        Setting::Wrong => return None,
        Setting::Absent => {
            problems
                .error(
                    written.span.clone(),
                    format!(
                        "the upstream \"{}\" has no `servers`",
                        written.name.get_ref()
                    ),
                )
                .help("add `servers = [\"host:port\"]`");
            return None;
        }
        Setting::Given(list) => list,
    };
    if list.get_ref().is_empty() {
        problems
            .error(list.span(), "at least one server is required")
            .help("write [\"host:port\"]");
        return None;
    }
    let has_tls = matches!(&written.tls, Setting::Given(tls) if tls.get_ref().is_some());
    let default_port = match (needs_port, has_tls) {
        (true, _) => None,
        (false, true) => Some(HTTPS_PORT),
        (false, false) => Some(HTTP_PORT),
    };
    let mut servers: Vec<(_, ServerPlan)> = Vec::with_capacity(list.get_ref().len());
    for Server { address, weight } in list.get_ref() {
        let Setting::Given(found) = super::server_address(address, default_port, problems) else {
            continue;
        };
        if servers
            .iter()
            .any(|(_, server)| server.address == *found.get_ref())
        {
            problems
                .warning(found.span(), "this server is already in the list")
                .help("for a larger share write { address = …, weight = 2 }");
        }
        let server = ServerPlan {
            address: found.get_ref().clone(),
            weight: *weight,
        };
        servers.push((found, server));
    }
    if servers.len() == list.get_ref().len() {
        Some(servers)
    } else {
        None
    }
}

fn check_hash_on(
    written: &Written<file::Upstream>,
    balance: Algorithm,
    in_tunnel: bool,
    problems: &mut Problems,
) -> HashOn {
    let Some(given) = written.hash_on.given() else {
        return if in_tunnel {
            HashOn::Client
        } else {
            HashOn::Path
        };
    };
    if balance != Algorithm::Hash {
        problems
            .note(
                given.span(),
                "`hash_on` has no effect without `balance = \"hash\"`",
            )
            .help("add `balance = \"hash\"`, or remove `hash_on`");
    } else if in_tunnel && *given.get_ref() != HashOn::Client {
        problems
            .error(
                given.span(),
                "a tunnel uses this upstream, and knows nothing of this",
            )
            .help("only `hash_on = \"client\"` is possible in a tunnel");
    }
    given.get_ref().clone()
}

fn check_health(
    written: &Written<file::Upstream>,
    (is_passed_on, http2): (bool, ServerHttp2),
    problems: &mut Problems,
) -> Option<HealthPlan> {
    let health = written.health.given()?.get_ref();
    let grpc = health.grpc.given().filter(|grpc| grpc.get_ref().is_some());
    if let Some(grpc) = grpc {
        if http2 == ServerHttp2::Never {
            problems
                .error(grpc.span(), "gRPC is spoken by HTTP/2 only")
                .help("add `http2 = true` to the upstream");
        }
        if let Some(path) = health.path.given() {
            problems
                .error(
                    path.span(),
                    "`path` is for a GET, which is not sent with `grpc`",
                )
                .help("remove one of the two");
        }
    }
    if let Some(path) = health.path.given() {
        let text = path.get_ref();
        if is_passed_on {
            problems
                .note(path.span(), "a tunnel uses this upstream, and this check speaks HTTP without TLS")
                .help("leave `path` out if the servers speak something else: a connection is enough then");
        }
        if !text.starts_with('/') {
            problems
                .error(path.span(), "a path begins with \"/\"")
                .help(format!("write \"/{text}\""));
        } else if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
            problems
                .error(path.span(), "this cannot be sent as a path")
                .help("spaces and everything beyond ASCII are written as \"%20\" and the like; \"#\" is not possible");
        }
    }
    let host = health.host.refine("a host", problems, |text| {
        values::server_address(text, Some(HTTP_PORT)).map(|_| text.clone())
    });
    if let (Some(host), None, None) = (host.given(), health.path.given(), grpc) {
        problems
            .warning(host.span(), "`host` has no effect without `path`")
            .help("add `path = \"/\"` for a check by HTTP");
    }
    Some(HealthPlan {
        path: health.path.given().map(|path| path.get_ref().clone()),
        grpc: grpc.and_then(|grpc| grpc.get_ref().clone()),
        host: host.given().map(|host| host.get_ref().clone()),
        every: health.every,
        fall: health.fall,
        rise: health.rise,
    })
}
