//! Addresses that do not go together: two listeners on one (with SO_REUSEPORT the kernel would accept that, and share the
//! clients out at random), a listener that relays to itself, a port that needs a privilege.
use crate::config::file::File;
use crate::config::plan::{ListenerPlan, Mode, ServerAddress, UpstreamPlan};
use crate::config::problem::Problems;
use crate::config::values;
use carrick_logic::route::Conditions;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

/// Reports addresses that are taken twice, also by a wildcard, among listeners and admin.
pub fn check_conflicts(
    file: &File,
    admin: Option<&(SocketAddr, Option<Range<usize>>)>,
    problems: &mut Problems,
) {
    let mut taken: Vec<(SocketAddr, Option<Range<usize>>, &str)> = Vec::new();
    taken.extend(admin.map(|(address, span)| (*address, span.clone(), "admin")));
    for listener in &file.listeners {
        let Some(text) = listener.listen.given() else {
            continue;
        };
        let Ok(address) = values::listen_address(text.get_ref()) else {
            continue;
        };
        if let Some((other, other_span, what)) =
            taken.iter().find(|(other, ..)| overlap(address, *other))
        {
            let message = if address == *other {
                format!("{address} is already taken by {what}")
            } else {
                format!("{address} is already part of {other}, taken by {what}")
            };
            let problem = problems.error(text.span(), message).label("taken twice");
            match other_span {
                Some(span) => {
                    problem.with(span.clone(), "taken here");
                    problem.help("give one of them another port");
                }
                None => {
                    problem.help("admin listens there unless [admin] says otherwise; `listen = \"\"` turns it off");
                }
            }
        }
        taken.push((address, Some(text.span()), "another listener"));
    }
}

/// Reports listeners whose own servers or parent they are, and those that lead to each other in a circle.
pub fn check_loops(
    file: &File,
    listeners: &[Option<ListenerPlan>],
    upstreams: &[Option<UpstreamPlan>],
    problems: &mut Problems,
) {
    let leads: Vec<Vec<Lead>> = listeners
        .iter()
        .map(|plan| {
            let plan = plan.as_ref();
            plan.map_or_else(Vec::new, |plan| leads_from(plan, listeners, upstreams))
        })
        .collect();
    for (index, written) in file.listeners.iter().enumerate() {
        let Some(text) = written.listen.given() else {
            continue;
        };
        if leads_of(&leads, index).any(|lead| lead.to == index) {
            problems
                .error(
                    text.span(),
                    "this listener would relay to itself, without end",
                )
                .help("one of its servers, or its parent, has the listener's own address");
        } else if let Some((way, is_sure)) = circle(&leads, index) {
            let names: Vec<String> = way
                .iter()
                .filter_map(|index| listeners.get(*index)?.as_ref())
                .map(|plan| plan.address.to_string())
                .collect();
            let way = names.join(" to ");
            if is_sure {
                problems
                    .error(
                        text.span(),
                        format!("these listeners would relay to each other, without end: {way}"),
                    )
                    .help("one of them has to lead somewhere else");
            } else {
                problems
                    .warning(
                        text.span(),
                        format!("these listeners may relay to each other, without end: {way}"),
                    )
                    .help("make sure that no request matches all of these routes; one that comes back is answered 508");
            }
        }
    }
}

/// That a listener relays to another one.
struct Lead {
    to: usize,
    /// Whether everything that comes goes there.
    is_sure: bool,
}

fn leads_of(leads: &[Vec<Lead>], index: usize) -> impl Iterator<Item = &Lead> {
    leads.get(index).into_iter().flatten()
}

fn leads_from(
    plan: &ListenerPlan,
    listeners: &[Option<ListenerPlan>],
    upstreams: &[Option<UpstreamPlan>],
) -> Vec<Lead> {
    let next_hops: Vec<(&ServerAddress, bool)> = match &plan.mode {
        Mode::Forward(forward) => {
            let parent = forward.parent.iter();
            parent
                .map(|parent| (&parent.proxy, parent.destinations.is_empty()))
                .collect()
        }
        mode => {
            let routes = mode.routes();
            // Through a link, the address is another machine's.
            let near = routes.iter().filter(|route| route.link.is_none());
            near.filter_map(|route| {
                let upstream = upstreams.get(route.upstream?)?.as_ref()?;
                let takes_all =
                    routes.len() == 1 && route.conditions.covers(&Conditions::default());
                let is_sure = takes_all && upstream.servers.len() == 1;
                Some(
                    upstream
                        .servers
                        .iter()
                        .map(move |server| (&server.address, is_sure)),
                )
            })
            .flatten()
            .collect()
        }
    };
    let mut leads = Vec::new();
    for (next, is_sure) in next_hops {
        let to = listeners.iter().position(|listener| {
            let listener = listener.as_ref();
            listener.is_some_and(|listener| is_at(next, listener.address))
        });
        leads.extend(to.map(|to| Lead { to, is_sure }));
    }
    leads
}

/// The way from a listener back to it, if there is one, and none of a listener before it in the file; and whether everything goes it.
fn circle(leads: &[Vec<Lead>], start: usize) -> Option<(Vec<usize>, bool)> {
    fn go_on(
        leads: &[Vec<Lead>],
        way: &mut Vec<usize>,
        seen: &mut [bool],
        is_sure: bool,
    ) -> Option<bool> {
        let (start, here) = (*way.first()?, *way.last()?);
        for lead in leads_of(leads, here) {
            let is_sure = is_sure && lead.is_sure;
            if lead.to == start {
                way.push(start);
                return Some(is_sure);
            }
            // Circles of earlier listeners are reported there.
            let is_new = lead.to > start
                && seen
                    .get_mut(lead.to)
                    .is_some_and(|seen| !std::mem::replace(seen, true));
            if is_new {
                way.push(lead.to);
                if let Some(is_sure) = go_on(leads, way, seen, is_sure) {
                    return Some(is_sure);
                }
                way.pop();
            }
        }
        None
    }
    let mut way = vec![start];
    let mut seen = vec![false; leads.len()];
    let is_sure = go_on(leads, &mut way, &mut seen, true)?;
    Some((way, is_sure))
}

/// Whether a connection to a server from this machine surely comes in at `listener`.
fn is_at(server: &ServerAddress, listener: SocketAddr) -> bool {
    match server {
        ServerAddress::Ip(address) => leads_to(*address, listener),
        ServerAddress::Name { host, port } => {
            let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            // Whether it is tried by IPv4 or IPv6 is seen when it is connected to; either may come in here.
            let host = host.to_ascii_lowercase();
            (host == "localhost" || host.ends_with(".localhost"))
                && (loopback.iter()).any(|ip| leads_to(SocketAddr::new(*ip, *port), listener))
        }
    }
}

/// Notes that a port is for privileged programs, and this one has not the privilege.
pub fn note_privileged_port(address: SocketAddr, span: Range<usize>, problems: &mut Problems) {
    let Some(first_free) = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .ok()
        .and_then(|text| text.trim().parse::<u16>().ok())
    else {
        return;
    };
    let may_bind = rustix::thread::capabilities(None).is_ok_and(|sets| {
        sets.effective
            .contains(rustix::thread::CapabilitySet::NET_BIND_SERVICE)
    });
    if address.port() > 0 && address.port() < first_free && !may_bind {
        problems
            .note(
                span,
                format!(
                    "ports below {first_free} need a privilege that this process does not have"
                ),
            )
            .help("run carrick with CAP_NET_BIND_SERVICE, as the systemd unit does");
    }
}

/// Whether a connection to `next` from this machine surely comes in at `listener`.
fn leads_to(next: SocketAddr, listener: SocketAddr) -> bool {
    let (here, there) = (listener.ip().to_canonical(), next.ip().to_canonical());
    let is_this_machine = there.is_loopback() || there.is_unspecified();
    listener.port() == next.port() && (here == there || covers(here, there) && is_this_machine)
}

/// Whether the same client connection could go to both. Port 0 is a different port each time.
pub(super) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    if one.port() != other.port() || one.port() == 0 {
        return false;
    }
    let (one, other) = (one.ip().to_canonical(), other.ip().to_canonical());
    one == other || covers(one, other) || covers(other, one)
}

/// Whether `wide` is a wildcard that `narrow` is part of. `[::]` takes IPv4, too (`net::bind`).
fn covers(wide: IpAddr, narrow: IpAddr) -> bool {
    match wide {
        IpAddr::V4(wide) => wide.is_unspecified() && narrow.is_ipv4(),
        IpAddr::V6(wide) => wide.is_unspecified(),
    }
}
