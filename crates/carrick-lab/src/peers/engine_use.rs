//! Whether the engine that a series asks for has done the work: carrick itself says how many bytes each engine moved.
//!
//! An engine that cannot carry some kind of traffic yet leaves it to another one. What is measured then is not its work,
//! and is not drawn as if it were.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::testbed::namespace::Namespace;

/// Where the carrick that is measured has its admin interface (`peers/carrick*.toml`).
const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 3129);
/// Bytes that each engine has moved.
const MOVED: &str = "carrick_splice_bytes_total";
/// For one question.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Connections that end with the load are counted when they have ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// The engine must have moved this share of the bodies at least: most of them.
const SHARE_MIN: f64 = 0.5;

/// Whether the engine has to be asked for: `copy` and `pipe` carry everything, and `auto` is content with either.
#[must_use]
pub fn must_be_shown(engine: &str) -> bool {
    !matches!(engine, "auto" | "copy" | "pipe")
}

/// Whether `engine` has moved most of `body_bytes`, as the carrick in this namespace tells. Waits a little for it.
///
/// # Errors
/// When carrick cannot be asked.
pub fn has_done_the_work(namespace: &Namespace, engine: &str, body_bytes: u64) -> Result<bool> {
    let wanted = body_bytes as f64 * SHARE_MIN;
    let is_enough = |metrics: &str| moved_bytes(metrics, engine).unwrap_or(0.0) >= wanted;
    Ok(is_enough(&metrics_once(namespace, is_enough)?))
}

/// Which share `engine` has of all bytes that the carrick in this namespace has moved, from 0 to 1. Waits a little until at
/// least `bytes` are accounted for.
///
/// # Errors
/// When carrick cannot be asked.
pub fn share(namespace: &Namespace, engine: &str, bytes: u64) -> Result<f64> {
    let metrics = metrics_once(namespace, |metrics| {
        all_moved_bytes(metrics) >= bytes as f64
    })?;
    let all = all_moved_bytes(&metrics);
    let own = moved_bytes(&metrics, engine).unwrap_or(0.0);
    Ok(if all > 0.0 { own / all } else { 0.0 })
}

/// The metrics as soon as they are as wanted, or when there is no more patience.
///
/// # Errors
/// When carrick cannot be asked.
pub fn metrics_once(namespace: &Namespace, is_wanted: impl Fn(&str) -> bool) -> Result<String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let metrics = namespace.inside(ask)?;
        if is_wanted(&metrics) || Instant::now() >= until {
            return Ok(metrics);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The metrics of the carrick in the calling thread's namespace.
///
/// # Errors
/// When it does not answer.
pub(crate) fn ask() -> Result<String> {
    let about = || format!("carrick's admin interface at {ADMIN}");
    let mut stream = TcpStream::connect_timeout(&ADMIN, TIMEOUT).with_context(about)?;
    stream.set_read_timeout(Some(TIMEOUT)).with_context(about)?;
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .with_context(about)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).with_context(about)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The sum of a metric over all series whose labels contain `label`; `None` if there is none.
#[must_use]
pub fn sum(metrics: &str, name: &str, label: &str) -> Option<f64> {
    let values = metrics.lines().filter_map(|line| {
        let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
        let is_whole_name = labels.is_empty() || labels.starts_with('{');
        (is_whole_name && labels.contains(label)).then(|| value.parse::<f64>().ok())?
    });
    values.reduce(|sum, value| sum + value)
}

/// Bytes that an engine has moved.
fn moved_bytes(metrics: &str, engine: &str) -> Option<f64> {
    sum(metrics, MOVED, &format!("engine=\"{engine}\""))
}

/// Bytes that all engines have moved.
fn all_moved_bytes(metrics: &str) -> f64 {
    sum(metrics, MOVED, "").unwrap_or(0.0)
}

#[cfg(test)]
mod tests;
