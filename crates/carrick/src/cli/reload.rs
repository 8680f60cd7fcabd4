//! `carrick reload`: checks the file, has a running carrick read it, and reports the result, so that `systemctl reload`
//! fails if the reload does.
use super::admin::{Failed, ask_at, finish, parsed};
use super::check::report;
use crate::cli::args::ReloadArgs;
use crate::config;
use jiff::Timestamp;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use std::fs;
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
    let begun_before = before
        .filter(|before| before.pid == pid.as_raw_pid())
        .map(|before| before.begun);
    let begun = Timestamp::now();
    signal(pid, plan.admin.filter(|_| arguments.pid.is_none()))?;
    let Some(admin) = plan.admin else {
        return Ok("SIGHUP sent; without admin, see carrick's log for the result\n".to_owned());
    };
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        match Reloads::ask(admin) {
            Ok(now) if now.pid == pid.as_raw_pid() && now.is_after(begun_before, begun) => {
                return now.outcome();
            }
            Ok(_) | Err(_) if Instant::now() < give_up_at => std::thread::sleep(ASK_EVERY),
            Ok(now) if now.pid != pid.as_raw_pid() => {
                return Err(Failed::Because(format!(
                    "at {admin}, process {} answers, not {pid}: another carrick has this address, or the file's is not in force; see the log of {pid}",
                    now.pid
                )));
            }
            Ok(_) => {
                return Err(Failed::Because(format!(
                    "process {pid} has not reloaded within {PATIENCE:?}; it may be draining, see its log"
                )));
            }
            Err(why) => return Err(why),
        }
    }
}

/// Sends SIGHUP to the process that the user named, or that was named at `admin`: anybody may listen there while no carrick does.
fn signal(pid: Pid, admin: Option<SocketAddr>) -> Result<(), Failed> {
    let failed = |error| Failed::Because(format!("SIGHUP to process {pid}: {error}"));
    // What has been checked gets the signal, even if another process gets its number.
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
    if let Some(admin) = admin
        && !(is_carrick(pid) && may_listen(pid, admin.port()))
    {
        return Err(Failed::Because(format!(
            "process {pid} has not been signalled: {admin} names it, but it is no carrick that listens there; use --pid"
        )));
    }
    pidfd_send_signal(process, Signal::HUP).map_err(failed)
}

/// Whether a process runs the same program, by name: after an upgrade, its file is another one.
fn is_carrick(pid: Pid) -> bool {
    let name = |process: &str| fs::read(format!("/proc/{process}/comm")).ok();
    name("self").is_some_and(|own| Some(own) == name(&pid.to_string()))
}

/// Whether a process listens on a port of TCP; `true` also if this user must not see that.
fn may_listen(pid: Pid, port: u16) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return true;
    };
    let listening: Vec<String> = ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/net/{table}")).ok())
        .flat_map(|table| {
            table
                .lines()
                .filter_map(|line| listens(line, port))
                .collect::<Vec<_>>()
        })
        .collect();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.into_iter().any(|link| {
        let link = link.to_string_lossy();
        listening
            .iter()
            .any(|inode| link == format!("socket:[{inode}]"))
    })
}

/// The inode of the socket in a line of `/proc/net/tcp`, if it listens on this port.
fn listens(line: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let mut words = line.split_whitespace();
    let (_, local_port) = words.nth(1)?.rsplit_once(':')?;
    let is_listening = words.nth(1)? == LISTEN;
    let inode = words.nth(5)?;
    let is_it = is_listening && u16::from_str_radix(local_port, 16) == Ok(port);
    is_it.then(|| inode.to_owned())
}

/// Admin's report on reloads.
struct Reloads {
    pid: i32,
    /// How many have ended.
    count: u64,
    /// How many have begun.
    begun: u64,
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
        let count = number(&reloads["ok"]) + number(&reloads["failed"]);
        Self {
            pid: i32::try_from(number(&status["pid"])).unwrap_or_default(),
            count,
            // An older carrick does not tell.
            begun: number(&reloads["begun"]).max(count),
            at: reloads["last"]["at"]
                .as_str()
                .and_then(|at| at.parse().ok())
                .unwrap_or_default(),
            error: reloads["last"]["error"].as_str().map(str::to_owned),
        }
    }

    /// Whether the last one began after `begun_before` others, so that it read the new file; by the clock, if admin did not
    /// answer then.
    fn is_after(&self, begun_before: Option<u64>, now: Timestamp) -> bool {
        begun_before.map_or(self.at >= now, |before| self.count > before)
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
    fn listening_sockets_are_found_by_their_port() {
        let line = "   0: 0100007F:0C39 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0";
        assert_eq!(listens(line, 3129).as_deref(), Some("4711"));
        assert_eq!(listens(line, 3128), None);
        assert_eq!(listens(&line.replace(" 0A ", " 01 "), 3129), None);
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        assert_eq!(listens(head, 3129), None);
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let this = rustix::process::getpid();
        assert!(is_carrick(this) && may_listen(this, port));
        drop(socket);
        assert!(!may_listen(this, port));
    }

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
            // A fourth one was under way, for somebody else.
            (Some(4), "2026-01-02T03:04:06Z", false),
        ];
        for (begun_before, at, expected) in table {
            let last = json!({"at": at, "error": null});
            let status = json!({"pid": 7, "reloads": {"ok": 2, "failed": 1, "last": last}});
            let is_after = Reloads::of(&status).is_after(begun_before, begun);
            assert_eq!(is_after, expected, "{begun_before:?} {at}");
        }
        // Begun, but not ended.
        let status = json!({"reloads": {"begun": 4, "ok": 2, "failed": 1}});
        assert_eq!(Reloads::of(&status).begun, 4);
        let of_older = json!({"reloads": {"ok": 2, "failed": 1}});
        assert_eq!(Reloads::of(&of_older).begun, 3);
        let none = json!({"pid": 7, "reloads": {"ok": 0, "failed": 0, "last": null}});
        assert!(!Reloads::of(&none).is_after(None, begun));
    }
}
