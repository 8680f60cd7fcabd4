//! From the file as written to the plan: whatever does not go together is reported, all of it at once.
mod account;
mod addresses;
mod cache;
mod cache_peers;
mod legs;
mod link;
mod listener;
mod machine;
mod named;
mod pace;
mod requests;
mod route;
mod senders;
mod shared;
mod split;
mod transparent;
mod upstream;

use super::file::File;
use super::keys;
use super::plan::{Limits, LogFormat, LogPlan, LogTarget, PacketUse, Plan, Sandbox, Timeouts};
use super::problem::Problems;
use super::setting::Setting;
use super::values;
use carrick_logic::http1::HeadLimits;
use carrick_splice::Choice;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where admin listens when the file does not say.
pub const ADMIN_DEFAULT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 3129);

/// Makes the plan; relative paths in the file are relative to `directory`. `None` if there is an error among the problems.
pub fn check(file: &File, directory: &Path, problems: &mut Problems) -> Option<Plan> {
    let admin = admin(file, problems);
    let account = account::check(file, problems);
    machine::check(file, &machine::Machine::here(), problems);
    let pins = pins(file, problems);
    let packet = packet(&file.packet);
    let log = log(file, directory, problems);
    let upstreams = upstream::check_all(file, problems);
    let known = upstream::Known::new(&file.upstreams);
    let engine = engine(&file.engine).unwrap_or_default();
    let (caching, cache) = cache::check(file, directory, problems);
    let (classes, pace) = pace::check(&file.pace, problems);
    let legs = legs::check(&file.legs, problems);
    let (known_links, links) = link::check(&file.links, &legs, problems);
    if !file.has_listeners {
        problems
            .error(0..0, "there is nothing to listen on", "")
            .help("add a [[listener]] with `listen` and `mode`; or start carrick without a file for a forward proxy on 127.0.0.1:3128");
    }
    let listeners: Vec<_> = file
        .listeners
        .iter()
        .map(|written| {
            let given = listener::Given {
                engine,
                directory,
                known: &known,
                upstreams: &upstreams,
                caching: &caching,
                classes: &classes,
                legs: &legs,
                links: &known_links,
                idle: file.timeouts.tunnel_idle.max(file.timeouts.idle),
            };
            listener::check(written, &given, problems)
        })
        .collect();
    addresses::check_conflicts(file, admin.as_ref(), problems);
    addresses::check_loops(file, &listeners, &upstreams, problems);
    transparent::check_conflicts(file, &listeners, problems);
    known.report_unused(problems);
    classes.report_unused(problems);
    known_links.report_unused(problems);
    legs.report_unused(problems);
    if problems.count_errors() > 0 {
        return None;
    }
    let plan = Plan {
        admin: admin.map(|(address, _)| address),
        workers: workers(file.workers),
        account,
        pins,
        packet,
        sandbox: sandbox(&file.sandbox),
        limits: limits(file),
        timeouts: timeouts(file),
        log,
        cache,
        pace,
        legs: legs.plans,
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

/// The engine that a word names.
fn engine(word: &Setting<&'static str>) -> Option<Choice> {
    // Other words were refused when the file was read.
    word.given()?.get_ref().parse().ok()
}

fn admin(
    file: &File,
    problems: &mut Problems,
) -> Option<(SocketAddr, Option<std::ops::Range<usize>>)> {
    match &file.admin_listen {
        Setting::Absent => Some((ADMIN_DEFAULT, None)),
        Setting::Given(text) if text.get_ref().is_empty() => None,
        written => {
            let address = written.refine("an address to listen on", problems, |text| {
                values::listen_address(text)
            });
            let address = address.given()?;
            if !address.get_ref().ip().to_canonical().is_loopback() {
                problems
                    .note(address.span(), "admin has no authentication and is reachable from other machines", "")
                    .help("everybody who can reach it reads names of upstreams and counts; a firewall should know");
            }
            Some((*address.get_ref(), Some(address.span())))
        }
    }
}

/// Whether it can be used there is seen at the start; without it carrick works as well.
fn pins(file: &File, problems: &mut Problems) -> Option<PathBuf> {
    match &file.pins {
        Setting::Absent => Some(keys::PINS_DEFAULT.into()),
        Setting::Given(text) if text.get_ref().is_empty() => None,
        written => {
            let text = written.given()?;
            if !text.get_ref().starts_with('/') {
                problems
                    .error(text.span(), "this is no absolute path", "")
                    .help(format!(
                        "such as \"{}\", a folder on a BPF file system; or \"\" for none",
                        keys::PINS_DEFAULT
                    ));
            }
            Some(text.get_ref().into())
        }
    }
}

/// When the engine `packet` is loaded.
fn packet(word: &Setting<&'static str>) -> PacketUse {
    match word.given().map(|word| *word.get_ref()) {
        Some("auto") => PacketUse::Auto,
        Some("off") => PacketUse::Off,
        // Other words were refused when the file was read.
        _ => PacketUse::Named,
    }
}

fn sandbox(word: &Setting<&'static str>) -> Sandbox {
    match word.given().map(|word| *word.get_ref()) {
        Some("off") => Sandbox::Off,
        Some("required") => Sandbox::Required,
        _ => Sandbox::Auto,
    }
}

/// Whoever names an engine that is never loaded may not have meant it.
fn check_packet(file: &File, plan: &Plan, problems: &mut Problems) {
    if let Some(word) = file.packet.given()
        && plan.packet == PacketUse::Off
        && plan.wants_packet_engine()
    {
        problems
            .warning(
                word.span(),
                "the engine \"packet\" is named below, and is not loaded",
                "",
            )
            .help("what names it goes as with \"auto\"; \"named\" loads it");
    }
}

fn log(file: &File, directory: &Path, problems: &mut Problems) -> LogPlan {
    let access = match file
        .log_access
        .given()
        .map(|text| (text, text.get_ref().as_str()))
    {
        None | Some((_, "stdout")) => LogTarget::Stdout,
        Some((_, "stderr")) => LogTarget::Stderr,
        Some((_, "")) => LogTarget::Off,
        Some((text, word)) if is_word_for_none(word) => {
            problems
                .error(
                    text.span(),
                    format!("this would be a file that is called {word}"),
                    "",
                )
                .help(format!(
                    "`access = \"\"` turns the access log off; such a file is \"./{word}\""
                ));
            LogTarget::Off
        }
        Some((text, path)) => {
            let path = directory.join(path);
            if path.is_dir() {
                problems
                    .error(text.span(), "this is a directory", "")
                    .help("name a file in it");
            } else if let Some(parent) = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir())
            {
                problems
                    .error(
                        text.span(),
                        format!("the directory {} does not exist", parent.display()),
                        "",
                    )
                    .help("create it; or say \"stdout\", \"stderr\", or \"\" for no log");
            }
            LogTarget::File(path)
        }
    };
    let format = match file.log_format.given().map(|word| *word.get_ref()) {
        Some("json") => LogFormat::Json,
        _ => LogFormat::Combined,
    };
    LogPlan { access, format }
}

/// Whether somebody who writes this to say where a log goes means that there is none.
fn is_word_for_none(word: &str) -> bool {
    ["off", "none", "no", "false", "disabled", "null", "never"]
        .iter()
        .any(|none| word.eq_ignore_ascii_case(none))
}

/// A number that its declared limits keep within the type.
fn narrow<T: TryFrom<u64>>(number: u64, max: T) -> T {
    T::try_from(number).unwrap_or(max)
}

fn limits(file: &File) -> Limits {
    let written = &file.limits;
    Limits {
        connections: narrow(written.connections, usize::MAX),
        connections_per_client: narrow(written.connections_per_client, usize::MAX),
        head: HeadLimits {
            head_bytes_max: narrow(written.request_head, usize::MAX),
            fields_max: narrow(written.headers, usize::MAX),
        },
        rate_min: written.rate_min,
        attempts: narrow(written.attempts, u32::MAX),
        log_queue: narrow(written.log_queue, usize::MAX),
        dns_cache: narrow(written.dns_cache, usize::MAX),
        pipes: narrow(written.pipes, usize::MAX),
        splices: narrow(written.splices, u32::MAX),
        unsent: narrow(written.unsent, u32::MAX),
        unread: narrow(written.unread, u32::MAX),
        stalled: match written.stalled {
            0 => stalled_default(),
            bytes => bytes,
        },
    }
}

/// A 64th of the machine's memory. TCP is short when it has a sixteenth (tcp_init_mem()).
pub(super) fn stalled_default() -> u64 {
    crate::net::shortage::memory_bytes() / 64
}

fn timeouts(file: &File) -> Timeouts {
    let written = &file.timeouts;
    Timeouts {
        head: written.head,
        idle: written.idle,
        connect: written.connect,
        tunnel_idle: written.tunnel_idle,
        drain: written.drain,
    }
}

/// A path of the file: relative ones are relative to the file's directory.
fn path(directory: &Path, written: &str) -> PathBuf {
    directory.join(written)
}
