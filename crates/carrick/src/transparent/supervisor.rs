//! The rule supervisor: makes the rules, makes again what other programs remove, waits until carrick is gone, and removes them. It is the
//! only part of carrick that keeps a privilege after the start, `CAP_NET_ADMIN`; after its task it reads only lines of one form, the end of
//! a pipe, and the kernel's messages about routing rules and nft tables.
use super::claim::Claim;
use super::left_out::{DRAIN, ExclusionRequest, LINE_BYTES_MAX};
use super::leftovers::{self, Made, Table};
use super::rules::{self, Family};
use super::tools::{IP, NFT};
use super::upkeep::{Next, Upkeep};
use super::{READY, Task, claim};
use crate::config::plan::Interception;
use crate::privileges;
use crate::telemetry::messages;
use nix::sys::signal::{SigSet, Signal};
use rustix::thread::CapabilitySet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;

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
    let pipe = io::stdin().as_fd().try_clone_to_owned()?;
    let mut input = BufReader::new(File::from(pipe));
    let mut line = String::new();
    input.read_line(&mut line)?;
    let task: Task = serde_json::from_str(&line).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "carrick starts this command itself, for transparent listeners; do not run it by hand",
        )
    })?;
    let mut keeper = Keeper::new(&task.interceptions);
    let made = keeper.begin(&task);
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
    keeper.serve(&mut input);
    remove(&task.interceptions)
}

/// Keeps the rules as they are to be.
struct Keeper<'t> {
    interceptions: &'t [Interception],
    /// `None`: changes by other programs are not noticed.
    upkeep: Option<Upkeep>,
    /// The nft tables that this process has made, in the order of the interceptions.
    tables: Vec<Option<Table>>,
    own_marks: Vec<u32>,
    is_draining: bool,
    /// What could not be made again, so that it is said once.
    failures: Vec<String>,
}

impl<'t> Keeper<'t> {
    fn new(interceptions: &'t [Interception]) -> Self {
        Self {
            interceptions,
            upkeep: None,
            tables: vec![None; interceptions.len()],
            own_marks: interceptions.iter().map(|one| one.mark).collect(),
            is_draining: false,
            failures: Vec::new(),
        }
    }

    /// Makes the rules.
    fn begin(&mut self, task: &Task) -> io::Result<()> {
        privileges::keep_only(task.account.as_ref(), CapabilitySet::NET_ADMIN)?;
        for made in leftovers::find()? {
            if is_own(self.interceptions, made.key()) {
                made.remove()?;
            } else if let Some(_claim) = Claim::try_take(made.key())? {
                // Claimed during removal, so that no other carrick makes it meanwhile.
                made.remove()?;
            }
        }
        self.upkeep = Upkeep::begin().inspect_err(tell_deaf).ok();
        for (interception, made) in self.interceptions.iter().zip(&mut self.tables) {
            leftovers::check_foreign(interception)?;
            // Routing of marked packets first, then the rules that mark them.
            for family in Family::ALL {
                if family.is_in(interception) {
                    route(interception, family)?;
                }
            }
            filter(interception, made, &self.own_marks)?;
        }
        Ok(())
    }

    /// Executes requests, and makes rules again that other programs have removed, until the pipe is closed.
    fn serve(&mut self, input: &mut BufReader<File>) {
        let mut line = String::new();
        loop {
            if input.buffer().is_empty()
                && let Some(upkeep) = &mut self.upkeep
            {
                match upkeep.next(input.get_ref()) {
                    Ok(Next::Read) => {}
                    Ok(Next::Look) => {
                        self.repair();
                        continue;
                    }
                    Err(error) => {
                        tell_deaf(&error);
                        self.upkeep = None;
                    }
                }
            }
            line.clear();
            let limit = LINE_BYTES_MAX as u64;
            match input.by_ref().take(limit).read_line(&mut line) {
                Ok(0) => return,
                Ok(_) => {}
                // Not UTF-8: handled as an invalid line.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => line.clear(),
                Err(_) => return,
            }
            self.execute(&line);
        }
    }

    fn execute(&mut self, line: &str) {
        if line == DRAIN {
            self.is_draining = true;
            return self.interceptions.iter().for_each(pass_local);
        }
        let request = line.strip_suffix('\n').and_then(ExclusionRequest::parse);
        let request = request.filter(|request| {
            let mut listeners = self.interceptions.iter().map(|one| one.listener.port());
            listeners.any(|port| port == request.port)
        });
        let Some(request) = request else {
            return tell("ignoring a line that is not in carrick's format");
        };
        if let Err(error) = NFT.run(&["-f", "-"], &rules::nft_leave_out(&request)) {
            tell(&format!("`{request}`: {error}"));
        }
    }

    /// Makes again what is gone, and what is no longer before other programs' rules. Continues after a failure.
    fn repair(&mut self) {
        let (mut repaired, mut failures) = (Vec::new(), Vec::new());
        let mut note = |outcome: io::Result<bool>, what: String| match outcome {
            Ok(true) => repaired.push(what),
            Ok(false) => {}
            Err(error) => failures.push(error.to_string()),
        };
        for (interception, made) in self.interceptions.iter().zip(&mut self.tables) {
            for family in Family::ALL {
                if family.is_in(interception) {
                    let (option, mark) = (family.option(), interception.mark);
                    let what = format!("the routing by `ip {option} rule` of the mark {mark}");
                    note(route(interception, family), what);
                }
            }
            let outcome = filter(interception, made, &self.own_marks);
            if self.is_draining && outcome.as_ref().is_ok_and(|was_gone| *was_gone) {
                pass_local(interception);
            }
            let name = rules::table_name(interception.listener.port());
            note(outcome, format!("the nft table inet {name}"));
        }
        if !repaired.is_empty() {
            tell(&format!(
                "another program had removed, or preceded by rules of its own, {}: made again",
                repaired.join(", ")
            ));
        }
        if let Some(upkeep) = &mut self.upkeep {
            if !repaired.is_empty() {
                upkeep.repaired();
            }
            if !failures.is_empty() {
                upkeep.failed();
            }
        }
        for failure in &failures {
            if !self.failures.contains(failure) {
                tell(&format!("{failure}; trying again every ten seconds"));
            }
        }
        self.failures = failures;
    }
}

/// Makes the nft table of an interception, unless it is there as it was `made`; whether that was necessary. `own_marks`: of all.
fn filter(
    interception: &Interception,
    made: &mut Option<Table>,
    own_marks: &[u32],
) -> io::Result<bool> {
    let name = rules::table_name(interception.listener.port());
    let there = leftovers::table(&name)?;
    let mut text = String::new();
    if let Some(there) = &there {
        if made.as_ref() == Some(there) {
            return Ok(false);
        }
        if !there.is_carricks {
            return Err(leftovers::foreign_table(&name));
        }
        // As a firewall has once saved it.
        text = rules::nft_remove(&name);
    }
    text += &rules::nft_install(interception, own_marks);
    let advice =
        " (does the kernel have nft_tproxy, nft_socket and nft_fib_inet? See `carrick doctor`)";
    NFT.run(&["-f", "-"], &text)
        .map_err(|error| explained(interception, &error, advice))?;
    *made = leftovers::table(&name)?;
    Ok(true)
}

/// Has new connections of this machine's programs bypass carrick, which closes its listeners.
fn pass_local(interception: &Interception) {
    if interception.local.is_some()
        && let Err(error) = NFT.run(&["-f", "-"], &rules::nft_pass_local(interception))
    {
        tell(&error.to_string());
    }
}

/// For carrick's log, if it has the same standard error.
fn tell(what: &str) {
    messages::tell(&format!("carrick's rule supervisor: {what}\n"));
}

/// That changes will not be noticed.
fn tell_deaf(error: &io::Error) {
    tell(&format!(
        "cannot hear from the kernel when other programs change rules: {error}. Restart carrick after such changes"
    ));
}

fn is_own(interceptions: &[Interception], key: claim::Key) -> bool {
    interceptions
        .iter()
        .any(|interception| claim::keys(interception).contains(&key))
}

/// Routes marked packets of one family, by rules before all others; whether anything was missing.
fn route(interception: &Interception, family: Family) -> io::Result<bool> {
    let run = |text: &str| {
        let advice = " (is the interface lo up, and is this address family enabled?)";
        IP.run(&[family.option(), "-batch", "-"], text)
            .map_err(|error| explained(interception, &error, advice))
    };
    let table = interception.table;
    let has_route = leftovers::routes(family)?.contains(&Made::Route { family, table });
    if !has_route {
        run(&rules::ip_route(interception))?;
    }
    let Some((before, old)) = leftovers::place(interception, family)? else {
        return Ok(!has_route);
    };
    run(&rules::ip_rules(interception, before))?;
    old.iter().try_for_each(Made::remove)?;
    Ok(true)
}

fn explained(interception: &Interception, error: &io::Error, advice: &str) -> io::Error {
    let listener = interception.listener;
    let text =
        format!("cannot make the rules for the transparent listener {listener}: {error}{advice}");
    io::Error::new(error.kind(), text)
}

/// First the rules that mark packets, then routing. Continues after a failure; returns the first one.
fn remove(interceptions: &[Interception]) -> io::Result<()> {
    let mut outcome = Ok(());
    for interception in interceptions {
        let port = interception.listener.port();
        match leftovers::table(&rules::table_name(port)) {
            Ok(table) if table.as_ref().is_none_or(|table| !table.is_carricks) => {}
            // What cannot be looked at is tried.
            _ => outcome = outcome.and(Made::Table { port }.remove()),
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
