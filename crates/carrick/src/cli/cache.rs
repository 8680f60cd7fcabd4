//! `carrick cache` and `carrick purge`: show and change the cache of a running carrick through admin.
use super::admin::{Failed, ask, encoded, finish, parsed};
use crate::cli::args::{CacheCommand, PurgeArgs};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Shows the cache.
#[must_use]
pub fn run(command: &CacheCommand) -> ExitCode {
    match command {
        CacheCommand::Ls {
            prefix,
            limit,
            admin,
        } => {
            let mut query = format!("limit={limit}");
            if let Some(prefix) = prefix {
                let _ = write!(query, "&prefix={}", encoded(prefix));
            }
            let request = format!("GET /cache?{query}");
            finish(ask(admin, &request).and_then(|body| listed(&body)))
        }
        CacheCommand::Stat { admin } => {
            finish(ask(admin, "GET /status").and_then(|body| cache_of(&body)))
        }
    }
}

/// Removes objects from the cache.
#[must_use]
pub fn purge(arguments: &PurgeArgs) -> ExitCode {
    let which = &arguments.which;
    let mut query = match (&which.url, &which.prefix, &which.tag) {
        (Some(url), _, _) => format!("url={}", encoded(url)),
        (_, Some(prefix), _) => format!("prefix={}", encoded(prefix)),
        (_, _, Some(tag)) => format!("tag={}", encoded(tag)),
        _ => "all=yes".to_owned(),
    };
    let done = if arguments.outdate {
        query.push_str("&how=outdate");
        "outdated"
    } else {
        "purged"
    };
    finish(
        ask(&arguments.admin, &format!("DELETE /cache?{query}"))
            .map(|count| format!("{done}: {}\n", count.trim())),
    )
}

/// The list of objects as a table.
fn listed(json: &str) -> Result<String, Failed> {
    let objects: Vec<serde_json::Value> = parsed(json)?;
    let mut text = format!(
        "{:>6} {:>12} {:>8} {:>8} {:>8}  {:<6}  key\n",
        "status", "bytes", "age s", "ttl s", "hits", "place"
    );
    for object in &objects {
        let number = |name: &str| {
            let number = object[name].as_i64();
            number.map_or_else(|| "-".to_owned(), |number| number.to_string())
        };
        let _ = writeln!(
            text,
            "{:>6} {:>12} {:>8} {:>8} {:>8}  {:<6}  {}",
            number("status"),
            number("bytes"),
            number("age_s"),
            number("ttl_s"),
            number("hits"),
            object["place"].as_str().unwrap_or_default(),
            object["key"].as_str().unwrap_or_default().escape_debug()
        );
    }
    Ok(text)
}

/// The cache's part of `/status`.
fn cache_of(json: &str) -> Result<String, Failed> {
    let status: serde_json::Value = parsed(json)?;
    let cache = &status["cache"];
    if cache.is_null() {
        return Err(Failed::Because(
            "there is no cache: the configuration has no [cache]".to_owned(),
        ));
    }
    let mut text = String::new();
    for (name, value) in cache.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(part) => {
                for (of_part, value) in part {
                    let name = format!("{name}.{of_part}");
                    let _ = writeln!(text, "{name:<24} {value}");
                }
            }
            None => {
                let _ = writeln!(text, "{name:<24} {value}");
            }
        }
    }
    Ok(text)
}
