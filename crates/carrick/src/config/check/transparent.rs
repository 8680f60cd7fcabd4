//! Checks `transparent`, `intercept`, `keep_client_address`, and `to` of routes.
use super::addresses::overlap;
use super::networks::{INTERFACE_BYTES_MAX, is_interface, networks};
use super::upstream::Known;
use crate::config::file::{self, File, Intercept, Job};
use crate::config::plan::{Interception, ListenerPlan, LocalInterception, PortRange};
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use ipnet::IpNet;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;

/// The mark and the routing table when the file does not say: this and the listener's port.
const NUMBER_BASE: u32 = 100_000;

/// Keys that mean nothing to clients that do not know of the proxy, and why.
const NOT_TRANSPARENT: [(&str, &str); 3] = [
    (
        "proxy_protocol",
        "intercepted clients send no PROXY header; their addresses are known",
    ),
    (
        "users",
        "a client that does not know of the proxy cannot be asked for a password; use `allow`",
    ),
    (
        "connect_ports",
        "a client that does not know of the proxy sends no CONNECT; `intercept` says which ports are meant",
    ),
];

/// What is intercepted for a listener, if it is transparent. `None` if that is wrong.
#[expect(
    clippy::option_option,
    reason = "wrong, not transparent, and what is intercepted are three answers"
)]
pub fn check(
    written: &Written<file::Listener>,
    address: Option<SocketAddr>,
    idle: Duration,
    problems: &mut Problems,
) -> Option<Option<Interception>> {
    let is_far = written.job() == Some(Job::Link);
    if is_far && written.keeps_client_address() {
        return answers_only(written, address?, problems).map(Some);
    }
    if !written.is_transparent() {
        // Of the far end of a link, what means nothing was said before.
        if is_far {
            return Some(None);
        }
        for key in ["intercept", "keep_client_address"] {
            if let Some(span) = written.key(key) {
                problems
                    .error(span, format!("`{key}` means nothing without `transparent`"))
                    .help("add `transparent = true`, or remove it");
            }
        }
        return Some(None);
    }
    for (key, why) in NOT_TRANSPARENT {
        if let Some(span) = written.key(key) {
            problems
                .error(
                    span,
                    format!("`{key}` is not possible in a transparent listener"),
                )
                .help(why);
        }
    }
    let Some(intercept) = written.intercept.given() else {
        if written.intercept.is_absent() {
            let span = written
                .key("transparent")
                .unwrap_or_else(|| written.span.clone());
            problems
                .error(span, "nothing says what is intercepted")
                .help("add `intercept = { ports = [80], interfaces = [\"eth1\"] }`, with the interface that clients are behind");
        }
        return None;
    };
    interception(written, intercept.get_ref(), (address, idle), problems).map(Some)
}

/// Nothing is led to the far end of a link, but servers' answers to connections that have clients' addresses.
fn answers_only(
    written: &Written<file::Listener>,
    address: SocketAddr,
    problems: &mut Problems,
) -> Option<Interception> {
    if address.port() == 0 {
        let listen = written.listen.given();
        let span = listen.map_or(written.span.clone(), Spanned::span);
        problems
            .error(
                span,
                "with `keep_client_address` the listener needs a port of its own",
            )
            .help("name one that is free, such as 4140: the rules in the kernel are known by it");
        return None;
    }
    let number = NUMBER_BASE + u32::from(address.port());
    Some(Interception {
        listener: address,
        ports: Vec::new(),
        except_ports: Vec::new(),
        interfaces: Vec::new(),
        from: Vec::new(),
        to: Vec::new(),
        except: Vec::new(),
        mark: number,
        table: number,
        keeps_client: true,
        local: None,
    })
}

fn interception(
    written: &Written<file::Listener>,
    intercept: &Written<Intercept>,
    (address, idle): (Option<SocketAddr>, Duration),
    problems: &mut Problems,
) -> Option<Interception> {
    let from = list(&intercept.from, "from", problems);
    let to = list(&intercept.to, "to", problems);
    let except = list(&intercept.except, "except", problems);
    let interfaces = interfaces(intercept, problems);
    let address = address?;
    let listen = written
        .listen
        .given()
        .map_or(written.span.clone(), Spanned::span);
    if address.port() == 0 {
        problems
            .error(
                listen.clone(),
                "a transparent listener needs a port of its own",
            )
            .help("name one that is free, such as 8080: the rules in the kernel lead there");
        return None;
    }
    let ports = intercept.ports.given()?;
    let mut except_ports = match &intercept.except_ports {
        Setting::Wrong => return None,
        written => written
            .given()
            .map_or(Vec::new(), |list| list.get_ref().clone()),
    };
    let is_all = ports.get_ref().contains(&PortRange::ALL);
    if is_all {
        except_ports.push(address.port().into());
    }
    let number = NUMBER_BASE + u32::from(address.port());
    let interception = Interception {
        listener: address,
        ports: ports.get_ref().clone(),
        except_ports,
        interfaces: interfaces?,
        from: from?,
        to: to?,
        except: except?,
        mark: given_or(&intercept.mark, number)?,
        table: given_or(&intercept.table, number)?,
        keeps_client: written.keeps_client_address(),
        local: local(intercept, idle, given_or(&intercept.mark, number)?),
    };
    if interception.takes_port(address.port()) {
        problems
            .error(ports.span(), format!("{} is the listener's own port", address.port()))
            .help("listen on a port that is not intercepted, or add it to `except_ports`: by it carrick knows who connects to the listener itself, which would be a loop");
    }
    report_families(&interception, intercept, problems);
    if interception.interfaces.is_empty() && interception.from.is_empty() {
        problems
            .note(intercept.span.clone(), "connections are intercepted on every interface, from everybody")
            .help("also those that come in from outside; `interfaces` or `from` would say whose are meant");
    }
    Some(interception)
}

/// A connection is known a little longer than carrick keeps one on which nothing is said.
fn local(written: &Intercept, idle: Duration, mark: u32) -> Option<LocalInterception> {
    const GRACE_SECONDS: u64 = 60;
    written.local.then(|| LocalInterception {
        // A mark of its own: what has the other one, and is sent by this machine, is not led anywhere.
        mark: mark.checked_add(NUMBER_BASE).unwrap_or(mark - 1),
        idle_seconds: idle.as_secs() + GRACE_SECONDS,
    })
}

fn given_or(setting: &Setting<u32>, default: u32) -> Option<u32> {
    match setting {
        Setting::Absent => Some(default),
        Setting::Wrong => None,
        Setting::Given(number) => Some(*number.get_ref()),
    }
}

fn list(
    setting: &Setting<Vec<Spanned<String>>>,
    key: &str,
    problems: &mut Problems,
) -> Option<Vec<IpNet>> {
    match setting {
        Setting::Absent => Some(Vec::new()),
        Setting::Wrong => None,
        Setting::Given(list) => {
            report_empty(list, key, problems);
            networks(list.get_ref(), problems)
        }
    }
}

fn report_empty(list: &Spanned<Vec<Spanned<String>>>, key: &str, problems: &mut Problems) {
    if list.get_ref().is_empty() {
        problems
            .error(
                list.span(),
                format!("an empty `{key}` list could mean all or none"),
            )
            .help(format!("leave `{key}` out, or name something"));
    }
}

fn interfaces(intercept: &Written<Intercept>, problems: &mut Problems) -> Option<Vec<String>> {
    let list = match &intercept.interfaces {
        Setting::Absent => return Some(Vec::new()),
        Setting::Wrong => return None,
        Setting::Given(list) => list,
    };
    report_empty(list, "interfaces", problems);
    let mut names = Vec::with_capacity(list.get_ref().len());
    for text in list.get_ref() {
        let name = text.get_ref();
        let stem = name.strip_suffix('*').unwrap_or(name);
        if !is_interface(stem) || name.len() > INTERFACE_BYTES_MAX {
            problems
                .error(text.span(), "this is not an interface's name")
                .help("`ip link` shows them; `eth*` matches all that begin with `eth`");
            continue;
        }
        // Not of `/sys`, which may be of another network namespace.
        if stem == name && if_nametoindex(name.as_str()) == Err(Errno::ENODEV) {
            problems
                .note(text.span(), format!("this machine has no interface {name} now"))
                .help("what comes in by it is intercepted as soon as it is there; `ip link` shows those that are");
        }
        names.push(name.clone());
    }
    (names.len() == list.get_ref().len()).then_some(names)
}

/// Networks of a family that the listener does not take would make rules that never match.
fn report_families(interception: &Interception, written: &Intercept, problems: &mut Problems) {
    for (networks, setting) in [
        (&interception.from, &written.from),
        (&interception.to, &written.to),
    ] {
        let is_taken = |network: &IpNet| match network {
            IpNet::V4(_) => interception.takes_v4(),
            IpNet::V6(_) => interception.takes_v6(),
        };
        let texts = setting.given().into_iter().flat_map(Spanned::get_ref);
        for (_, text) in networks
            .iter()
            .zip(texts)
            .filter(|(network, _)| !is_taken(network))
        {
            problems
                .error(
                    text.span(),
                    format!(
                        "the listener, {}, does not take this family of addresses",
                        interception.listener
                    ),
                )
                .help("listen on \"[::]:PORT\" for IPv4 and IPv6");
        }
    }
}

/// Where a route leads: the index of an upstream, or `Some(None)`: the original destination. `None` if that is wrong.
#[expect(
    clippy::option_option,
    reason = "wrong, the original destination, and an upstream are three answers"
)]
pub fn destination(
    listener: &file::Listener,
    route: &Written<file::Route>,
    known: &Known<'_>,
    problems: &mut Problems,
) -> Option<Option<usize>> {
    match &route.to {
        Setting::Absent => known
            .find(&route.upstream, route.span.clone(), problems)
            .map(Some),
        Setting::Wrong => {
            // It still counts as a use of the upstream, so that one mistake does not look like several.
            if !route.upstream.is_absent() {
                known.find(&route.upstream, route.span.clone(), problems);
            }
            None
        }
        Setting::Given(word) => {
            if !listener.is_transparent() {
                problems
                    .error(
                        word.span(),
                        "only a transparent listener knows the original destination",
                    )
                    .help("add `transparent = true` to the listener, or name an `upstream`");
                return None;
            }
            if let Some(upstream) = route.upstream.given() {
                known.find(&route.upstream, route.span.clone(), problems);
                problems
                    .error(upstream.span(), "a route has either `upstream` or `to`")
                    .help("remove one of them");
                return None;
            }
            Some(None)
        }
    }
}

/// Whether the mark of one listener is that of the other's local clients.
fn shares_mark(one: &Interception, other: &Interception) -> bool {
    let local = |one: &Interception| one.local.as_ref().map(|local| local.mark);
    local(one).is_some_and(|mark| mark == other.mark || Some(mark) == local(other))
        || local(other) == Some(one.mark)
}

/// Reports transparent listeners whose rules would be mixed up: rules are known by the listener's port, mark and table.
pub fn check_conflicts(file: &File, listeners: &[Option<ListenerPlan>], problems: &mut Problems) {
    let mut seen: Vec<(&Interception, Range<usize>)> = Vec::new();
    for (written, plan) in file.listeners.iter().zip(listeners) {
        let Some(interception) = plan.as_ref().and_then(|plan| plan.interception.as_ref()) else {
            continue;
        };
        for (other, other_span) in &seen {
            // Listeners on one address are another mistake, which is told as such.
            let shared = if overlap(interception.listener, other.listener) {
                continue;
            } else if interception.listener.port() == other.listener.port() {
                "port"
            } else if interception.mark == other.mark {
                "mark"
            } else if interception.table == other.table {
                "table"
            } else if shares_mark(interception, other) {
                "mark"
            } else {
                continue;
            };
            problems
                .error(
                    written.span.clone(),
                    format!("two transparent listeners have the same {shared}"),
                )
                .with(other_span.clone(), "this is the other one")
                .help(format!(
                    "give one of them another {shared}: rules in the kernel are told apart by it"
                ));
        }
        seen.push((interception, written.span.clone()));
    }
}
