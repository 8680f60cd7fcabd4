//! Queries the admin interface of a running carrick.
use super::check::report;
use crate::cli::args::{AdminArgs, FAILED, FINE, WRONG};
use crate::config;
use crate::config::values::show_size;
use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// How long admin may take to answer. Some answers visit every object of the cache.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no result.
pub enum Failed {
    /// The configuration is wrong; its problems have been reported.
    Configuration,
    /// The reason in words.
    Because(String),
}

/// Prints the result or the reason for its absence; returns the exit code.
pub fn finish(result: Result<String, Failed>) -> ExitCode {
    match result {
        Ok(text) => {
            // A closed standard output is not an error.
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

/// Sends admin a request (method and target); returns the body of its answer.
///
/// # Errors
/// Admin does not answer, or refuses and says why.
pub fn ask(arguments: &AdminArgs, request: &str) -> Result<String, Failed> {
    ask_at(address(arguments)?, request, PATIENCE)
}

/// Like [`ask`], with an address, and a time limit for connecting and for each part of the answer.
///
/// # Errors
/// See [`ask`].
pub fn ask_at(address: SocketAddr, request: &str, patience: Duration) -> Result<String, Failed> {
    let answer = exchange(address, request, patience).map_err(|error| {
        Failed::Because(format!(
            "cannot ask admin at {address}: {error}; is carrick running with this address as `[admin] listen`?"
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
fn exchange(address: SocketAddr, request: &str, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(format!("{request} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    if stream.read_to_end(&mut answer)? == 0 {
        return Err(io::Error::other(
            "it closed the connection without an answer",
        ));
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The address of admin.
///
/// # Errors
/// The configuration is wrong, or has no admin.
pub fn address(arguments: &AdminArgs) -> Result<SocketAddr, Failed> {
    if let Some(address) = arguments.admin {
        return Ok(address);
    }
    let plan = match config::load(arguments.config.as_deref()) {
        Ok(loaded) => loaded.plan,
        Err(rejected) => {
            report(&rejected.problems);
            return Err(Failed::Configuration);
        }
    };
    plan.admin.ok_or_else(|| {
        Failed::Because("the configuration has no admin: `[admin] listen` is \"\"".to_owned())
    })
}

/// Parses admin's JSON answer.
///
/// # Errors
/// It is not the expected JSON.
pub fn parsed<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, Failed> {
    serde_json::from_str(json)
        .map_err(|error| Failed::Because(format!("cannot parse admin's answer: {error}")))
}

/// Encodes a value for a query.
#[must_use]
pub fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A list in admin's answer.
///
/// # Errors
/// It is not there.
pub fn list<'p>(page: &'p Value, of: &str) -> Result<&'p Vec<Value>, Failed> {
    let list = page[of].as_array();
    list.ok_or_else(|| Failed::Because(format!("admin's answer has no `{of}`")))
}

/// A word in admin's answer; empty if there is none.
#[must_use]
pub fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Bytes per second in admin's answer, in short.
#[must_use]
pub fn rate(value: &Value) -> String {
    let size = value.as_u64().map(show_size);
    size.map_or_else(
        || "-".to_owned(),
        |size| size.trim_matches('"').replace(' ', ""),
    )
}
