//! Failures of the disk: they are counted and logged, and pause writing.
use super::folder::CallError;
use super::room::{Room, Size};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long writing pauses after a failure. The pause doubles with each further one, up to the maximum.
const REST_MIN: Duration = Duration::from_secs(5);
const REST_MAX: Duration = Duration::from_secs(300);

/// The time between two messages of a kind.
const QUIET: Duration = Duration::from_secs(30);

/// What the disk was doing when a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Reading,
    Writing,
    Removing,
}

/// Kinds of messages: the three above, and damaged files.
const KINDS: usize = 4;

/// The state of the disk.
#[derive(Debug)]
pub(super) struct Health {
    path: PathBuf,
    began: Instant,
    /// Until when writing pauses, in milliseconds since `began`.
    rests_until_ms: AtomicU64,
    failures_in_a_row: AtomicU64,
    /// When the room was read last, in milliseconds since `began`.
    looked_ms: AtomicU64,
    pub(super) read_errors: AtomicU64,
    pub(super) write_errors: AtomicU64,
    pub(super) damaged: AtomicU64,
    log: Mutex<HealthLog>,
}

#[derive(Debug, Default)]
struct HealthLog {
    /// When the last message of each kind was logged, and how many were left out since then.
    last: [Option<(Instant, u64)>; KINDS],
    /// Why nothing can be written.
    fault: Option<String>,
    /// Set if the reason is that there is no room for so many bytes.
    missed_bytes: Option<u64>,
}

impl Health {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            began: Instant::now(),
            rests_until_ms: AtomicU64::new(0),
            failures_in_a_row: AtomicU64::new(0),
            looked_ms: AtomicU64::new(0),
            read_errors: AtomicU64::new(0),
            write_errors: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            log: Mutex::default(),
        }
    }

    /// Whether writing is paused.
    pub(super) fn is_resting(&self) -> bool {
        let until = self.rests_until_ms.load(Relaxed);
        until > 0 && self.passed_ms() < until
    }

    /// Notes that a file was written.
    pub(super) fn note_written(&self) {
        if self.failures_in_a_row.swap(0, Relaxed) > 0 {
            self.rests_until_ms.store(0, Relaxed);
            let mut log = self.log();
            (log.missed_bytes, log.fault) = (None, None);
            drop(log);
            tracing::info!("the cache's disk {} is writable again", self.path.display());
        }
    }

    /// Why nothing can be written at present, if that is so.
    pub(super) fn fault(&self) -> Option<String> {
        self.log().fault.clone()
    }

    /// Whether it is time to read the room: once a second.
    pub(super) fn is_time_to_look(&self) -> bool {
        let now = self.passed_ms();
        let is_due = |last: u64| (now >= last + 1000).then_some(now);
        self.looked_ms.try_update(Relaxed, Relaxed, is_due).is_ok()
    }

    /// Notes that the file system has room for so many bytes.
    pub(super) fn note_room(&self, bytes_max: u64) {
        let mut log = self.log();
        // Twice as much, so that the state does not flap.
        let is_enough = |missed: u64| bytes_max >= missed.saturating_mul(2);
        if log.missed_bytes.is_some_and(is_enough) {
            (log.missed_bytes, log.fault) = (None, None);
        }
    }

    /// Notes that the file system has no room for an object of so many bytes, even if everything were evicted.
    pub(super) fn note_full(&self, body_bytes: u64, room: Room) {
        let what = format!(
            "the file system is full: of {} are {} free, of which {} stay free",
            Size(room.total_bytes),
            Size(room.free_bytes),
            Size(room.reserve_bytes())
        );
        {
            let mut log = self.log();
            if log.fault.is_some() {
                return;
            }
            (log.missed_bytes, log.fault) = (Some(body_bytes), Some(what.clone()));
        }
        self.tell(Operation::Writing as usize, || {
            format!(
                "the cache's disk {} has no room for an object of {}, and takes none for the time being: {what}; {}",
                self.path.display(),
                Size(body_bytes),
                advice(Errno::NOSPC)
            )
        });
    }

    /// Notes that a call failed.
    pub(super) fn note(&self, operation: Operation, error: &CallError) {
        let what = match operation {
            Operation::Reading => {
                self.read_errors.fetch_add(1, Relaxed);
                "cannot be read"
            }
            Operation::Writing => {
                self.write_errors.fetch_add(1, Relaxed);
                self.rest();
                let mut log = self.log();
                (log.missed_bytes, log.fault) = (None, Some(error.to_string()));
                drop(log);
                "cannot be written, and is not for a while"
            }
            Operation::Removing => {
                self.write_errors.fetch_add(1, Relaxed);
                "keeps what should be removed"
            }
        };
        let advice = advice(error.errno);
        self.tell(operation as usize, || {
            format!(
                "the cache's disk {} {what}: {error}; {advice}",
                self.path.display()
            )
        });
    }

    /// Notes that a file is damaged, and removed.
    pub(super) fn note_damage(&self, file: &dyn std::fmt::Display, what: &str) {
        self.damaged.fetch_add(1, Relaxed);
        self.tell(KINDS - 1, || {
            format!(
                "{}/{file} of the cache {what}: it is removed, and requested again; the medium may be failing, or another program writes there",
                self.path.display()
            )
        });
    }

    fn rest(&self) {
        let failures = self.failures_in_a_row.fetch_add(1, Relaxed).min(16);
        let rest = REST_MIN.saturating_mul(1 << failures).min(REST_MAX);
        let until = self.passed_ms() + u64::try_from(rest.as_millis()).unwrap_or(u64::MAX / 2);
        self.rests_until_ms.fetch_max(until, Relaxed);
    }

    fn tell(&self, kind: usize, text: impl FnOnce() -> String) {
        let now = Instant::now();
        let left_out = {
            let mut log = self.log();
            let Some(last) = log.last.get_mut(kind) else {
                return;
            };
            match last {
                Some((at, left_out)) if now.duration_since(*at) < QUIET => {
                    *left_out += 1;
                    return;
                }
                _ => last.replace((now, 0)).map_or(0, |(_, left_out)| left_out),
            }
        };
        let text = text();
        if left_out > 0 {
            tracing::warn!("{text} (and {left_out} similar errors)");
        } else {
            tracing::warn!("{text}");
        }
    }

    fn passed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }

    fn log(&self) -> std::sync::MutexGuard<'_, HealthLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn advice(error: Errno) -> &'static str {
    match error {
        Errno::NOSPC => "make room on the file system, or `size` smaller",
        Errno::DQUOT => "raise the quota of carrick's user, or make `size` smaller",
        Errno::IO => "see the kernel's log: the medium may be failing",
        Errno::ROFS => "the file system is mounted read-only; see the kernel's log",
        Errno::ACCESS | Errno::PERM => "give the folder and what is in it to carrick's user",
        Errno::MFILE | Errno::NFILE => "raise the limit of open files (`LimitNOFILE=`)",
        Errno::NOENT => "another program removes files there",
        _ => "carrick continues with what is in memory",
    }
}
