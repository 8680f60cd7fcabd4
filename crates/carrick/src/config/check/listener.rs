//! Checks `[[listener]]`.
use super::addresses::note_privileged_port;
use super::file_context::FileContext;
use super::networks::networks;
use super::route::{self, Inherited, Kind};
use super::{link, path, requests, senders, server_tls, split, tls, transparent};
use crate::config::file::{self, ConnectPorts, Job, ViaIn};
use crate::config::plan::{
    FarPlan, ForwardPlan, ListenerPlan, Mode, ParentPlan, ServerHttp2, Splitting, Via,
};
use crate::config::problem::Problems;
use crate::config::section::{Keys, Written};
use crate::config::setting::Setting;
use crate::config::users::Users;
use crate::config::values;
use crate::config::word::Word;
use carrick_logic::access::{Access, NamePattern, inner_networks};
use carrick_logic::http1::Forwarded;
use carrick_splice::Choice;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// What stands for the standard list of inner networks in `deny_to`.
const INNER: &str = "inner";
/// The port of a parent proxy that does not say.
const PARENT_PORT: u16 = 3128;
/// What means something in every mode that serves clients, with `transparent`.
const TRANSPARENT_TOO: [&str; 1] = ["deny_to"];

/// Checks a listener. `None` if it cannot be used.
pub fn check(
    written: &Written<file::Listener>,
    context: &FileContext<'_>,
    problems: &mut Problems,
) -> Option<ListenerPlan> {
    let FileContext {
        known,
        caching,
        classes,
        ..
    } = context;
    let address = address(written, problems);
    let job = match &written.mode {
        Setting::Given(mode) => Some(*mode.get_ref()),
        Setting::Wrong => None,
        Setting::Absent => {
            problems
                .error(written.span.clone(), "the listener has no `mode`")
                .help("add `mode = \"forward\"`, \"switch\", \"tunnel\", \"split\" or \"link\"");
            None
        }
    };
    if let Some(job) = job {
        report_misplaced(written, job, problems);
    }
    let engine = (written.engine.given()).map_or(context.engine, |engine| *engine.get_ref());
    let pace = classes.of_listener(&written.pace, problems);
    let clients = clients(written, problems);
    let trusted = senders::trusted(written, problems);
    let handshake = split::handshake(written, job, problems);
    let tcp_profiles = context.tcp_profiles.rules(&written.tcp_profiles, problems);
    let link = context.links.of(&written.link, problems).flatten();
    if job != Some(Job::Split) {
        split::report_misplaced_on_routes(written, problems);
    }
    // What is the upstream's to know is none of a stranger's business.
    let forwarded = forwarded(
        written,
        job == Some(Job::Forward) || written.is_transparent(),
    );
    let mut mode = match job {
        Some(Job::Forward) => {
            let cache = caching
                .of_listener(&written.cache, problems)
                .forward(problems);
            let plan = forward(written, engine, context.directory, problems);
            plan.map(|plan| {
                Mode::Forward(ForwardPlan {
                    cache,
                    pace,
                    ..plan
                })
            })
        }
        Some(Job::Switch) => {
            let cache = caching.of_listener(&written.cache, problems);
            let inherited = Inherited {
                engine,
                pace,
                cache: Some(&cache),
                split: Splitting::default(),
                link: None,
            };
            route::check_all(written, Kind::Switch, &inherited, context, problems).map(Mode::Switch)
        }
        Some(Job::Tunnel) => {
            let inherited = Inherited {
                engine,
                pace,
                cache: None,
                split: Splitting::default(),
                link,
            };
            route::check_all(written, Kind::Tunnel, &inherited, context, problems).map(Mode::Tunnel)
        }
        Some(Job::Split) => {
            let inherited = Inherited {
                engine,
                pace,
                cache: None,
                split: written.split,
                link,
            };
            route::check_all(written, Kind::Split, &inherited, context, problems)
                .map(|routes| Mode::Split(split::plan(written, routes)))
        }
        Some(Job::Link) => {
            link::report_open_door(written, problems);
            Some(Mode::Link(FarPlan { engine, pace }))
        }
        // Whatever the mode was to be: so that what else is wrong is said now, and one mistake does not look like several.
        None => {
            forward(written, engine, context.directory, problems);
            for route in &written.routes {
                known.find(&route.upstream, route.span.clone(), problems);
                classes.of(&route.pace, pace, problems);
                route::conditions(route, None, problems);
            }
            None
        }
    };
    let interception = transparent::check(written, address, context.idle, problems);
    let access = access(written, address, clients, job, problems);
    report_open_proxy(written, address, job == Some(Job::Forward), problems);
    let odd_names = senders::odd_names(written, problems);
    let via = via(written, job, problems);
    let tls = tls::check(written, context.directory, context.acme, problems);
    requests::settle(written, mode.as_mut(), &via, context.upstreams, problems);
    Some(ListenerPlan {
        address: address?,
        interception: interception?,
        handshake,
        tcp_profiles,
        proxy_protocol: written.proxy_protocol,
        tls: tls?,
        http2: written.http2,
        hsts: tls::hsts(written, problems),
        redirect_port: tls::redirect_port(written, problems),
        forwarded,
        odd_names,
        trusted: trusted?,
        via,
        access: access?,
        mode: mode?,
    })
}

fn address(written: &Written<file::Listener>, problems: &mut Problems) -> Option<SocketAddr> {
    if written.listen.is_absent() {
        problems
            .error(written.span.clone(), "the listener has no `listen`")
            .help("add `listen = \"127.0.0.1:3128\"`, or whatever address and port it is to have");
    }
    let address = written
        .listen
        .refine("an address to listen on", problems, |text| {
            values::listen_address(text)
        });
    let address = address.given()?;
    if address.get_ref().port() == 0 {
        problems
            .note(address.span(), "with port 0 the kernel picks a port")
            .help("carrick says which at its start");
    }
    note_privileged_port(*address.get_ref(), address.span(), problems);
    Some(*address.get_ref())
}

fn report_misplaced(written: &Written<file::Listener>, job: Job, problems: &mut Problems) {
    let mode = job.word();
    let has_destinations = job != Job::Link && written.is_transparent();
    for (key, span) in &written.keys_given {
        let modes = file::Listener::TABLE.modes(key);
        if modes.contains(&mode) || (has_destinations && TRANSPARENT_TOO.contains(key)) {
            continue;
        }
        let right = match job {
            Job::Link => "other".to_owned(),
            _ => named(modes.iter().filter(|mode| **mode != Job::Link.word())),
        };
        let message = format!("`{key}` means nothing in a \"{mode}\" listener");
        problems.error(span.clone(), message).help(format!(
            "it is for {right} listeners; remove it, or change `mode`"
        ));
    }
}

/// Modes as a sentence names them.
fn named<'m>(modes: impl Iterator<Item = &'m &'m str>) -> String {
    let quoted: Vec<_> = modes.map(|mode| format!("\"{mode}\"")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("{} and {last}", others.join(", "))
        }
        _ => quoted.concat(),
    }
}

/// The networks of `allow`; `None` if one of them is wrong.
fn clients(written: &Written<file::Listener>, problems: &mut Problems) -> Option<Vec<IpNet>> {
    let list = match &written.allow {
        Setting::Absent => return Some(Vec::new()),
        Setting::Wrong => return None,
        Setting::Given(list) => list,
    };
    if list.get_ref().is_empty() {
        problems
            .error(list.span(), "an empty `allow` refuses every client")
            .help("name the networks of the clients; [\"0.0.0.0/0\", \"::/0\"] is everybody");
        return None;
    }
    networks(list.get_ref(), problems)
}

/// Whether others than programs of this machine can be its clients, as far as is known.
fn is_public(written: &Written<file::Listener>, address: Option<SocketAddr>) -> bool {
    let is_beyond_loopback =
        address.is_some_and(|address| !address.ip().to_canonical().is_loopback());
    // By these a proxy before this one names its clients.
    is_beyond_loopback || written.proxy_protocol || !written.trusted_proxies.is_absent()
}

/// `None` if the networks of clients are wrong.
fn access(
    written: &Written<file::Listener>,
    address: Option<SocketAddr>,
    clients: Option<Vec<IpNet>>,
    job: Option<Job>,
    problems: &mut Problems,
) -> Option<Access> {
    let mut access = Access::default();
    let is_far = job == Some(Job::Link);
    if matches!(job, Some(Job::Switch | Job::Tunnel | Job::Split)) && !written.is_transparent() {
        access.clients = clients?;
        return Some(access);
    }
    access.connect_ports = match &written.connect_ports {
        ConnectPorts::All => Vec::new(),
        // An empty list is "all" for `Access`; nothing can be connected to on port 0, so that it means none.
        ConnectPorts::None => vec![0],
        ConnectPorts::These(ports) => ports.clone(),
    };
    let is_public = is_public(written, address);
    match written.deny_to.given() {
        Some(list) => {
            for text in list.get_ref() {
                deny(text, &mut access, problems);
            }
            if is_public || is_far || written.is_transparent() {
                note_inner_left_out(list, &access, problems);
            }
        }
        None if is_public || is_far || written.is_transparent() => {
            access.deny_networks = inner_networks();
        }
        None => {}
    }
    access.clients = clients?;
    Some(access)
}

/// Whoever adds a name to refuse seldom means to open the machine's own addresses by it.
fn note_inner_left_out(
    list: &toml::Spanned<Vec<toml::Spanned<String>>>,
    access: &Access,
    problems: &mut Problems,
) {
    let is_left_out = |inner: &IpNet| {
        access.check_address(inner.network()).is_ok()
            || access.check_address(inner.broadcast()).is_ok()
    };
    let inner = inner_networks();
    let Some(first) = inner.iter().find(|inner| is_left_out(inner)) else {
        return;
    };
    // An empty list says it plainly.
    if !list.get_ref().is_empty() {
        problems
            .note(
                list.span(),
                format!(
                    "this replaces the standard list, and {first} and others of it can be reached"
                ),
            )
            .help(format!(
                "add \"{INNER}\", which stands for the standard list"
            ));
    }
}

fn deny(text: &toml::Spanned<String>, access: &mut Access, problems: &mut Problems) {
    if text.get_ref() == INNER {
        access.deny_networks.extend(inner_networks());
        return;
    }
    let refused = if values::looks_like_network(text.get_ref()) {
        values::network(text.get_ref()).map(|network| access.deny_networks.push(network))
    } else {
        NamePattern::parse(text.get_ref()).map(|name| access.deny_names.push(name))
    };
    if let Err(help) = refused {
        problems
            .error(
                text.span(),
                "this is neither a network, an address, nor a name",
            )
            .help(help);
    }
}

/// A forward proxy that everybody can reach and use is soon used by everybody.
fn report_open_proxy(
    written: &Written<file::Listener>,
    address: Option<SocketAddr>,
    is_forward: bool,
    problems: &mut Problems,
) {
    let is_public = is_public(written, address);
    // Nobody can name a destination to a transparent one.
    let is_closed = written.is_transparent() || !written.users.is_absent();
    if !is_forward || !is_public || is_closed {
        return;
    }
    if written.allow.is_absent() {
        let span = written
            .listen
            .given()
            .map_or(written.span.clone(), toml::Spanned::span);
        let label = match address.is_some_and(|address| address.ip().to_canonical().is_loopback()) {
            true => {
                "a proxy before it (`proxy_protocol`, `trusted_proxies`) brings clients of other machines"
            }
            false => "not a loopback address",
        };
        problems
            .error(span, "this forward proxy would be open to everybody who can reach it")
            .label(label)
            .help("add `allow = [\"10.0.0.0/8\"]` with the networks of your clients, or `users` with a password file, or listen on 127.0.0.1 for this machine alone");
    } else if let Some(list) = written.allow.given() {
        let everybody =
            |text: &str| values::network(text).is_ok_and(|network| network.prefix_len() == 0);
        if let Some(text) = list.get_ref().iter().find(|text| everybody(text.get_ref())) {
            problems
                .note(
                    text.span(),
                    "this forward proxy is open to everybody who can reach it",
                )
                .help("`users` would ask for a password");
        }
    }
}

fn forward(
    written: &Written<file::Listener>,
    engine: Choice,
    directory: &Path,
    problems: &mut Problems,
) -> Option<ForwardPlan> {
    let users = match written.users.given() {
        None => None,
        Some(file) => match Users::load(&path(directory, file.get_ref())) {
            Ok(users) => Some(Arc::new(users)),
            Err(found) => {
                for problem in found {
                    problems.add_of_file(problem, file.span());
                }
                None
            }
        },
    };
    let parent = match written.parent.given() {
        None => None,
        Some(parent) => Some(self::parent(parent.get_ref(), directory, problems)?),
    };
    Some(ForwardPlan {
        engine,
        users,
        parent,
        cache: None,
        pace: None,
    })
}

fn parent(written: &file::Parent, directory: &Path, problems: &mut Problems) -> Option<ParentPlan> {
    let proxy = super::server_address(&written.proxy, Some(PARENT_PORT), problems);
    let owner = match proxy.given() {
        Some(proxy) => format!("parent {}", proxy.get_ref()),
        None => "parent".to_owned(),
    };
    let servers: Vec<_> = (proxy.given().into_iter().cloned()).collect();
    let tls = server_tls::check(
        &written.tls,
        (owner, ServerHttp2::Never),
        &servers,
        directory,
        problems,
    );
    let mut destinations = Vec::new();
    if let Some(list) = written.destinations.given() {
        if list.get_ref().is_empty() {
            problems
                .error(list.span(), "nothing would go through the parent")
                .help("leave `for` out for everything, or leave `parent` out for nothing");
        }
        for text in list.get_ref() {
            if values::looks_like_network(text.get_ref()) {
                problems
                    .error(text.span(), "`for` takes names, not addresses")
                    .help("names are compared before they are resolved; write \"*.example.org\"");
                continue;
            }
            match NamePattern::parse(text.get_ref()) {
                Ok(pattern) => destinations.push(pattern),
                Err(help) => {
                    problems
                        .error(text.span(), "this is not a name pattern")
                        .help(help);
                }
            }
        }
    }
    Some(ParentPlan {
        proxy: proxy.given()?.get_ref().clone(),
        tls: tls?,
        destinations,
    })
}

fn forwarded(written: &Written<file::Listener>, is_to_strangers: bool) -> Forwarded {
    match written.forwarded.given() {
        Some(form) => *form.get_ref(),
        None if is_to_strangers => Forwarded::Unchanged,
        None => Forwarded::XForwarded,
    }
}

/// `Via` takes a pseudonym or a host with port (RFC 9110 section 7.6.3). By default, a switch names itself to servers only: its
/// responses can then be forwarded unread.
fn via(written: &Written<file::Listener>, job: Option<Job>, problems: &mut Problems) -> Via {
    let name = written.via_name.get_ref();
    if !values::is_token(name) && values::server_address(name, Some(80)).is_err() {
        problems
            .error(written.via_name.span(), "this cannot be a name in `Via`")
            .help("write one word, such as \"carrick\"; `via = \"\"` leaves `Via` out");
    }
    let default = if job == Some(Job::Switch) {
        ViaIn::Requests
    } else {
        ViaIn::Both
    };
    let via = (written.via.given()).map_or(default, |via| *via.get_ref());
    Via {
        name: name.clone(),
        is_in_requests: via != ViaIn::Nothing,
        is_in_responses: via == ViaIn::Both,
    }
}
