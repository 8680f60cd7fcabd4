//! `carrick pace`: shows and changes the pacing of a running carrick through admin.
use super::admin::{Failed, ask, encoded, finish, list, parsed, rate, word};
use crate::cli::args::PaceArgs;
use crate::config::file::PaceClass;
use crate::config::section::Keys;
use crate::config::values::show_time;
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// Shows classes and workers, shows one class, or changes it.
#[must_use]
pub fn run(arguments: &PaceArgs) -> ExitCode {
    let admin = &arguments.admin;
    finish(match &arguments.class {
        None => ask(admin, "GET /pace").and_then(|json| tables(&parsed(&json)?)),
        Some(name) if arguments.changes.is_empty() => {
            ask(admin, "GET /pace").and_then(|json| one(&parsed(&json)?, name))
        }
        Some(name) => {
            let changes: Vec<String> = (arguments.changes.iter())
                .map(|(key, value)| format!("{}={}", encoded(key), encoded(value)))
                .collect();
            let request = format!("POST /pace/{}?{}", encoded(name), changes.join("&"));
            ask(admin, &request).and_then(|json| Ok(fields(&parsed(&json)?)))
        }
    })
}

/// All classes, and all workers.
fn tables(page: &Value) -> Result<String, Failed> {
    let mut text = format!(
        "{:<16} {:<13} {:>9} {:>9} {:>9} {:>9} {:>8} {:>10} {:>14} {:>9} {:>10} {:>9}\n",
        "class",
        "policy",
        "rate",
        "ceiling",
        "network",
        "splice",
        "splices",
        "networks",
        "bytes",
        "yields",
        "rate waits",
        "waited s"
    );
    for class in list(page, "classes")? {
        let _ = writeln!(
            text,
            "{:<16} {:<13} {:>9} {:>9} {:>9} {:>9} {:>8} {:>10} {:>14} {:>9} {:>10} {:>9}",
            word(&class["name"]),
            policy(class),
            rate(&class["rate"]),
            rate(&class["ceiling"]),
            rate(&class["network"]["ceiling"]),
            rate(&class["splice"]),
            plain(&class["splices"]),
            plain(&class["networks"]),
            plain(&class["bytes"]),
            plain(&class["yields"]),
            plain(&class["rate_waits"]),
            seconds(&class["waited_ms"])
        );
    }
    let _ = writeln!(
        text,
        "\n{:<6} {:>10} {:>7} {:>12} {:>10} {:>14} {:>16} {:>14} {:>14} {:>11}",
        "worker",
        "runnable s",
        "share",
        "forwarding s",
        "requests",
        "bytes",
        "spliced requests",
        "spliced bytes",
        "kernel bytes",
        "hits p99 us"
    );
    for worker in list(page, "workers")? {
        let share = worker["runnable_share"].as_f64().unwrap_or_default() * 100.0;
        let p99 = worker["hits_p99_us"].as_u64();
        let _ = writeln!(
            text,
            "{:<6} {:>10} {:>7} {:>12} {:>10} {:>14} {:>16} {:>14} {:>14} {:>11}",
            plain(&worker["worker"]),
            seconds(&worker["runnable_ms"]),
            format!("{share:.1} %"),
            seconds(&worker["forwarding_ms"]),
            plain(&worker["local_requests"]),
            plain(&worker["local_bytes"]),
            plain(&worker["spliced_requests"]),
            plain(&worker["spliced_bytes"]),
            plain(&worker["kernel_bytes"]),
            p99.map_or_else(|| "-".to_owned(), |p99| p99.to_string())
        );
    }
    Ok(text)
}

/// All fields of one class.
fn one(page: &Value, name: &str) -> Result<String, Failed> {
    let classes = list(page, "classes")?;
    match classes.iter().find(|class| class["name"] == name) {
        Some(class) => Ok(fields(class)),
        None => {
            let names: Vec<&str> = classes.iter().map(|class| word(&class["name"])).collect();
            Err(Failed::Because(format!(
                "there is no class {name:?}; there are: {}",
                names.join(", ")
            )))
        }
    }
}

/// The fields of a class that are not settings.
const DONE: [&str; 11] = [
    "splices",
    "networks",
    "bytes",
    "kernel_bytes",
    "yields",
    "rate_waits",
    "kernel_holds",
    "waited_ms",
    "overdue",
    "unbounded",
    "credit_bytes",
];

/// The settings in the syntax of `carrick pace NAME KEY=VALUE`, then the counters.
fn fields(class: &Value) -> String {
    let mut text = format!("{:<18} {}\n", "name", word(&class["name"]));
    for key in PaceClass::TABLE.keys {
        if let Some(value) = setting(class, key.name) {
            let _ = writeln!(text, "{:<18} {value}", key.name);
        }
    }
    for name in DONE {
        let _ = writeln!(text, "{name:<18} {}", plain(&class[name]));
    }
    text
}

/// The value of a key of `[pace.classes.NAME]`; `None` if the other settings make it meaningless.
fn setting(class: &Value, key: &str) -> Option<String> {
    let network = &class["network"];
    match key {
        "target" => {
            let target = class["target_us"].as_u64()?;
            Some(time(Duration::from_micros(target)))
        }
        "rate" | "ceiling" => Some(rate_or_none(&class[key])),
        "network_ceiling" => Some(rate_or_none(&network["ceiling"])),
        "network_prefix_v4" => network["prefix_v4"].as_u64().map(|bits| bits.to_string()),
        "network_prefix_v6" => network["prefix_v6"].as_u64().map(|bits| bits.to_string()),
        "splice_ceiling" => Some(rate_or_none(&class["splice"])),
        "hold_max" => {
            let hold_max = class["hold_max_ms"].as_u64()?;
            Some(time(Duration::from_millis(hold_max)))
        }
        _ => Some(plain(&class[key])),
    }
}

fn rate_or_none(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        value => rate(value) + "/s",
    }
}

fn time(time: Duration) -> String {
    show_time(time).trim_matches('"').to_owned()
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn policy(class: &Value) -> String {
    match class["target_us"].as_u64() {
        Some(target) => format!("deadline {}", Milliseconds(target)),
        None => word(&class["policy"]).to_owned(),
    }
}

/// Microseconds, shown in milliseconds.
struct Milliseconds(u64);

impl std::fmt::Display for Milliseconds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}ms", self.0 as f64 / 1000.0)
    }
}

fn seconds(ms: &Value) -> String {
    format!("{:.1}", ms.as_u64().unwrap_or_default() as f64 / 1000.0)
}
