//! Tools of the system, run to their end, with what they said in the error.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Where Debian keeps daemons, besides the search path of an ordinary user.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Runs a tool to its end and returns what it wrote to standard output.
///
/// # Errors
/// When it cannot be started, or fails: then with its arguments and what it wrote to standard error.
pub fn run(tool: &str, arguments: &[&str]) -> Result<String> {
    run_with_input(tool, arguments, "")
}

/// As [`run`], with something on standard input; a few kilobytes at most.
///
/// # Errors
/// As [`run`].
pub fn run_with_input(tool: &str, arguments: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {tool}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that does not read has failed already, or does not want it.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .with_context(|| format!("cannot wait for {tool}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{tool} {}` failed ({}): {}",
            arguments.join(" "),
            output.status,
            said.trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where a tool is, if it is installed.
#[must_use]
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.map(PathBuf::from))
        .map(|directory| directory.join(tool))
        .find(|candidate| candidate.is_file())
}

/// Where a tool is.
///
/// # Errors
/// When it is missing: with the Debian package that has it.
pub fn require(tool: &str) -> Result<PathBuf> {
    find(tool).with_context(|| match tool {
        "pepsal" => {
            String::from("`pepsal` is missing: build it from its source, and put it into the PATH")
        }
        _ => format!("`{tool}` is missing: apt-get install {}", package_of(tool)),
    })
}

fn package_of(tool: &str) -> &str {
    match tool {
        "ip" | "ss" => "iproute2",
        "taskset" => "util-linux",
        "nginx" => "nginx-light",
        "varnishd" => "varnish",
        "traffic_server" => "trafficserver",
        "sh" => "dash",
        other => other,
    }
}
