//! `carrick reload`: checks the file, has a running carrick read it, and reports the result, so that `systemctl reload`
//! fails if the reload does.
use super::admin::{Failed, ask_at, finish, parsed};
use super::check::report;
use crate::cli::args::ReloadArgs;
use crate::config;
use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a reload may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long admin may take for one answer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

const ASK_EVERY: Duration = Duration::from_millis(20);

/// Runs the subcommand.
#[must_use]
pub fn run(arguments: &ReloadArgs) -> ExitCode {
    finish(reload(arguments))
}

fn reload(arguments: &ReloadArgs) -> Result<String, Failed> {
    let plan = match config::load(arguments.config.as_deref()) {
        Ok(loaded) => {
            report(&loaded.problems);
            loaded.plan
        }
        Err(rejected) => {
            report(&rejected.problems);
            return Err(Failed::Configuration);
        }
    };
    // If the file changes admin's address, admin does not answer there yet.
    let before = plan.admin.and_then(|admin| Reloads::ask(admin).ok());
    let pid = arguments
        .pid
        .or(before.as_ref().map(|before| before.pid))
        .and_then(Pid::from_raw)
        .ok_or_else(|| {
            Failed::Because(
                "cannot find the process: admin does not answer at the address in the file; use --pid"
                    .to_owned(),
            )
        })?;
    let count_before = before
        .filter(|before| before.pid == pid.as_raw_pid())
        .map(|before| before.count);
    let begun = Timestamp::now();
    kill_process(pid, Signal::HUP)
        .map_err(|error| Failed::Because(format!("SIGHUP to process {pid}: {error}")))?;
    let Some(admin) = plan.admin else {
        return Ok("SIGHUP sent; without admin, see carrick's log for the result\n".to_owned());
    };
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        match Reloads::ask(admin) {
            Ok(now) if now.pid == pid.as_raw_pid() && now.is_after(count_before, begun) => {
                return now.outcome();
            }
            Ok(_) | Err(_) if Instant::now() < give_up_at => std::thread::sleep(ASK_EVERY),
            Ok(_) => {
                return Err(Failed::Because(format!(
                    "process {pid} has not reloaded within {PATIENCE:?}; it may be draining, see its log"
                )));
            }
            Err(why) => return Err(why),
        }
    }
}

/// Admin's report on reloads.
struct Reloads {
    pid: i32,
    /// Their number.
    count: u64,
    /// Time of the last one.
    at: Timestamp,
    /// Why it failed.
    error: Option<String>,
}

impl Reloads {
    fn ask(admin: SocketAddr) -> Result<Self, Failed> {
        let status: Value = parsed(&ask_at(admin, "GET /status", ANSWER_WAIT)?)?;
        Ok(Self::of(&status))
    }

    fn of(status: &Value) -> Self {
        let reloads = &status["reloads"];
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        Self {
            pid: i32::try_from(number(&status["pid"])).unwrap_or_default(),
            count: number(&reloads["ok"]) + number(&reloads["failed"]),
            at: reloads["last"]["at"]
                .as_str()
                .and_then(|at| at.parse().ok())
                .unwrap_or_default(),
            error: reloads["last"]["error"].as_str().map(str::to_owned),
        }
    }

    /// Whether the last one is newer than before: by the count, or by the clock if admin did not answer then.
    fn is_after(&self, count_before: Option<u64>, begun: Timestamp) -> bool {
        count_before.map_or(self.at >= begun, |before| self.count > before)
    }

    fn outcome(self) -> Result<String, Failed> {
        match self.error {
            None => Ok(String::new()),
            Some(why) => Err(Failed::Because(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reload_is_distinguished_from_one_a_moment_before() {
        let begun: Timestamp = "2026-01-02T03:04:05.5Z".parse().unwrap();
        let table = [
            (None, "2026-01-02T03:04:05.499999999Z", false),
            (None, "2026-01-02T03:04:05.5Z", true),
            (None, "2026-01-02T03:04:06Z", true),
            (None, "", false),
            // The clock may have been set back.
            (Some(2), "2026-01-02T03:04:04Z", true),
            (Some(3), "2026-01-02T03:04:06Z", false),
        ];
        for (count_before, at, expected) in table {
            let last = json!({"at": at, "error": null});
            let status = json!({"pid": 7, "reloads": {"ok": 2, "failed": 1, "last": last}});
            let is_after = Reloads::of(&status).is_after(count_before, begun);
            assert_eq!(is_after, expected, "{count_before:?} {at}");
        }
        let none = json!({"pid": 7, "reloads": {"ok": 0, "failed": 0, "last": null}});
        assert!(!Reloads::of(&none).is_after(None, begun));
    }
}
