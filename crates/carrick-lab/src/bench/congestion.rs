//! Checks that both ends of every kind of connection use the congestion control that the report will name.

use anyhow::{Context as _, Result, bail};

use crate::bench::holder::{Holder, Request};
use crate::testbed::namespace::Namespace;
use crate::testbed::service::Service;
use crate::testbed::{Testbed, cores};

/// What the routes of the test bed ask for.
pub const WANTED: &str = "cubic";

/// Starts the echo origin in a namespace.
///
/// # Errors
/// When it cannot be started.
pub fn start_echo(testbed: &Testbed, namespace: &Namespace, listen: &str) -> Result<Service> {
    let program = crate::program::this_program()?;
    let mut command = namespace.command(&program, &cores::list(&testbed.placement().other_cores()));
    command.args(["echo", "--listen", listen]);
    let log = testbed.directory().join(format!("echo-{listen}.log"));
    Service::start("echo origin", command, namespace, log, false)
}

/// Opens client - proxy, proxy - server and client - server (routed), and looks at both ends of each. The echo origin
/// must be running.
///
/// # Errors
/// When an end uses something else: the figures would mean something else.
pub async fn verify(testbed: &Testbed) -> Result<()> {
    let addresses = testbed.addresses();
    let at_server = addresses.origin_echo();
    let at_proxy = format!("{}:{}", addresses.proxy, at_server.port());
    let echo = start_echo(testbed, &testbed.proxy, &at_proxy)?;
    let at_server = at_server.to_string();
    for (from, to_namespace, to) in [
        (&testbed.client, &testbed.proxy, &at_proxy),
        (&testbed.proxy, &testbed.server, &at_server),
        (&testbed.client, &testbed.server, &at_server),
    ] {
        let holder = Holder::open(
            from,
            &testbed.placement().other_cores(),
            &Request::echo(to),
            1,
        )
        .await?;
        for namespace in [from, to_namespace] {
            let said = namespace.run("ss", &["-tinH", "state", "established"])?;
            check(&said).with_context(|| format!("in namespace {}", namespace.name()))?;
        }
        holder.close().await?;
    }
    echo.stop().await;
    Ok(())
}

/// Each connection has a line of addresses and, indented, a line of details.
fn check(said: &str) -> Result<()> {
    let details: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with([' ', '\t']))
        .collect();
    if details.is_empty() {
        bail!("ss shows no connection: {said}");
    }
    match details
        .iter()
        .find(|line| !line.split_whitespace().any(|word| word == WANTED))
    {
        Some(line) => bail!("a connection does not use {WANTED}: {}", line.trim()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
