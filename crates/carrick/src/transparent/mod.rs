//! Transparent listeners: the kernel rules that redirect connections to them, and the process that owns these rules.
//!
//! Rules outlive the program that makes them, and carrick drops the privilege to remove them when it starts. So another process, the rule
//! supervisor, makes them, waits until carrick is gone, however it ends, and removes them. It has one capability and no contact with
//! clients.
mod claim;
mod clean;
mod holder;
mod left_out;
mod leftovers;
mod probe;
mod rules;
pub mod supervisor;
mod tools;
mod upkeep;

pub use clean::{Cleaned, clean};
pub use left_out::{Pair, SupervisorPipe};
pub use probe::probe;
pub use supervisor::keep;

use crate::config::plan::{Account, Handshake, Interception, Plan};
use crate::service;
use crate::telemetry::job::Job;
use claim::Claim;
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The subcommand with which carrick starts itself as rule supervisor.
pub const KEEP_RULES: &str = "keep-rules";

/// How long the supervisor may take to remove the rules.
const REMOVAL_MAX: Duration = Duration::from_secs(10);

/// The supervisor's answer when the rules are in place; anything else is an error message.
const READY: &str = "ready";

/// The supervisor's task, sent first.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    interceptions: Vec<Interception>,
    account: Option<Account>,
}

/// What no other carrick may use while this one has its rules.
#[derive(Debug)]
pub struct Claims(Vec<Claim>);

impl Claims {
    /// Claims what the rules of the plan's transparent listeners need.
    ///
    /// # Errors
    /// Another carrick has it (`AddrInUse`).
    pub fn take(plan: &Plan) -> io::Result<Self> {
        let interceptions: Vec<_> = plan.interceptions().cloned().collect();
        let keys = claim::all_keys(&interceptions).into_iter();
        Ok(Self(keys.map(Claim::take).collect::<io::Result<_>>()?))
    }
}

/// Owns the rules of the transparent listeners. They are removed when this is dropped, and when carrick is killed.
#[derive(Debug)]
pub struct Rules {
    supervisor: Child,
    line: SupervisorPipe,
    /// Whether programs of this machine are clients.
    is_local: bool,
    /// Shared with the supervisor, so that the claims last as long as one of the two processes.
    _claims: Vec<Claim>,
}

/// Checks that carrick has the privileges for the plan's transparent listeners.
///
/// # Errors
/// Names the missing privilege, what it is for, and what to do.
pub fn check_privileges(plan: &Plan) -> io::Result<()> {
    let has = capabilities(None)?.effective;
    for interception in plan.interceptions() {
        let listener = interception.listener;
        let missing = if !has.contains(CapabilitySet::NET_ADMIN) && interception.ports.is_empty() {
            "`keep_client_address` on the listener {} needs CAP_NET_ADMIN"
        } else if !has.contains(CapabilitySet::NET_ADMIN) {
            "`transparent` on the listener {} needs CAP_NET_ADMIN"
        } else if interception.keeps_client && !has.contains(CapabilitySet::NET_RAW) {
            "`keep_client_address` on the listener {} needs CAP_NET_RAW"
        } else if interception.local.is_some() && !has.contains(CapabilitySet::NET_RAW) {
            "`local` on the listener {} needs CAP_NET_RAW"
        } else {
            continue;
        };
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{}; start carrick as root, or grant the capability (AmbientCapabilities= in systemd)",
                missing.replace("{}", &listener.to_string())
            ),
        ));
    }
    Ok(())
}

/// Whether a reload can change `before` to `after`, given that the rules stay as they are.
///
/// # Errors
/// It cannot; says what to do.
pub fn check_reload(before: &Plan, after: &Plan) -> Result<(), String> {
    let of = |plan: &Plan| -> Vec<(Interception, Job, bool)> {
        let listeners = plan.listeners.iter();
        let mut all: Vec<_> = listeners
            .filter_map(|listener| {
                Some((
                    listener.interception.clone()?,
                    Job::from(&listener.mode),
                    listener.handshake != Handshake::AtOnce,
                ))
            })
            .collect();
        all.sort_by_key(|(interception, ..)| interception.listener);
        all
    };
    let (before, after) = (of(before), of(after));
    if before == after {
        return Ok(());
    }
    let changed = before.iter().find(|known| !after.contains(known));
    let changed = changed.or_else(|| after.iter().find(|new| !before.contains(new)));
    let listener = changed.map_or(String::new(), |(one, ..)| format!(" {}", one.listener));
    Err(format!(
        "the transparent listener{listener} cannot change while carrick runs: `listen`, `mode`, `transparent`, `intercept`, `handshake`, `keep_client_address`, and for `local` also `idle` and `tunnel_idle` of `[timeouts]`, change only with a restart"
    ))
}

impl Rules {
    /// Starts the rule supervisor, which removes leftovers of dead carricks and makes the rules; `None` if no listener is transparent. Call it
    /// before starting threads, with `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// A tool is missing or fails. No rule is left behind.
    pub fn install(plan: &Plan, claims: Claims) -> io::Result<Option<Self>> {
        let interceptions: Vec<_> = plan.interceptions().cloned().collect();
        if interceptions.is_empty() {
            return Ok(None);
        }
        let account = plan.account.clone();
        let task = Task {
            interceptions,
            account,
        };
        let mut rules = Self::start(claims.0, &task)?;
        rules.await_rules()?;
        for interception in plan.interceptions() {
            let is = if interception.ports.is_empty() {
                "keeps clients' addresses"
            } else {
                "is transparent"
            };
            tracing::info!(
                "{} {is}: nft table inet {}, mark {}, routing table {}",
                interception.listener,
                rules::table_name(interception.listener.port()),
                interception.mark,
                interception.table
            );
        }
        Ok(Some(rules))
    }

    fn start(claims: Vec<Claim>, task: &Task) -> io::Result<Self> {
        for claim in &claims {
            claim.bequeath(true)?;
        }
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("carrick")
            .arg(KEEP_RULES)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for variable in service::VARIABLES {
            command.env_remove(variable);
        }
        let started = command.spawn();
        for claim in &claims {
            claim.bequeath(false)?;
        }
        let mut supervisor = started.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot start the rule supervisor for transparent listeners (a second process of this program): {error}"),
            )
        })?;
        let mut text = serde_json::to_string(task)?;
        text.push('\n');
        let mut line = SupervisorPipe::default();
        if let Some(mut pipe) = supervisor.stdin.take() {
            // If it has exited, its answer says why.
            let _ = pipe.write_all(text.as_bytes());
            line = SupervisorPipe::new(pipe)?;
        }
        Ok(Self {
            line,
            supervisor,
            is_local: task.interceptions.iter().any(|one| one.local.is_some()),
            _claims: claims,
        })
    }

    /// The channel for excluding pairs from interception.
    #[must_use]
    pub fn line(&self) -> SupervisorPipe {
        self.line.clone()
    }

    /// Has new connections of this machine's programs bypass carrick. Those of other machines do so once the listeners are closed.
    pub fn drain(&self) {
        if let (true, Err(error)) = (self.is_local, self.line.drain()) {
            tracing::warn!(
                "cannot tell the rule supervisor about the drain: new connections of this machine's programs hang until it ends: {error}"
            );
        }
    }

    fn await_rules(&mut self) -> io::Result<()> {
        let mut answer = String::new();
        if let Some(answers) = self.supervisor.stdout.take() {
            BufReader::new(answers).read_line(&mut answer)?;
        }
        match answer.trim_end() {
            READY => Ok(()),
            "" => Err(io::Error::other(
                "the rule supervisor for transparent listeners exited without a message",
            )),
            // As JSON, since it can have several lines.
            why => Err(io::Error::other(
                serde_json::from_str(why).unwrap_or_else(|_| why.to_owned()),
            )),
        }
    }
}

impl Drop for Rules {
    /// Has the rules removed, and waits for that for at most ten seconds.
    fn drop(&mut self) {
        self.line.close();
        let give_up_at = Instant::now() + REMOVAL_MAX;
        loop {
            match self.supervisor.try_wait() {
                Ok(Some(status)) if status.success() => return,
                Ok(None) if Instant::now() < give_up_at => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                ended => {
                    let how = match ended {
                        Ok(Some(status)) => status.to_string(),
                        Ok(None) => "still running".to_owned(),
                        Err(error) => error.to_string(),
                    };
                    tracing::error!(
                        "the rule supervisor for transparent listeners did not exit cleanly ({how}); remove its rules with `carrick clean`"
                    );
                    return;
                }
            }
        }
    }
}
