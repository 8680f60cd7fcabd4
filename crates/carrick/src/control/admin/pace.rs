//! `/pace`: shows pacing and changes classes.
mod change;

use super::{JSON, TEXT, answer};
use crate::config::word::Word;
use crate::control::ControlState;
use crate::engines::NotChanged;
use carrick_splice::{ClassReport, NetworkRate, Policy, WorkerReport};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Response, StatusCode};
use serde::Serialize;
use std::time::Duration;

/// Pacing as a part of `/status`.
#[derive(Debug, Serialize)]
pub(super) struct PaceStatus {
    interval_ms: u64,
    classes: usize,
    /// Classes that differ from the configuration because admin changed them.
    changed: usize,
    splices: u64,
    bytes: u64,
    waited_ms: u64,
}

impl PaceStatus {
    pub(super) fn of(state: &ControlState) -> Self {
        let classes = state.kernel.pacing.classes();
        let running = state.running.load();
        let written = &running.plan.pace.classes;
        let is_changed = |class: &&ClassReport| !written.contains(&class.settings);
        Self {
            interval_ms: ms(state.kernel.pacing.settings().1),
            classes: classes.len(),
            changed: classes.iter().filter(is_changed).count(),
            splices: classes.iter().map(|class| class.splices).sum(),
            bytes: classes.iter().map(|class| class.bytes).sum(),
            waited_ms: ms(classes.iter().map(|class| class.waited).sum()),
        }
    }
}

#[derive(Debug, Serialize)]
struct Page<'r> {
    interval_ms: u64,
    classes: Vec<Class<'r>>,
    workers: Vec<Worker>,
}

/// A class: its settings, with the rates in bytes per second, and what it has done.
#[derive(Debug, Serialize)]
struct Class<'r> {
    name: &'r str,
    policy: &'static str,
    target_us: Option<u64>,
    rate: Option<u64>,
    ceiling: Option<u64>,
    network: Option<Network>,
    splice: Option<u64>,
    parent: Option<&'r str>,
    priority: u8,
    weight: &'static str,
    hold_max_ms: u64,
    splices: u64,
    networks: u64,
    bytes: u64,
    kernel_bytes: u64,
    yields: u64,
    rate_waits: u64,
    kernel_holds: u64,
    waited_ms: u64,
    overdue: u64,
    credit_bytes: u64,
    unbounded: u64,
}

#[derive(Debug, Serialize)]
struct Network {
    ceiling: u64,
    prefix_v4: u8,
    prefix_v6: u8,
}

impl<'r> Class<'r> {
    fn of(report: &'r ClassReport) -> Self {
        let settings = &report.settings;
        Self {
            name: &settings.name,
            policy: settings.policy.name(),
            target_us: match settings.policy {
                Policy::Deadline { target } => Some(us(target)),
                Policy::Immediate | Policy::Conservative | Policy::Proportional => None,
            },
            rate: settings.rate,
            ceiling: settings.ceiling,
            network: settings.network.map(
                |NetworkRate {
                     ceiling,
                     prefix_v4,
                     prefix_v6,
                 }| Network {
                    ceiling,
                    prefix_v4,
                    prefix_v6,
                },
            ),
            splice: settings.splice,
            parent: settings.parent.as_deref(),
            priority: settings.priority,
            weight: settings.weight.word(),
            hold_max_ms: ms(settings.hold_max),
            splices: report.splices,
            networks: report.networks,
            bytes: report.bytes,
            kernel_bytes: report.kernel_bytes,
            yields: report.yields,
            rate_waits: report.rate_waits,
            kernel_holds: report.kernel_holds,
            waited_ms: ms(report.waited),
            overdue: report.overdue,
            credit_bytes: report.credit,
            unbounded: report.unbounded,
        }
    }
}

#[derive(Debug, Serialize)]
struct Worker {
    worker: usize,
    is_runnable: bool,
    runnable_ms: u64,
    /// Share of the time since carrick started.
    runnable_share: f64,
    forwarding_ms: u64,
    local_requests: u64,
    local_bytes: u64,
    spliced_requests: u64,
    spliced_bytes: u64,
    kernel_bytes: u64,
    hits_p99_us: Option<u64>,
}

impl Worker {
    fn of(worker: usize, report: &WorkerReport, uptime: Duration) -> Self {
        let share = report.runnable.as_secs_f64() / uptime.as_secs_f64().max(f64::MIN_POSITIVE);
        Self {
            worker,
            is_runnable: report.is_runnable,
            runnable_ms: ms(report.runnable),
            runnable_share: (share * 1000.0).round() / 1000.0,
            forwarding_ms: ms(report.forwarding),
            local_requests: report.local_requests,
            local_bytes: report.local_bytes,
            spliced_requests: report.spliced_requests,
            spliced_bytes: report.spliced_bytes,
            kernel_bytes: report.kernel_bytes,
            hits_p99_us: report.hits_p99.map(us),
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// `GET /pace`: all classes and workers.
pub(super) fn json(state: &ControlState) -> serde_json::Result<String> {
    let pacing = &state.kernel.pacing;
    let reports = pacing.classes();
    let uptime = state.started_at.elapsed();
    let page = Page {
        interval_ms: ms(pacing.settings().1),
        classes: reports.iter().map(Class::of).collect(),
        workers: (0..state.workers.len())
            .map(|worker| Worker::of(worker, &pacing.worker(worker), uptime))
            .collect(),
    };
    serde_json::to_string_pretty(&page).map(|json| json + "\n")
}

/// `POST /pace/NAME?key=value&…`: changes a class, wholly or not at all, until the next reload. Answers with the
/// changed class.
pub(super) fn change<B>(
    request: &Request<B>,
    name: &str,
    state: &ControlState,
) -> Response<Full<Bytes>> {
    let query = request.uri().query().unwrap_or_default();
    let wanted: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let changed = state
        .kernel
        .change_class(name, |class| change::change(class, &wanted));
    match changed {
        Ok(()) => {
            let said = wanted.iter().map(|(key, value)| format!("{key}={value:?}"));
            let said = said.collect::<Vec<_>>().join(", ");
            tracing::info!("admin changed the pacing class {name} until the next reload: {said}");
        }
        Err(NotChanged::Because(why)) => {
            let body = format!("The class {name} is unchanged: {why}.\n");
            return answer(StatusCode::BAD_REQUEST, TEXT, body);
        }
        Err(NotChanged::NoSuchClass) => return none(name, state),
    }
    let reports = state.kernel.pacing.classes();
    let report = reports.iter().find(|report| report.settings.name == name);
    match report.map(|report| serde_json::to_string_pretty(&Class::of(report))) {
        Some(Ok(json)) => answer(StatusCode::OK, JSON, json + "\n"),
        Some(Err(error)) => super::failure(&error),
        // A reload has just removed it.
        None => none(name, state),
    }
}

fn none(name: &str, state: &ControlState) -> Response<Full<Bytes>> {
    let (classes, _) = state.kernel.pacing.settings();
    let names: Vec<&str> = classes.iter().map(|class| &*class.name).collect();
    let there_are = if names.is_empty() {
        "the configuration has none; add [pace.classes.NAME] and reload".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    };
    answer(
        StatusCode::NOT_FOUND,
        TEXT,
        format!("There is no class {:?}: {there_are}.\n", name),
    )
}

#[cfg(test)]
mod tests;
