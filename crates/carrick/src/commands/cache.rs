//! `carrick cache` and `carrick purge`: what a running carrick has stored, asked of its admin.
use super::check::report;
use crate::cli::{AdminArgs, CacheCommand, FAILED, FINE, PurgeArgs, WRONG};
use crate::config;
use crate::config::plan::Plan;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// How long admin may take for an answer. It looks at every object, if need be.
const PATIENCE: Duration = Duration::from_secs(60);

/// Shows what is stored.
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

/// Takes objects out of the cache.
#[must_use]
pub fn purge(arguments: &PurgeArgs) -> ExitCode {
    let which = &arguments.which;
    let mut query = match (&which.url, &which.prefix, &which.tag) {
        (Some(url), _, _) => format!("url={}", encoded(url)),
        (_, Some(prefix), _) => format!("prefix={}", encoded(prefix)),
        (_, _, Some(tag)) => format!("tag={}", encoded(tag)),
        _ => "all=yes".to_owned(),
    };
    if arguments.outdate {
        query.push_str("&how=outdate");
    }
    finish(
        ask(&arguments.admin, &format!("DELETE /cache?{query}"))
            .map(|count| format!("purged: {}\n", count.trim())),
    )
}

/// Why there is nothing to show.
enum Failed {
    /// The configuration is wrong, and it was said why.
    Configuration,
    /// In words.
    Because(String),
}

fn finish(result: Result<String, Failed>) -> ExitCode {
    match result {
        Ok(text) => {
            // Where nobody reads, nothing is lost.
            let _ = anstream::stdout().lock().write_all(text.as_bytes());
            ExitCode::from(FINE)
        }
        Err(Failed::Configuration) => ExitCode::from(WRONG),
        Err(Failed::Because(why)) => {
            let _ = writeln!(anstream::stderr().lock(), "carrick: {why}");
            ExitCode::from(FAILED)
        }
    }
}

/// Asks admin; the body of its answer.
fn ask(arguments: &AdminArgs, request: &str) -> Result<String, Failed> {
    let address = address(arguments)?;
    let answer = exchange(address, request).map_err(|error| {
        Failed::Because(format!(
            "cannot ask admin at {address}: {error}; does carrick run, with this address as `[admin] listen`?"
        ))
    })?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.split(' ').nth(1) == Some("200") {
        return Ok(body.to_owned());
    }
    Err(Failed::Because(if body.is_empty() {
        format!("admin at {address} answered {head}")
    } else {
        body.trim_end().to_owned()
    }))
}

/// HTTP/1.0 makes the answer end with the connection.
fn exchange(address: SocketAddr, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{request} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn address(arguments: &AdminArgs) -> Result<SocketAddr, Failed> {
    if let Some(address) = arguments.admin {
        return Ok(address);
    }
    let plan = match &arguments.config {
        None => Plan::built_in(),
        Some(file) => match config::load(Some(file)) {
            Ok(loaded) => loaded.plan,
            Err(rejected) => {
                report(&rejected.problems);
                return Err(Failed::Configuration);
            }
        },
    };
    plan.admin.ok_or_else(|| {
        Failed::Because("the configuration has no admin: `[admin] listen` is \"\"".to_owned())
    })
}

/// The objects as a table.
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

/// The part of `/status` that is about the cache.
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

fn parsed<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, Failed> {
    serde_json::from_str(json)
        .map_err(|error| Failed::Because(format!("admin's answer is not understood: {error}")))
}

/// As a value in a query.
fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
