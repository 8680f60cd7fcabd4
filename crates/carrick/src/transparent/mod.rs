//! Transparent listeners: the rules in the kernel that lead other people's connections to them, and who keeps these rules.
//!
//! Rules outlive the program that makes them, so somebody has to take them away again, however carrick ends; and carrick
//! itself gives up the privilege for that when it starts. So a process of its own, the *keeper*, makes them, waits until
//! carrick is gone, and removes them. It has one capability and nothing to do with any client.
mod claim;
mod clean;
mod keeper;
mod leftovers;
mod probe;
mod rules;
mod tools;

pub use clean::{Cleaned, clean};
pub use keeper::keep;
pub use probe::probe;

use crate::config::plan::{Account, Interception, Plan};
use crate::telemetry::metrics::Job;
use claim::Claim;
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The subcommand by which the program is its own keeper.
pub const KEEP_RULES: &str = "keep-rules";

/// How long the keeper may take to remove the rules.
const REMOVAL_MAX: Duration = Duration::from_secs(10);

/// What the keeper says when the rules stand; anything else is why they do not.
const READY: &str = "ready";

/// What the keeper is told, once.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    interceptions: Vec<Interception>,
    account: Option<Account>,
}

/// The rules of the transparent listeners, as carrick holds on to them. Removed when dropped, and when carrick is killed.
#[derive(Debug)]
pub struct Rules {
    keeper: Child,
    /// Its end tells the keeper that carrick is gone.
    line: Option<ChildStdin>,
    /// Shared with the keeper, so that they last as long as one of the two does.
    _claims: Vec<Claim>,
}

/// Whether carrick has the privileges for the transparent listeners of a plan.
///
/// # Errors
/// It has not; says which is missing, what for, and what to do.
pub fn check_privileges(plan: &Plan) -> io::Result<()> {
    let has = capabilities(None)?.effective;
    for interception in plan.interceptions() {
        let listener = interception.listener;
        let missing = if !has.contains(CapabilitySet::NET_ADMIN) {
            "`transparent` on the listener {} needs CAP_NET_ADMIN"
        } else if interception.keeps_client && !has.contains(CapabilitySet::NET_RAW) {
            "`keep_client_address` on the listener {} needs CAP_NET_RAW"
        } else {
            continue;
        };
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{}; start carrick as root, or grant it (AmbientCapabilities= of systemd)",
                missing.replace("{}", &listener.to_string())
            ),
        ));
    }
    Ok(())
}

/// Whether a reload can change `before` to `after`: the rules stay as they were made.
///
/// # Errors
/// It cannot; says what is to be done.
pub fn check_reload(before: &Plan, after: &Plan) -> Result<(), String> {
    let of = |plan: &Plan| -> Vec<(Interception, Job)> {
        let listeners = plan.listeners.iter();
        let mut all: Vec<_> = listeners
            .filter_map(|listener| {
                Some((listener.interception.clone()?, Job::from(&listener.mode)))
            })
            .collect();
        all.sort_by_key(|(interception, _)| interception.listener);
        all
    };
    let (before, after) = (of(before), of(after));
    if before == after {
        return Ok(());
    }
    let changed = before.iter().find(|known| !after.contains(known));
    let changed = changed.or_else(|| after.iter().find(|new| !before.contains(new)));
    let listener = changed.map_or(String::new(), |(one, _)| format!(" {}", one.listener));
    Err(format!(
        "the transparent listener{listener} would change: `listen`, `mode`, `transparent`, `intercept` and `keep_client_address` change only with a restart"
    ))
}

impl Rules {
    /// Starts the keeper, which removes what dead carricks have left and makes the rules; `None` if no listener is transparent.
    /// To be called while there is one thread only, with `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// Another carrick has rules for the same port or routing table; a tool is missing, or refuses. No rule is left then.
    pub fn install(plan: &Plan) -> io::Result<Option<Self>> {
        let interceptions: Vec<_> = plan.interceptions().cloned().collect();
        if interceptions.is_empty() {
            return Ok(None);
        }
        let mut claims = Vec::new();
        for interception in &interceptions {
            for key in claim::keys(interception) {
                claims.push(Claim::take(key)?);
            }
        }
        let account = plan.account.clone();
        let mut rules = Self::start(claims)?;
        rules.tell(&Task {
            interceptions,
            account,
        })?;
        for interception in plan.interceptions() {
            tracing::info!(
                "{} is transparent: nft table inet {}, mark {}, routing table {}",
                interception.listener,
                rules::table_name(interception.listener.port()),
                interception.mark,
                interception.table
            );
        }
        Ok(Some(rules))
    }

    fn start(claims: Vec<Claim>) -> io::Result<Self> {
        for claim in &claims {
            claim.bequeath(true)?;
        }
        let started = Command::new("/proc/self/exe")
            .arg0("carrick")
            .arg(KEEP_RULES)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        for claim in &claims {
            claim.bequeath(false)?;
        }
        let mut keeper = started.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot start the keeper of the transparent listeners' rules (this program, again): {error}"),
            )
        })?;
        Ok(Self {
            line: keeper.stdin.take(),
            keeper,
            _claims: claims,
        })
    }

    fn tell(&mut self, task: &Task) -> io::Result<()> {
        let mut text = serde_json::to_string(task)?;
        text.push('\n');
        if let Some(line) = &mut self.line {
            // If it has ended, its answer says why.
            let _ = line.write_all(text.as_bytes());
        }
        let mut answer = String::new();
        if let Some(answers) = self.keeper.stdout.take() {
            BufReader::new(answers).read_line(&mut answer)?;
        }
        match answer.trim_end() {
            READY => Ok(()),
            "" => Err(io::Error::other(
                "the keeper of the transparent listeners' rules has ended without a word",
            )),
            // Written as JSON, as it may have several lines.
            why => Err(io::Error::other(
                serde_json::from_str(why).unwrap_or_else(|_| why.to_owned()),
            )),
        }
    }
}

impl Drop for Rules {
    /// Has the rules removed. Waits for that, ten seconds at most.
    fn drop(&mut self) {
        self.line = None;
        let give_up_at = Instant::now() + REMOVAL_MAX;
        loop {
            match self.keeper.try_wait() {
                Ok(Some(status)) if status.success() => return,
                Ok(None) if Instant::now() < give_up_at => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                ended => {
                    tracing::error!(
                        "the keeper of the transparent listeners' rules did not end as it should ({ended:?}); `carrick clean` removes what it has left"
                    );
                    return;
                }
            }
        }
    }
}
