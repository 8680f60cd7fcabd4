//! What a plan does, in a few lines for people.
use super::plan::{
    AcmePlan, ForwardPlan, Interception, ListenerPlan, LogTarget, Mode, Plan, PortRange,
    certificate_file,
};
use super::tls::load_stored;
use super::word::Word;
use std::fmt::Display;
use std::time::SystemTime;

/// One line for each listener, then admin and the log.
#[must_use]
pub fn lines(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = plan
        .listeners
        .iter()
        .map(|listener| self::listener(listener))
        .collect();
    lines.extend(plan.acme.iter().flat_map(|acme| certificates(acme)));
    if let Some(cache) = &plan.cache {
        let size = super::values::show_size(cache.memory_bytes);
        let mut line = format!("cache of {} in memory", size.trim_matches('"'));
        if let Some(disk) = &cache.disk {
            let size = super::values::show_size(disk.bytes);
            let size = size.trim_matches('"');
            line.push_str(&format!(", {size} in {}", disk.path.display()));
        }
        if let Some(cache_peers) = &cache.cache_peers {
            let count = cache_peers.members.len() - usize::from(cache_peers.own.is_some());
            line.push_str(&format!(", cache peers: {count}"));
        }
        if let Some(server) = cache
            .shared
            .as_ref()
            .and_then(|shared| shared.servers.first())
        {
            line.push_str(&format!(", shared cache at {server}"));
        }
        lines.push(line);
    }
    if !plan.pace.classes.is_empty() {
        let classes = plan.pace.classes.len();
        let of = if classes == 1 { "class" } else { "classes" };
        lines.push(format!("pacing by {classes} {of}"));
    }
    lines.push(match plan.admin {
        Some(address) => format!("admin on {address}"),
        None => "admin is off".to_owned(),
    });
    lines.push(match &plan.log.access {
        LogTarget::Off => "no access log".to_owned(),
        LogTarget::Stdout => "access log on standard output".to_owned(),
        LogTarget::Stderr => "access log on standard error".to_owned(),
        LogTarget::File(path) => format!("access log in {}", path.display()),
    });
    lines.push(format!(
        "{}, {}",
        count(plan.workers, "worker"),
        count(plan.upstreams.len(), "upstream")
    ));
    lines
}

/// Most names of certificates that are listed.
const NAMES_MAX: usize = 10;

/// From whom certificates are, and what is done about each.
fn certificates(acme: &AcmePlan) -> Vec<String> {
    let challenges: Vec<_> = acme.challenges.iter().map(|one| one.word()).collect();
    let mut lines = vec![format!(
        "certificates from {} ({}), kept in {}",
        acme.directory,
        challenges.join(", "),
        acme.folder.display()
    )];
    for name in acme.names.iter().take(NAMES_MAX) {
        let kept = load_stored(&certificate_file(&acme.folder, name));
        let state = match kept.map(|identity| identity.validity) {
            Ok([_, until]) if until > SystemTime::now() => {
                format!("until {}", humantime::format_rfc3339_seconds(until))
            }
            _ => "to be ordered".to_owned(),
        };
        lines.push(format!("  {name}: {state}"));
    }
    let rest = acme.names.len().saturating_sub(NAMES_MAX);
    if rest > 0 {
        lines.push(format!("  {rest} others"));
    }
    lines
}

/// Which way the requests of each route of a switch go, and what keeps them from the faster one.
#[must_use]
pub fn paths(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for listener in &plan.listeners {
        let Mode::Switch(routes) = &listener.mode else {
            continue;
        };
        let of_listener = if !plan.loads_packet_engine() {
            Some("the engine \"packet\" is not loaded; see `packet` in [process]")
        } else if listener.is_on_loopback() {
            Some("the kernel forwards between network interfaces, and clients come by loopback")
        } else {
            None
        };
        // A trusted proxy's connection carries requests of many clients.
        let others = match listener.trusted.networks.is_empty() {
            true => "others",
            false => "others and those from `trusted_proxies`",
        };
        for (number, route) in (1..).zip(routes) {
            let upstream = route.upstream.and_then(|index| plan.upstreams.get(index));
            let to = match upstream {
                Some(upstream) => upstream.name.as_str(),
                None => "original destinations",
            };
            if route.conditions.sni.is_some() {
                let listener = listener.address;
                lines.push(format!(
                    "{listener}, route {number} to {to}: TLS passes undecrypted"
                ));
                continue;
            }
            let of_route = route.not_in_kernel.as_deref();
            let path = match of_route.or(of_listener) {
                Some(why) => format!("by the process: {why}"),
                None => format!("plain requests in the kernel, {others} by the process"),
            };
            lines.push(format!(
                "{}, route {number} to {to}: {path}",
                listener.address
            ));
        }
    }
    lines
}

/// Whom carrick becomes, if the plan says it.
#[must_use]
pub fn account(plan: &Plan) -> Option<String> {
    plan.account.as_ref().map(|account| {
        format!(
            "as {} (user {}, group {}) from then on",
            account.user, account.uid, account.gid
        )
    })
}

fn listener(listener: &ListenerPlan) -> String {
    let (job, details) = match &listener.mode {
        Mode::Forward(forward) => ("forward proxy", self::forward(listener, forward)),
        Mode::Switch(routes) => ("switch", self::routes(listener, routes.len())),
        Mode::Tunnel(routes) => ("tunnel", self::routes(listener, routes.len())),
        Mode::Split(split) => ("splitter", self::routes(listener, split.routes.len())),
        Mode::Link(_) => ("far end of a link", "to where it is told to go".to_owned()),
    };
    let clients = if listener.access.clients.is_empty() {
        String::new()
    } else {
        format!(", for clients in {}", join(&listener.access.clients))
    };
    let header = if listener.proxy_protocol {
        ", behind a PROXY header"
    } else {
        ""
    };
    let transparent = match &listener.interception {
        Some(interception) if interception.ports.is_empty() => {
            ", with the client's address".to_owned()
        }
        Some(interception) => format!(
            ", transparent for {}{}",
            ports(interception),
            if interception.keeps_client {
                " with the client's address"
            } else {
                ""
            }
        ),
        None => String::new(),
    };
    format!(
        "{job} on {}: {details}{clients}{header}{transparent}",
        listener.address
    )
}

fn ports(interception: &Interception) -> String {
    if interception.ports.contains(&PortRange::ALL) {
        let except = join(&interception.except_ports);
        return format!("all ports but {except}");
    }
    match interception.except_ports.as_slice() {
        [] => format!("port {}", join(&interception.ports)),
        except => format!("port {} but {}", join(&interception.ports), join(except)),
    }
}

/// A transparent listener has one more than the file: what meets none goes where it wanted to go.
fn routes(listener: &ListenerPlan, length: usize) -> String {
    match (&listener.interception, length.saturating_sub(1)) {
        (None, _) => count(length, "route"),
        (Some(_), 0) => "to original destinations".to_owned(),
        (Some(_), written) => {
            format!("{}, else to original destinations", count(written, "route"))
        }
    }
}

fn forward(listener: &ListenerPlan, forward: &ForwardPlan) -> String {
    let ports = if listener.interception.is_some() {
        "to original destinations".to_owned()
    } else {
        connect(listener)
    };
    let users = forward.users.as_ref().map_or(String::new(), |users| {
        format!(", {}", count(users.count(), "user"))
    });
    let parent = if forward.parent.is_some() {
        ", with a parent"
    } else {
        ""
    };
    format!("{ports}{users}{parent}")
}

fn connect(listener: &ListenerPlan) -> String {
    match listener.access.connect_ports[..] {
        [] => "CONNECT to any port".to_owned(),
        [0] => "no CONNECT".to_owned(),
        ref ports => format!("CONNECT to {}", join(ports)),
    }
}

fn join(items: &[impl Display]) -> String {
    items
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn count(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}
