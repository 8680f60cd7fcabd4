//! The rule supervisor: makes the rules, waits until carrick is gone, and removes them. It is the only part of carrick that keeps a
//! privilege after the start, `CAP_NET_ADMIN`; after its task it reads only lines of one form, and the end of a pipe.
use super::claim::Claim;
use super::left_out::{DRAIN, ExclusionRequest, LINE_BYTES_MAX};
use super::leftovers::{self, Made};
use super::rules::{self, Family};
use super::tools::{IP, NFT};
use super::{READY, Task, claim};
use crate::config::plan::Interception;
use crate::privileges;
use crate::telemetry::messages;
use nix::sys::signal::{SigSet, Signal};
use rustix::thread::CapabilitySet;
use std::io::{self, BufRead, Read, Write};

/// Runs the supervisor to its end.
///
/// # Errors
/// Some rules could not be removed; or there was no task.
pub fn keep() -> io::Result<()> {
    // systemd (SIGABRT: its watchdog) and terminals send these signals to both processes; the supervisor must outlive carrick.
    let signals: SigSet = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGABRT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ]
    .into_iter()
    .collect();
    signals.thread_block()?;
    let mut input = io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line)?;
    let task: Task = serde_json::from_str(&line).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "carrick starts this command itself, for transparent listeners; do not run it by hand",
        )
    })?;
    let made = begin(&task);
    if made.is_err() {
        // Undo a partial set-up; its own failures only follow from the first error.
        let _ = remove(&task.interceptions);
    }
    let answer = match &made {
        Ok(()) => READY.to_owned(),
        Err(error) => serde_json::to_string(&error.to_string())?,
    };
    let mut output = io::stdout().lock();
    // If carrick is gone already, the rules are removed at once.
    let _ = writeln!(output, "{answer}").and_then(|()| output.flush());
    if made.is_err() {
        return Ok(());
    }
    serve(&mut input, &task.interceptions);
    remove(&task.interceptions)
}

/// Executes requests until the pipe is closed.
fn serve(input: &mut impl BufRead, interceptions: &[Interception]) {
    let mut line = String::new();
    loop {
        line.clear();
        let limit = LINE_BYTES_MAX as u64;
        match input.by_ref().take(limit).read_line(&mut line) {
            Ok(0) => return,
            Ok(_) => {}
            // Not UTF-8: handled as an invalid line.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => line.clear(),
            Err(_) => return,
        }
        if line == DRAIN {
            pass_local(interceptions);
            continue;
        }
        let request = line.strip_suffix('\n').and_then(ExclusionRequest::parse);
        let request = request.filter(|request| {
            let mut listeners = interceptions.iter().map(|one| one.listener.port());
            listeners.any(|port| port == request.port)
        });
        let Some(request) = request else {
            tell("ignoring a line that is not in carrick's format");
            continue;
        };
        if let Err(error) = NFT.run(&["-f", "-"], &rules::nft_leave_out(&request)) {
            tell(&format!("`{request}`: {error}"));
        }
    }
}

/// Has new connections of this machine's programs bypass carrick, which closes its listeners.
fn pass_local(interceptions: &[Interception]) {
    for interception in interceptions.iter().filter(|one| one.local.is_some()) {
        if let Err(error) = NFT.run(&["-f", "-"], &rules::nft_pass_local(interception)) {
            tell(&error.to_string());
        }
    }
}

/// For carrick's log, if it has the same standard error.
fn tell(what: &str) {
    messages::tell(&format!("carrick's rule supervisor: {what}\n"));
}

fn begin(task: &Task) -> io::Result<()> {
    privileges::keep_only(task.account.as_ref(), CapabilitySet::NET_ADMIN)?;
    for made in leftovers::find()? {
        if is_own(&task.interceptions, made.key()) {
            made.remove()?;
        } else if let Some(_claim) = Claim::try_take(made.key())? {
            // Claimed during removal, so that no other carrick makes it meanwhile.
            made.remove()?;
        }
    }
    let own_marks: Vec<u32> = task.interceptions.iter().map(|one| one.mark).collect();
    for interception in &task.interceptions {
        leftovers::check_foreign(interception)?;
        install(interception, &own_marks)?;
    }
    Ok(())
}

fn is_own(interceptions: &[Interception], key: claim::Key) -> bool {
    interceptions
        .iter()
        .any(|interception| claim::keys(interception).contains(&key))
}

/// Routing of marked packets first, then the rules that mark them.
fn install(interception: &Interception, own_marks: &[u32]) -> io::Result<()> {
    let explain = |error: io::Error, advice: &str| {
        io::Error::new(
            error.kind(),
            format!(
                "cannot make the rules for the transparent listener {}: {error}{advice}",
                interception.listener
            ),
        )
    };
    for family in Family::ALL {
        if family.is_in(interception) {
            let text = rules::ip_install(interception, leftovers::first_rule(family)?);
            IP.run(&[family.option(), "-batch", "-"], &text)
                .map_err(|error| {
                    explain(
                        error,
                        " (is the interface lo up, and is this address family enabled?)",
                    )
                })?;
        }
    }
    NFT.run(&["-f", "-"], &rules::nft_install(interception, own_marks))
        .map_err(|error| explain(error, " (does the kernel have nft_tproxy, nft_socket and nft_fib_inet? See `carrick doctor`)"))?;
    Ok(())
}

/// First the rules that mark packets, then routing. Continues after a failure; returns the first one.
fn remove(interceptions: &[Interception]) -> io::Result<()> {
    let mut outcome = Ok(());
    for interception in interceptions {
        let port = interception.listener.port();
        // A firewall may have removed it; then removing it does nothing.
        if leftovers::is_carricks(&rules::table_name(port)).unwrap_or(true) {
            outcome = outcome.and(Made::Table { port }.remove());
        }
    }
    for list in [leftovers::routing_rules, leftovers::routes] {
        for family in Family::ALL {
            match list(family) {
                Ok(made) => {
                    let own = made.iter().filter(|made| is_own(interceptions, made.key()));
                    outcome = own.map(Made::remove).fold(outcome, Result::and);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
    }
    outcome
}
