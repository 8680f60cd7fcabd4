//! Addresses that do not go together: two listeners on one (with SO_REUSEPORT the kernel would accept that, and share the
//! clients out at random), a listener that relays to itself, a port that needs a privilege.
use crate::config::file::File;
use crate::config::plan::{ListenerPlan, Mode, ServerAddress, UpstreamPlan};
use crate::config::problem::Problems;
use crate::config::values;
use std::net::{IpAddr, SocketAddr};
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
            let source = problems.source();
            let message = if address == *other {
                format!("{address} is already taken by {what}")
            } else {
                format!("{address} is already part of {other}, taken by {what}")
            };
            let problem = problems.error(text.span(), message, "taken twice");
            match other_span {
                Some(span) => {
                    problem.with(&source, span.clone(), "taken here");
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

/// Reports listeners whose own servers or parent they are.
pub fn check_loops(
    file: &File,
    listeners: &[Option<ListenerPlan>],
    upstreams: &[Option<UpstreamPlan>],
    problems: &mut Problems,
) {
    for (written, plan) in file.listeners.iter().zip(listeners) {
        let (Some(text), Some(plan)) = (written.listen.given(), plan) else {
            continue;
        };
        let next_hops: Vec<&ServerAddress> = match &plan.mode {
            Mode::Forward(forward) => forward.parent.iter().map(|parent| &parent.proxy).collect(),
            mode => {
                let used = mode
                    .routes()
                    .iter()
                    .filter_map(|route| upstreams.get(route.upstream?)?.as_ref());
                used.flat_map(|upstream| upstream.servers.iter().map(|server| &server.address))
                    .collect()
            }
        };
        let is_itself = |next: &&ServerAddress| matches!(next, ServerAddress::Ip(next) if leads_to(*next, plan.address));
        if next_hops.iter().any(is_itself) {
            problems
                .error(
                    text.span(),
                    "this listener would relay to itself, without end",
                    "",
                )
                .help("one of its servers, or its parent, has the listener's own address");
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
                "",
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

/// Whether `wide` is a wildcard that `narrow` is part of. `[::]` takes IPv4, too (`net.ipv6.bindv6only` is 0).
fn covers(wide: IpAddr, narrow: IpAddr) -> bool {
    match wide {
        IpAddr::V4(wide) => wide.is_unspecified() && narrow.is_ipv4(),
        IpAddr::V6(wide) => wide.is_unspecified(),
    }
}
