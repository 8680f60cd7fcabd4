//! What a plan must keep to, and how plans are read: each mistake with what, where, and what would be right.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Resource, getrlimit};

use crate::load::drain::HELD_MAX;
use crate::load::plan::{Arrival, Class, Kind, LoadPlan, Route};
use crate::origin::quota::RequestsPerConnection;

/// Connections at a time; more would need more descriptors than any process gets.
const SLOTS_MAX: usize = 1_000_000;
/// Requests of a connection by Zipf's law: the table of the law has so many rows.
const ZIPF_MAX: u32 = 1_000_000;
/// Objects of a cacheable class: each is asked for beforehand.
const OBJECTS_MAX: u64 = 1_000_000;
/// Files that a process has open beside the connections.
const OTHER_DESCRIPTORS: u64 = 32;
/// Longest interval and time-out, in seconds: a month.
const SECONDS_MAX: f64 = 31.0 * 86_400.0;

/// Reads a plan: TOML or JSON by the file's extension; `-` is standard input, JSON if it begins with a brace.
///
/// # Errors
/// When the file cannot be read, is not a plan, or asks for what cannot be.
pub fn read(file: &Path) -> Result<LoadPlan> {
    let is_standard_input = file == Path::new("-");
    let text = if is_standard_input {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read the plan from standard input")?;
        text
    } else {
        std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the plan {}", file.display()))?
    };
    let is_json = match file.extension().and_then(|extension| extension.to_str()) {
        _ if is_standard_input => text.trim_start().starts_with('{'),
        Some("json") => true,
        Some("toml") => false,
        _ => bail!(
            "{}: cannot tell what this is: a plan's name ends in .toml or .json",
            file.display()
        ),
    };
    let plan: LoadPlan = if is_json {
        serde_json::from_str(&text).map_err(anyhow::Error::from)
    } else {
        toml::from_str(&text).map_err(anyhow::Error::from)
    }
    .with_context(|| format!("the plan {} is not right", file.display()))?;
    check(&plan).with_context(|| format!("the plan {} cannot be run", file.display()))?;
    Ok(plan)
}

/// Whether a plan can be run.
///
/// # Errors
/// With the first mistake.
pub fn check(plan: &LoadPlan) -> Result<()> {
    match &plan.route {
        Route::Direct { host, .. } => {
            if let Some(host) = host {
                check_token("route.direct.host", host)?;
            }
        }
        Route::Forward { origin, .. } => check_token("route.forward.origin", origin)?,
    }
    check_arrival(&plan.arrival)?;
    ensure!(
        !plan.classes.is_empty(),
        "`class`: there is none; a plan has one [[class]] at least"
    );
    for class in &plan.classes {
        check_class(class, plan).with_context(|| format!("class `{}`", class.name))?;
    }
    ensure!(
        plan.classes.iter().any(|class| class.weight > 0.0),
        "`class`: all weights are 0; one at least has to be above"
    );
    match plan.requests_per_connection {
        RequestsPerConnection::Unlimited => {}
        RequestsPerConnection::Fixed(count) => ensure!(
            count > 0,
            "`requests_per_connection.fixed` is 0: a connection carries one request at least"
        ),
        RequestsPerConnection::Zipf { alpha, max } => {
            within("requests_per_connection.zipf.alpha", alpha, 0.0, 100.0)?;
            ensure!(
                (1..=ZIPF_MAX).contains(&max),
                "`requests_per_connection.zipf.max` is {max}: it has to be from 1 to {ZIPF_MAX}"
            );
        }
    }
    within("warm_up_seconds", plan.warm_up_seconds, 0.0, SECONDS_MAX)?;
    above_zero("measured_seconds", plan.measured_seconds, SECONDS_MAX)?;
    within("shutdown_seconds", plan.shutdown_seconds, 0.0, SECONDS_MAX)?;
    above_zero("timeout_seconds", plan.timeout_seconds, SECONDS_MAX)?;
    if let Some([first, last]) = plan.local_ports {
        ensure!(
            first > 0 && first <= last,
            "`local_ports` is [{first}, {last}]: the first port has to be above 0, and not above the last"
        );
    }
    check_descriptors(plan)
}

/// Connections that a plan has at a time.
#[must_use]
pub fn slots(arrival: &Arrival) -> usize {
    match *arrival {
        Arrival::Closed { clients, .. } => clients,
        Arrival::Open { clients_max, .. } => clients_max,
        Arrival::Batches { clients, batch, .. } => clients.saturating_mul(batch),
        Arrival::Pages {
            clients, parallel, ..
        } => clients.saturating_mul(parallel),
    }
}

fn check_arrival(arrival: &Arrival) -> Result<()> {
    let counts = match *arrival {
        Arrival::Closed { clients, think_ms } => {
            within("arrival.closed.think_ms", think_ms, 0.0, SECONDS_MAX * 1e3)?;
            vec![("arrival.closed.clients", clients)]
        }
        Arrival::Open { rate, clients_max } => {
            above_zero("arrival.open.rate", rate, 1e8)?;
            vec![("arrival.open.clients_max", clients_max)]
        }
        Arrival::Batches {
            clients,
            batch,
            timeout_ms,
        } => {
            above_zero("arrival.batches.timeout_ms", timeout_ms, SECONDS_MAX * 1e3)?;
            vec![
                ("arrival.batches.clients", clients),
                ("arrival.batches.batch", batch),
            ]
        }
        Arrival::Pages {
            clients,
            parallel,
            embedded,
            ..
        } => {
            ensure!(
                embedded <= SLOTS_MAX,
                "`arrival.pages.embedded` is {embedded}: at most {SLOTS_MAX}"
            );
            vec![
                ("arrival.pages.clients", clients),
                ("arrival.pages.parallel", parallel),
            ]
        }
    };
    for (key, count) in counts {
        ensure!(count > 0, "`{key}` is 0: it has to be 1 at least");
    }
    Ok(())
}

fn check_class(class: &Class, plan: &LoadPlan) -> Result<()> {
    within("weight", class.weight, 0.0, 1e12)?;
    within("abort_share", class.abort_share, 0.0, 1.0)?;
    match class.kind {
        Kind::NonCacheable => {}
        Kind::Cacheable { objects } => ensure!(
            (1..=OBJECTS_MAX).contains(&objects),
            "`kind.cacheable.objects` is {objects}: it has to be from 1 to {OBJECTS_MAX}"
        ),
        Kind::Tls { abbreviated_share } => {
            within("kind.tls.abbreviated_share", abbreviated_share, 0.0, 1.0)?;
            ensure!(
                !class.http_1_0,
                "`http_1_0` does not go with `kind.tls`: the request behind the handshake is HTTP/1.1"
            );
        }
    }
    if !class.extension.is_empty() {
        check_token("extension", &class.extension)?;
        ensure!(
            class.extension.starts_with('.') && !class.extension.contains(['/', '?', '#']),
            "`extension` is `{}`: it has to begin with a point, such as `.gif`, and have no /, ? or #",
            class.extension
        );
    }
    if let Some(path) = &class.path {
        check_token("path", path)?;
        ensure!(
            path.starts_with('/'),
            "`path` is `{path}`: it has to begin with /"
        );
        ensure!(
            class.extension.is_empty(),
            "`extension` does not go with `path`: write it into the path"
        );
        ensure!(
            !matches!(plan.arrival, Arrival::Pages { .. }),
            "`path` does not go with `arrival.pages`, whose objects have paths of their own"
        );
    }
    for field in &class.fields {
        let is_right = field.split_once(':').is_some_and(|(name, _)| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && byte != b':')
        }) && !field.bytes().any(|byte| byte.is_ascii_control());
        ensure!(
            is_right,
            "`fields` has `{}`: each has to be `Name: value`, in one line",
            field.escape_debug()
        );
    }
    Ok(())
}

fn check_descriptors(plan: &LoadPlan) -> Result<()> {
    let slots = slots(&plan.arrival);
    ensure!(
        slots <= SLOTS_MAX,
        "`arrival` asks for {slots} connections at a time: at most {SLOTS_MAX}"
    );
    let needed = (slots + HELD_MAX) as u64 + OTHER_DESCRIPTORS;
    if let Some(limit) = getrlimit(Resource::Nofile).current
        && needed > limit
    {
        bail!(
            "`arrival` asks for {slots} connections at a time, which need {needed} file descriptors, and this process \
             may have {limit}: ask for fewer, or raise the limit (ulimit -n)"
        );
    }
    Ok(())
}

fn check_token(key: &str, text: &str) -> Result<()> {
    ensure!(
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()),
        "`{key}` is `{}`: it has to be ASCII without blanks, and not empty",
        text.escape_debug()
    );
    Ok(())
}

fn within(key: &str, value: f64, min: f64, max: f64) -> Result<()> {
    ensure!(
        value >= min && value <= max,
        "`{key}` is {value}: it has to be from {min} to {max}"
    );
    Ok(())
}

fn above_zero(key: &str, value: f64, max: f64) -> Result<()> {
    ensure!(
        value > 0.0 && value <= max,
        "`{key}` is {value}: it has to be above 0, and {max} at most"
    );
    Ok(())
}

#[cfg(test)]
mod tests;
