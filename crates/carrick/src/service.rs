//! Notifications to the service manager, and its watchdog: the sd_notify(3) protocol, over a socket opened at start that needs no
//! privilege afterwards.
use crate::telemetry::metrics::Liveness;
use rustix::time::{ClockId, clock_gettime};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Environment variables set by the service manager. Child processes must not inherit them.
pub const VARIABLES: [&str; 3] = [SOCKET, WATCHDOG_USEC, WATCHDOG_PID];
const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_USEC: &str = "WATCHDOG_USEC";
const WATCHDOG_PID: &str = "WATCHDOG_PID";

/// How long a send may block when the service manager's queue is full.
const SEND_WAIT: Duration = Duration::from_secs(2);

/// A thread that shows no activity for this long counts as dead, even if the watchdog's interval is shorter.
const SILENCE_MIN: Duration = Duration::from_secs(5);

/// How much longer than the drain the shutdown may take.
pub const END_MAX: Duration = Duration::from_secs(15);

/// The longest status, in bytes.
const STATUS_BYTES_MAX: usize = 400;

/// The service manager that started this process, if any.
#[derive(Debug)]
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The manager named by the environment.
    #[must_use]
    pub fn of_environment() -> Self {
        let watchdog = watchdog_of(
            env::var(WATCHDOG_USEC).ok().as_deref(),
            env::var(WATCHDOG_PID).ok().as_deref(),
        );
        Self::at(env::var_os(SOCKET), watchdog)
    }

    fn at(name: Option<OsString>, watchdog: Option<Duration>) -> Self {
        let socket = name.and_then(|name| match connect(&name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(
                    "cannot notify the service manager at {SOCKET}={}: {error}",
                    name.display()
                );
                None
            }
        });
        Self {
            watchdog: watchdog.filter(|_| socket.is_some()),
            socket,
        }
    }

    /// Start-up is complete: clients are accepted.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// A reload has begun. [`ready`](Self::ready) ends it, whether it succeeded or not.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(
            now.tv_sec.unsigned_abs(),
            u32::try_from(now.tv_nsec).unwrap_or_default(),
        );
        self.tell(&format!(
            "RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=Reading the configuration again",
            now.as_micros()
        ));
    }

    /// The start takes longer. To be repeated within [`END_MAX`].
    pub fn starting(&self, status: &str) {
        self.tell(&format!(
            "EXTEND_TIMEOUT_USEC={}\nSTATUS={}",
            END_MAX.as_micros(),
            line(status)
        ));
    }

    /// The drain begins and takes at most `drain`.
    pub fn stopping(&self, drain: Duration, status: &str) {
        self.tell(&format!(
            "STOPPING=1\nEXTEND_TIMEOUT_USEC={}\nSTATUS={}",
            (drain + END_MAX).as_micros(),
            line(status)
        ));
    }

    /// Sets the one-line status that `systemctl status` shows.
    pub fn status(&self, status: &str) {
        self.tell(&format!("STATUS={}", line(status)));
    }

    /// Starts the watchdog, if the service manager asks for one. Must be called within a runtime.
    #[must_use]
    pub fn watch(&self, threads: Vec<(String, Arc<Liveness>)>) -> Watch {
        let now = Instant::now();
        Watch {
            // Twice per interval, as sd_watchdog_enabled(3) advises.
            ticks: self.watchdog.map(|time| {
                let mut ticks = interval(time / 2);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                ticks
            }),
            silence_max: self.watchdog.unwrap_or_default().max(SILENCE_MIN),
            threads: threads
                .into_iter()
                .map(|(name, liveness)| Watched {
                    name,
                    liveness,
                    rounds: 0,
                    seen: now,
                })
                .collect(),
        }
    }

    fn tell(&self, message: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(message.as_bytes())
        {
            tracing::debug!("cannot send {message:?} to the service manager: {error}");
        }
    }
}

/// Watches whether threads are alive.
#[derive(Debug)]
pub struct Watch {
    ticks: Option<Interval>,
    silence_max: Duration,
    threads: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    name: String,
    liveness: Arc<Liveness>,
    rounds: u64,
    /// When it last showed activity.
    seen: Instant,
}

impl Watch {
    /// Returns when the next check is due; never, without a watchdog.
    pub async fn due(&mut self) {
        match &mut self.ticks {
            Some(ticks) => {
                ticks.tick().await;
            }
            None => std::future::pending().await,
        }
    }

    /// Resets the service manager's watchdog, unless a thread is stuck.
    pub fn tell(&mut self, manager: &ServiceManager) {
        let silent = self.silent(Instant::now());
        if silent.is_empty() {
            manager.tell("WATCHDOG=1");
        } else {
            tracing::error!(
                "no activity from {} for {:?}: the service manager's watchdog is not reset, so it will restart carrick",
                silent.join(", "),
                self.silence_max
            );
        }
    }

    /// The names of stuck threads.
    fn silent(&mut self, now: Instant) -> Vec<&str> {
        let silence_max = self.silence_max;
        let looked_at = self.threads.iter_mut().filter_map(|thread| {
            let rounds = thread.liveness.rounds();
            if thread.rounds != rounds || thread.liveness.has_ended() {
                thread.rounds = rounds;
                thread.seen = now;
            }
            (now.duration_since(thread.seen) > silence_max).then_some(thread.name.as_str())
        });
        looked_at.collect()
    }
}

fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "only paths and abstract sockets (`@`) are supported",
            ));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_write_timeout(Some(SEND_WAIT))?;
    Ok(socket)
}

/// The watchdog's interval, if it is meant for this process (sd_watchdog_enabled(3)).
fn watchdog_of(usec: Option<&str>, pid: Option<&str>) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(std::process::id())) {
        return None;
    }
    let usec = usec?.parse().ok().filter(|usec| *usec > 1)?;
    Some(Duration::from_micros(usec))
}

/// The first line of a text, shortened to the limit.
fn line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(STATUS_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_of_this_process_only() {
        let own = std::process::id().to_string();
        let rows = [
            (None, None, None),
            (Some("3000000"), None, Some(3_000_000)),
            (Some("3000000"), Some(own.as_str()), Some(3_000_000)),
            (Some("3000000"), Some("1"), None),
            (Some("0"), None, None),
            (Some("soon"), None, None),
        ];
        for (usec, pid, expected) in rows {
            let expected = expected.map(Duration::from_micros);
            assert_eq!(watchdog_of(usec, pid), expected, "{usec:?} {pid:?}");
        }
    }

    #[test]
    fn a_thread_that_makes_no_rounds_is_named_and_one_that_has_ended_is_not() {
        let threads: [Arc<Liveness>; 3] = Default::default();
        let names = ["worker 0", "worker 1", "control"].map(str::to_owned);
        let manager = ServiceManager::at(None, None);
        let mut watch = manager.watch(names.into_iter().zip(threads.clone()).collect());
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(watch.silent(after(4)).is_empty());
        threads[0].show();
        threads[2].end();
        assert_eq!(watch.silent(after(7)), ["worker 1"]);
        assert_eq!(watch.silent(after(14)), ["worker 0", "worker 1"]);
        threads[0].show();
        threads[1].show();
        assert!(watch.silent(after(15)).is_empty());
    }

    #[test]
    fn a_status_is_one_line() {
        assert_eq!(line("a\nREADY=1"), "a");
        assert_eq!(line(&"ä".repeat(300)).len(), 400);
        assert_eq!(line(""), "");
    }
}
