//! This machine's limits and settings that matter to a proxy, and what they mean for it.
use crate::privileges::{ENGINE, Identity, may_load_engine, names};
use rustix::process::{Resource, getrlimit};
use rustix::thread::CapabilitySet;
use std::path::Path;

/// A limit or setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Its name.
    pub name: &'static str,
    /// Its value here.
    pub value: String,
    /// What that means, or advice; may be empty.
    pub meaning: String,
}

/// Descriptors of a relayed connection: client and server.
const DESCRIPTORS_PER_RELAY: u64 = 2;
/// A pipe of this size holds as much as a large socket buffer.
const PIPE_BYTES_WANTED: u64 = 1 << 20;
/// Maximum accept queue; connections that arrive while a worker is busy wait there.
const BACKLOG_WANTED: u64 = 4096;
/// Ports for connections to one server address: fewer run out under load.
const PORTS_WANTED: u64 = 20_000;

/// Capabilities that stay if the configuration needs them.
const KEPT: [(CapabilitySet, &str); 2] = [
    (
        CapabilitySet::NET_BIND_SERVICE,
        ", but CAP_NET_BIND_SERVICE is kept if a port in the configuration needs it, or connections to servers use clients' ports",
    ),
    (
        CapabilitySet::NET_RAW,
        ", but CAP_NET_RAW is kept if a listener has `keep_client_address`, or intercepts `local` programs",
    ),
];

/// More capabilities are counted instead of named.
const CAPABILITIES_SHOWN_MAX: usize = 4;

/// Kernel and cores in words.
pub fn kernel() -> String {
    let name = rustix::system::uname();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores = if cores == 1 {
        "1 core".to_owned()
    } else {
        format!("{cores} cores")
    };
    format!(
        "{} {}, {}, {cores}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy(),
        name.machine().to_string_lossy()
    )
}

/// Reads all facts; `sysctl` is `/proc/sys`.
pub fn facts(sysctl: &Path) -> Vec<Fact> {
    let read = |key: &'static str| Setting {
        key,
        text: std::fs::read_to_string(sysctl.join(key.replace('.', "/"))).ok(),
    };
    let mut facts = vec![
        user(),
        capabilities(rustix::thread::capabilities(None).ok()),
    ];
    facts.extend([
        open_files(),
        number(&read("fs.pipe-max-size"), |bytes| {
            (bytes < PIPE_BYTES_WANTED)
                .then_some("small: the `pipe` engine moves less at a time; 1048576 is usual")
        }),
        number(&read("fs.pipe-user-pages-soft"), |_| {
            Some(
                "pages that the pipes of an unprivileged user may have; beyond, new pipes have two pages",
            )
        }),
        number(&read("net.core.somaxconn"), |length| {
            (length < BACKLOG_WANTED).then_some("short: in a burst, new connections are dropped, and clients try again after a second")
        }),
        ports(&read("net.ipv4.ip_local_port_range")),
        words(
            &read("net.ipv4.tcp_congestion_control"),
            "of connections whose route does not say",
        ),
        words(
            &read("net.ipv4.tcp_rmem"),
            "receive buffers: least, default, most",
        ),
        words(
            &read("net.ipv4.tcp_wmem"),
            "send buffers: least, default, most",
        ),
        number(&read("net.ipv4.ip_forward"), forwarding),
        number(&read("net.ipv6.conf.all.forwarding"), forwarding),
        number(&read("net.ipv4.ip_unprivileged_port_start"), |_| {
            Some("lower ports need CAP_NET_BIND_SERVICE")
        }),
    ]);
    facts
}

fn user() -> Fact {
    let name = Identity::read().map_or_else(|_| "unknown".to_owned(), |identity| identity.user);
    let meaning = if rustix::process::geteuid().is_root() {
        "`carrick run` becomes another one if [process] user says so; else it stays root, without capabilities"
    } else {
        ""
    };
    Fact {
        name: "user",
        value: name,
        meaning: meaning.to_owned(),
    }
}

/// The capabilities of this process; `carrick run` has the same if started in the same way.
pub fn capabilities(sets: Option<rustix::thread::CapabilitySets>) -> Fact {
    let name = "capabilities";
    let Some(has) = sets.map(|sets| sets.permitted) else {
        return unknown(name);
    };
    let value = match names(has) {
        few if few.is_empty() => "none".to_owned(),
        few if few.len() <= CAPABILITIES_SHOWN_MAX => few.join(" "),
        many => many.len().to_string(),
    };
    let engine = if may_load_engine(has) {
        "enough for the engines `socket` and `packet`".to_owned()
    } else {
        let wanted = names(ENGINE).join(", ");
        format!("too few for the engines `socket` and `packet`, which need {wanted}")
    };
    let mut meaning = engine;
    if !has.is_empty() {
        meaning += "; dropped by `carrick run` once it listens";
    }
    for (one, reason) in KEPT {
        if has.contains(one) {
            meaning += reason;
        }
    }
    Fact {
        name,
        value,
        meaning,
    }
}

struct Setting {
    key: &'static str,
    text: Option<String>,
}

fn open_files() -> Fact {
    let limit = getrlimit(Resource::Nofile);
    let show = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let meaning = match limit.maximum {
        Some(most) => format!(
            "enough for about {} relayed connections; raise it with LimitNOFILE= or ulimit -n",
            most / DESCRIPTORS_PER_RELAY
        ),
        None => String::new(),
    };
    Fact {
        name: "open files",
        value: format!(
            "{} (can be raised to {})",
            show(limit.current),
            show(limit.maximum)
        ),
        meaning,
    }
}

fn forwarding(on: u64) -> Option<&'static str> {
    (on == 0).then_some(
        "not a router: packets that a transparent listener does not intercept are dropped",
    )
}

fn number(setting: &Setting, assess: impl FnOnce(u64) -> Option<&'static str>) -> Fact {
    let Some(number) = setting
        .text
        .as_deref()
        .and_then(|text| text.trim().parse::<u64>().ok())
    else {
        return unknown(setting.key);
    };
    Fact {
        name: setting.key,
        value: number.to_string(),
        meaning: assess(number).unwrap_or_default().to_owned(),
    }
}

fn words(setting: &Setting, meaning: &'static str) -> Fact {
    match &setting.text {
        Some(text) => Fact {
            name: setting.key,
            value: text.split_whitespace().collect::<Vec<_>>().join(" "),
            meaning: meaning.to_owned(),
        },
        None => unknown(setting.key),
    }
}

fn ports(setting: &Setting) -> Fact {
    let text = setting.text.as_deref().unwrap_or_default();
    let bounds: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [first, last] = bounds[..] else {
        return unknown(setting.key);
    };
    let count = (last + 1).saturating_sub(first);
    let verdict = if count < PORTS_WANTED { "few: " } else { "" };
    Fact {
        name: setting.key,
        value: format!("{first} {last}"),
        meaning: format!("{verdict}{count} connections at a time to one server address"),
    }
}

fn unknown(name: &'static str) -> Fact {
    Fact {
        name,
        value: "unknown".to_owned(),
        meaning: "cannot be read".to_owned(),
    }
}
