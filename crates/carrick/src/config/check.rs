//! From the file as written to the plan: whatever does not go together is reported, all of it at once.
mod account;
mod acme;
mod addresses;
mod cache;
mod cache_peers;
mod conditions;
mod file_context;
mod link;
mod listener;
mod machine;
mod named;
mod networks;
mod pace;
mod requests;
mod route;
mod senders;
mod server_tls;
mod shared;
mod split;
mod tcp_profile;
mod tls;
mod transparent;
mod upstream;

use super::file::{File, PINS_DEFAULT};
use super::plan::{Limits, LogPlan, LogTarget, PacketUse, Plan};
use super::problem::Problems;
use super::section::Written;
use super::setting::Setting;
use super::values::{self, ServerAddress};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the plan; relative paths in the file are relative to `directory`. `None` if there is an error among the problems.
pub fn check(file: &Written<File>, directory: &Path, problems: &mut Problems) -> Option<Plan> {
    let admin = admin(file, problems);
    let account = account::check(file, problems);
    machine::check(file, &machine::Machine::here(), problems);
    let pins = pins(file, problems);
    let log = log(file, directory, problems);
    let acme_settings = acme::check(file, directory, problems);
    let upstreams = upstream::check_all(file, directory, problems);
    let known = upstream::Known::new(&file.upstreams);
    let (caching, cache) = cache::check(file, directory, problems);
    let (classes, pace) = pace::check(&file.pace, problems);
    let tcp_profiles = tcp_profile::check(&file.tcp_profiles, problems);
    let (known_links, links) = link::check(&file.links, &tcp_profiles, problems);
    if file.key("listener").is_none() {
        problems
            .error(0..0, "there is nothing to listen on")
            .help("add a [[listener]] with `listen` and `mode`; or start carrick without a file for a forward proxy on 127.0.0.1:3128");
    }
    let listeners: Vec<_> = file
        .listeners
        .iter()
        .map(|written| {
            let context = file_context::FileContext {
                engine: file.splice.engine,
                directory,
                known: &known,
                upstreams: &upstreams,
                caching: &caching,
                classes: &classes,
                tcp_profiles: &tcp_profiles,
                links: &known_links,
                acme: acme_settings.as_ref(),
                idle: file.timeouts.tunnel_idle.max(file.timeouts.idle),
            };
            listener::check(written, &context, problems)
        })
        .collect();
    let acme = acme::plan(file, acme_settings, &listeners, problems);
    addresses::check_conflicts(file, admin.as_ref(), problems);
    addresses::check_loops(file, &listeners, &upstreams, problems);
    transparent::check_conflicts(file, &listeners, problems);
    known.report_unused(problems);
    classes.report_unused(problems);
    known_links.report_unused(problems);
    tcp_profiles.report_unused(problems);
    if problems.count_errors() > 0 {
        return None;
    }
    let plan = Plan {
        admin: admin.map(|(address, _)| address),
        workers: workers(file.workers.count),
        account,
        pins,
        packet: file.process.packet,
        ktls: file.process.ktls,
        sandbox: file.process.sandbox,
        limits: limits(&file.limits),
        timeouts: file.timeouts.values.clone(),
        log,
        acme: acme.map(Arc::new),
        cache,
        pace,
        tcp_profiles: tcp_profiles.plans,
        links: links.into_iter().collect::<Option<_>>()?,
        listeners: listeners
            .into_iter()
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .map(Arc::new)
            .collect(),
        upstreams: upstreams
            .into_iter()
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .map(Arc::new)
            .collect(),
    };
    check_packet(file, &plan, problems);
    cache::report_unused(file, &plan.listeners, problems);
    Some(plan)
}

/// The number of workers: as given, or one for each core that the process may run on (its affinity and cgroup count).
pub fn workers(given: u64) -> usize {
    match usize::try_from(given) {
        Ok(count) if count > 0 => count,
        _ => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    }
}

/// The address, and where it is written, if it is.
fn admin(file: &File, problems: &mut Problems) -> Option<(SocketAddr, Option<Range<usize>>)> {
    let text = &file.admin.listen;
    if text.get_ref().is_empty() {
        return None;
    }
    let address = match values::listen_address(text.get_ref()) {
        Ok(address) => address,
        Err(help) => {
            problems
                .error(text.span(), "this is not an address to listen on")
                .help(help);
            return None;
        }
    };
    if !address.ip().to_canonical().is_loopback() {
        problems
            .warning(text.span(), "admin has no authentication and is reachable from other machines")
            .help("whoever can reach it sees upstreams, tunnels and what is cached, removes what is cached, and changes pacing; listen on loopback, or let a firewall keep others away");
    }
    Some((address, file.admin.value("listen")))
}

/// Whether it can be used there is seen at the start; without it carrick works as well.
fn pins(file: &File, problems: &mut Problems) -> Option<PathBuf> {
    let text = &file.process.pins;
    if text.get_ref().is_empty() {
        return None;
    }
    if !text.get_ref().starts_with('/') {
        problems
            .error(text.span(), "this is no absolute path")
            .help(format!(
                "such as \"{PINS_DEFAULT}\", a folder on a BPF file system; or \"\" for none"
            ));
    }
    Some(text.get_ref().into())
}

/// Whoever names an engine that is never loaded may not have meant it.
fn check_packet(file: &File, plan: &Plan, problems: &mut Problems) {
    if let Some(span) = file.process.value("packet")
        && plan.packet == PacketUse::Off
        && plan.wants_packet_engine()
    {
        problems
            .warning(
                span,
                "the engine \"packet\" is named below, and is not loaded",
            )
            .help("what names it goes as with \"auto\"; \"named\" loads it");
    }
}

fn log(file: &File, directory: &Path, problems: &mut Problems) -> LogPlan {
    let text = &file.log.access;
    let access = match text.get_ref().as_str() {
        "stdout" => LogTarget::Stdout,
        "stderr" => LogTarget::Stderr,
        "" => LogTarget::Off,
        word if is_word_for_none(word) => {
            problems
                .error(
                    text.span(),
                    format!("this would be a file that is called {word}"),
                )
                .help(format!(
                    "`access = \"\"` turns the access log off; such a file is \"./{word}\""
                ));
            LogTarget::Off
        }
        path => {
            let path = directory.join(path);
            if path.is_dir() {
                problems
                    .error(text.span(), "this is a directory")
                    .help("name a file in it");
            } else if let Some(parent) = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir())
            {
                problems
                    .error(
                        text.span(),
                        format!("the directory {} does not exist", parent.display()),
                    )
                    .help("create it; or say \"stdout\", \"stderr\", or \"\" for no log");
            }
            LogTarget::File(path)
        }
    };
    LogPlan {
        access,
        format: file.log.format,
    }
}

/// Whether somebody who writes this to say where a log goes means that there is none.
fn is_word_for_none(word: &str) -> bool {
    ["off", "none", "no", "false", "disabled", "null", "never"]
        .iter()
        .any(|none| word.eq_ignore_ascii_case(none))
}

/// What stalled splices may hold depends on the machine, unless it is said.
pub(super) fn limits(written: &Limits) -> Limits {
    Limits {
        stalled: match written.stalled {
            0 => stalled_default(),
            bytes => bytes,
        },
        ..written.clone()
    }
}

/// A 64th of the machine's memory. TCP is short when it has a sixteenth (tcp_init_mem()).
fn stalled_default() -> u64 {
    crate::net::shortage::memory_bytes() / 64
}

/// Host and port of a server.
fn server_address(
    setting: &Setting<String>,
    default_port: Option<u16>,
    problems: &mut Problems,
) -> Setting<ServerAddress> {
    setting.refine("a server's address", problems, |text| {
        values::server_address(text, default_port)
    })
}

/// A path of the file: relative ones are relative to the file's directory.
fn path(directory: &Path, written: &str) -> PathBuf {
    directory.join(written)
}
