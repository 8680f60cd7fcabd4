//! Two listeners on one address: with SO_REUSEPORT the kernel would accept that and share the clients out at random.
use crate::config::file::File;
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

/// Whether the same client connection could go to both. Port 0 is a different port each time.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
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
