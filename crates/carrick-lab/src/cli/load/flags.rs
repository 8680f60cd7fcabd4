//! The flags of `carrick-lab load`, and the plan that they stand for.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::load::plan::{Arrival, Class, Kind, LoadPlan, Route};
use crate::origin::quota::RequestsPerConnection;

/// `carrick-lab load`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --plan: carrick-lab load http://127.0.0.1:8080/b/1024 --clients 16 --seconds 5"
)]
pub struct Load {
    /// What to ask for: http://ADDRESS:PORT/b/BYTES asks the origin emulator for bodies of this length; any other path is
    /// asked for as it is
    #[arg(required_unless_present = "plan", conflicts_with = "plan")]
    url: Option<String>,
    /// A plan, in TOML or JSON by its extension; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Threads; each has its share of the clients
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: u16,
    /// Measure so many times; the report has means with confidence intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) samples: u16,
    /// Of the intervals, in percent: 90 or 95
    #[arg(long, default_value_t = 95, value_parser = confidence)]
    pub(super) confidence: u8,
    /// Say on standard error when the warm-up begins
    #[arg(long, hide = true)]
    pub(super) announce: bool,
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    when: When,
}

/// What is asked for.
#[derive(Debug, Args)]
#[command(next_help_heading = "What is asked for")]
struct What {
    /// Through this forward proxy
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "plan")]
    proxy: Option<String>,
    /// The Host field [default: as in the URL]
    #[arg(long, conflicts_with_all = ["plan", "proxy"])]
    host: Option<String>,
    /// Ask for this path, as it is: for servers other than the emulator
    #[arg(long, conflicts_with = "plan")]
    path: Option<String>,
    /// Do not compare bodies
    #[arg(long, conflicts_with = "plan")]
    no_verify: bool,
    /// Length of the body, for a path that does not say it and is compared
    #[arg(long, conflicts_with = "plan")]
    body_bytes: Option<u64>,
    /// Cacheable objects, so many; all are asked for once beforehand
    #[arg(long, value_name = "OBJECTS", conflicts_with_all = ["plan", "tls"])]
    cacheable: Option<u64>,
    /// CONNECT (with --proxy) and the messages of a TLS handshake before each request; this share of them abbreviated
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "0.6", require_equals = true, conflicts_with = "plan")]
    tls: Option<f64>,
    /// Share of requests whose client goes away in the middle of the body
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.0,
        conflicts_with = "plan"
    )]
    abort_share: f64,
    /// HTTP/1.0, a connection for each request
    #[arg(long, conflicts_with = "plan")]
    http_1_0: bool,
    /// A further field of the request, as "Name: value"; may be given several times
    #[arg(long, value_name = "FIELD", conflicts_with = "plan")]
    field: Vec<String>,
}

/// When, and for how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "When")]
struct When {
    /// Clients at a time (with --rate: at most) [default: 16; with --rate: 1000]
    #[arg(long, conflicts_with = "plan")]
    clients: Option<usize>,
    /// Seconds measured
    #[arg(long, default_value_t = 5.0, conflicts_with = "plan")]
    seconds: f64,
    /// Seconds of load before
    #[arg(long, default_value_t = 0.5, conflicts_with = "plan")]
    warm_up: f64,
    /// A connection for each request
    #[arg(long, conflicts_with_all = ["plan", "requests_per_connection"])]
    connections_close: bool,
    /// Requests that a connection carries [default: no limit]
    #[arg(long, value_name = "COUNT", conflicts_with = "plan")]
    requests_per_connection: Option<u32>,
    /// Pause of each client between a response and the next request, in milliseconds
    #[arg(long, default_value_t = 0.0, conflicts_with_all = ["plan", "rate", "batch", "page_objects"])]
    think_ms: f64,
    /// Open loop: requests per second, whether or not the earlier ones are answered
    #[arg(long, conflicts_with_all = ["plan", "batch", "page_objects"])]
    rate: Option<f64>,
    /// Batches: each client makes so many requests at once
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["plan", "page_objects"])]
    batch: Option<usize>,
    /// Longest time of a batch, in milliseconds
    #[arg(long, default_value_t = 10_000.0, requires = "batch")]
    batch_timeout_ms: f64,
    /// Pages: a base and so many embedded objects, which share the length
    #[arg(long, value_name = "COUNT", conflicts_with = "plan")]
    page_objects: Option<usize>,
    /// Embedded objects asked for at a time
    #[arg(long, default_value_t = 1, requires = "page_objects")]
    page_parallel: usize,
    /// Connections of a page carry several requests
    #[arg(long, requires = "page_objects")]
    page_persistent: bool,
    /// A request that takes longer has failed, in seconds
    #[arg(long, default_value_t = 30.0, conflicts_with = "plan")]
    timeout: f64,
    /// For all random choices
    #[arg(long, default_value_t = 0, conflicts_with = "plan")]
    seed: u64,
    /// Local ports to use, FIRST-LAST
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports, conflicts_with = "plan")]
    local_ports: Option<[u16; 2]>,
}

/// The plan of the flags.
pub(super) fn plan(load: &Load) -> Result<LoadPlan> {
    let (what, when) = (&load.what, &load.when);
    let url = load.url.as_deref().unwrap_or_default();
    let (authority, path) = split(url)?;
    let route = match &what.proxy {
        Some(proxy) => Route::Forward {
            proxy: resolve(proxy).context("--proxy")?,
            origin: authority.to_owned(),
        },
        None => Route::Direct {
            address: resolve(&with_port(authority))?,
            host: Some(what.host.clone().unwrap_or_else(|| authority.to_owned())),
        },
    };
    Ok(LoadPlan {
        route,
        arrival: arrival(when),
        classes: vec![class(what, path)?],
        requests_per_connection: match when.requests_per_connection {
            _ if when.connections_close => RequestsPerConnection::Fixed(1),
            Some(count) => RequestsPerConnection::Fixed(count),
            None => RequestsPerConnection::Unlimited,
        },
        warm_up_seconds: when.warm_up,
        measured_seconds: when.seconds,
        shutdown_seconds: 0.0,
        seed: when.seed,
        verify: !what.no_verify,
        timeout_seconds: when.timeout,
        local_ports: when.local_ports,
    })
}

fn arrival(when: &When) -> Arrival {
    let clients = when.clients.unwrap_or(16);
    if let Some(rate) = when.rate {
        return Arrival::Open {
            rate,
            clients_max: when.clients.unwrap_or(1000),
        };
    }
    if let Some(batch) = when.batch {
        return Arrival::Batches {
            clients,
            batch,
            timeout_ms: when.batch_timeout_ms,
        };
    }
    match when.page_objects {
        Some(embedded) => Arrival::Pages {
            clients,
            embedded,
            parallel: when.page_parallel,
            persistent: when.page_persistent,
        },
        None => Arrival::Closed {
            clients,
            think_ms: when.think_ms,
        },
    }
}

fn class(what: &What, path: &str) -> Result<Class> {
    let by_rule = if what.path.is_none() {
        rule(path)
    } else {
        None
    };
    let (body_bytes, extension, literal) = match by_rule {
        Some((bytes, extension)) => (bytes, extension, None),
        None => {
            let path = what.path.as_deref().unwrap_or(path);
            let bytes = what.body_bytes.or_else(|| length(path));
            ensure!(
                bytes.is_some() || what.no_verify,
                "what {path} has to be is not known: ask for /b/BYTES, or say --body-bytes (its bytes are then compared \
                 with those of `seed=` in the query, or of the origin's rule for paths), or --no-verify"
            );
            (bytes.unwrap_or(0), String::new(), Some(path.to_owned()))
        }
    };
    let kind = match (what.cacheable, what.tls) {
        (Some(objects), _) => Kind::Cacheable { objects },
        (_, Some(abbreviated_share)) => Kind::Tls { abbreviated_share },
        _ => Kind::NonCacheable,
    };
    Ok(Class {
        name: String::from(match kind {
            Kind::Cacheable { .. } => "cacheable",
            Kind::Tls { .. } => "tls",
            Kind::NonCacheable => "get",
        }),
        weight: 1.0,
        kind,
        body_bytes,
        path: literal,
        extension,
        http_1_0: what.http_1_0,
        abort_share: what.abort_share,
        fields: what.field.clone(),
    })
}

/// The length and the extension of a path of the emulator's, `/b/BYTES[.EXTENSION]`, without a query.
fn rule(path: &str) -> Option<(u64, String)> {
    let rest = path.strip_prefix("/b/")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (bytes, extension) = rest.split_at(digits);
    let is_plain =
        extension.is_empty() || (extension.starts_with('.') && !extension.contains(['/', '?']));
    let bytes = bytes.parse().ok()?;
    is_plain.then(|| (bytes, extension.to_owned()))
}

/// The length in a path of the emulator's, whatever follows it.
fn length(path: &str) -> Option<u64> {
    let rest = path.strip_prefix("/b/")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

/// The authority and the path of a URL.
fn split(url: &str) -> Result<(&str, &str)> {
    let Some(rest) = url.strip_prefix("http://") else {
        bail!("`{url}` is not a URL that load can be made for: http://ADDRESS:PORT/b/BYTES");
    };
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    ensure!(
        !authority.is_empty(),
        "`{url}` names no address: http://ADDRESS:PORT/b/BYTES"
    );
    Ok((authority, if path.is_empty() { "/" } else { path }))
}

fn with_port(authority: &str) -> String {
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    }) && !(authority.starts_with('[') && authority.ends_with(']'));
    if has_port {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    }
}

fn resolve(address: &str) -> Result<SocketAddr> {
    address
        .to_socket_addrs()
        .with_context(|| format!("cannot find the address of `{address}` (ADDRESS:PORT is right)"))?
        .next()
        .with_context(|| format!("`{address}` has no address"))
}

fn ports(text: &str) -> Result<[u16; 2], String> {
    let port = |text: &str| text.parse::<u16>().ok();
    text.split_once('-')
        .and_then(|(first, last)| Some([port(first)?, port(last)?]))
        .filter(|[first, last]| first <= last && *first > 0)
        .ok_or_else(|| String::from("two ports with a dash between, such as 10000-20000"))
}

fn confidence(text: &str) -> Result<u8, String> {
    match text {
        "90" => Ok(90),
        "95" => Ok(95),
        _ => Err(String::from("90 or 95")),
    }
}

#[cfg(test)]
mod tests;
