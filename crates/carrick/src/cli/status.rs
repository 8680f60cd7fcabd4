//! `carrick status`: shows the path history of a running splitter, and certificates, through admin.
use super::admin::{Failed, ask, finish, list, parsed, rate, word};
use crate::cli::args::{StatusArgs, StatusPage};
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Shows the page.
#[must_use]
pub fn run(arguments: &StatusArgs) -> ExitCode {
    let paths = match &arguments.page {
        StatusPage::Paths(paths) => paths,
        StatusPage::Certificates { admin } => {
            let json = ask(admin, "GET /status");
            return finish(json.and_then(|json| certificates(&parsed(&json)?)));
        }
    };
    let json = ask(&paths.admin, "GET /paths");
    finish(if paths.json {
        json
    } else {
        json.and_then(|json| tables(&parsed(&json)?))
    })
}

/// All pairs, and the gain for each size class.
fn tables(page: &Value) -> Result<String, Failed> {
    let pairs = list(page, "pairs")?;
    if pairs.is_empty() {
        return Ok("No splitter has seen a connection end yet.\n".to_owned());
    }
    let mut text = format!(
        "{:<21} {:<21} {:>17} {:>13} {:>15} {:<9} {:>20} {:>6}  {}\n",
        "client", "server", "rtt ms", "loss %", "rate /s", "decision", "GoS", "conns", "reason"
    );
    for pair in pairs {
        let both = |field: &str, show: fn(&Value) -> String| {
            let [client, server] = ["client_leg", "server_leg"].map(|leg| show(&pair[leg][field]));
            format!("{client} + {server}")
        };
        let _ = writeln!(
            text,
            "{:<21} {:<21} {:>17} {:>13} {:>15} {:<9} {:>20} {:>6}  {}",
            word(&pair["client"]),
            word(&pair["server"]),
            both("rtt_ms", tenth),
            both("loss_percent", tenth),
            both("rate", rate),
            word(&pair["decision"]),
            gain(&pair["gos"]),
            pair["connections"],
            word(&pair["because"])
        );
    }
    let gains = list(page, "gain")?;
    if !gains.is_empty() {
        let _ = writeln!(
            text,
            "\n{:<11} {:>20} {:>7} {:>7}",
            "size", "GoS", "split", "joined"
        );
    }
    for class in gains {
        let count = |way: &str| class[way].as_f64().unwrap_or_default();
        let _ = writeln!(
            text,
            "{:<11} {:>20} {:>7.0} {:>7.0}",
            word(&class["size"]),
            gain(class),
            count("split"),
            count("joined")
        );
    }
    Ok(text)
}

/// A line for each certificate, and one for its file or for what failed.
fn certificates(page: &Value) -> Result<String, Failed> {
    let certificates = list(page, "certificates")?;
    if certificates.is_empty() {
        return Ok("No listener has certificates.\n".to_owned());
    }
    let time = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut text = format!(
        "{:<32} {:<20}  {:<20}  {:>8}\n",
        "name", "valid until", "next order", "failures"
    );
    for one in certificates {
        let (until, next) = (time(&one["not_after"]), time(&one["next_order"]));
        let name = word(&one["name"]);
        let _ = writeln!(
            text,
            "{name:<32} {until:<20}  {next:<20}  {:>8}",
            one["failures"]
        );
        for detail in [&one["file"], &one["error"]] {
            if let Some(detail) = detail.as_str() {
                let _ = writeln!(text, "  {detail}");
            }
        }
    }
    Ok(text)
}

fn tenth(value: &Value) -> String {
    value
        .as_f64()
        .map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

/// The gain with its interval.
fn gain(value: &Value) -> String {
    let number = |of: &str| value[of].as_f64();
    match (number("gos"), number("low"), number("high")) {
        (Some(gos), Some(low), Some(high)) => format!("{gos:+.2} ({low:+.2}, {high:+.2})"),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests;
