//! The thread that writes the access log to one target at a time, reopens it on request, and survives full disks.
use super::{Batch, LogSender, LogState, Settings};
use crate::config::plan::{LogFormat, LogPlan, LogTarget};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After a change, lines that workers formatted before it still go to the old target for this long.
const PREVIOUS_KEPT: Duration = Duration::from_secs(2);

/// How long a target that accepts no bytes (a pipe without a reader) may block the thread for one batch.
const STALL_MAX: Duration = Duration::from_secs(2);

/// How long the end of the program waits for the last lines.
const STOP_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) enum Message {
    Lines(Batch),
    Reopen,
    Change(u32, Option<Sink>),
    Stop,
}

/// The thread that writes.
#[derive(Debug)]
pub struct LogThread {
    sender: LogSender,
    done: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

impl LogThread {
    /// Opens the target and starts the thread. At most `lines_max` lines wait to be written.
    ///
    /// # Errors
    /// The file cannot be opened (the message names it), or the thread not started.
    pub fn start(plan: &LogPlan, lines_max: usize) -> io::Result<(Self, LogSender)> {
        let sink = Sink::open(&plan.access)?;
        let settings = Settings {
            generation: 0,
            format: sink.is_some().then_some(plan.format),
        };
        let state = Arc::new(LogState::new(settings, lines_max));
        let (queue, messages) = mpsc::channel();
        let (running, done) = mpsc::channel::<()>();
        let writer = Writer {
            messages,
            state: Arc::clone(&state),
            generation: 0,
            current: sink,
            previous: None,
            changed_at: Instant::now(),
        };
        let thread = std::thread::Builder::new()
            .name(String::from("access-log"))
            .spawn(move || {
                writer.run();
                drop(running);
            })?;
        let sender = LogSender { state, queue };
        Ok((
            Self {
                sender: sender.clone(),
                done,
                thread,
            },
            sender,
        ))
    }

    /// Its counters.
    #[must_use]
    pub fn state(&self) -> Arc<LogState> {
        Arc::clone(&self.sender.state)
    }

    /// Reopens the file after it was renamed. If that fails, the old file stays in use.
    pub fn reopen(&self) {
        self.send(Message::Reopen);
    }

    /// Opens another target, for [`change`](Self::change).
    ///
    /// # Errors
    /// The new file cannot be opened.
    pub fn prepare(plan: &LogPlan, lines_max: usize) -> io::Result<LogChange> {
        Ok(LogChange {
            sink: Sink::open(&plan.access)?,
            format: plan.format,
            lines_max,
        })
    }

    /// Switches to another target, format and limit.
    pub fn change(&self, change: LogChange) {
        let state = &self.sender.state;
        let format = change.sink.is_some().then_some(change.format);
        let settings = state.settings().next(format);
        self.send(Message::Change(settings.generation, change.sink));
        state.lines_max.store(change.lines_max, Relaxed);
        // A worker that sees the new settings sends after the message above.
        state.settings.store(settings.pack(), Release);
    }

    /// Writes the lines that workers handed over, and ends the thread. Waits for at most 5 s.
    pub fn stop(self) {
        self.send(Message::Stop);
        match self.done.recv_timeout(STOP_WAIT) {
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let lines = self.sender.state.lines_waiting();
                tracing::error!(
                    "the access log's target accepts no more data; {lines} lines are lost"
                );
            }
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
                if self.thread.join().is_err() {
                    tracing::error!(
                        "the access log's thread ended before it was told to; please report it"
                    );
                }
            }
        }
    }

    fn send(&self, message: Message) {
        if self.sender.queue.send(message).is_err() {
            tracing::error!("the access log's thread has ended; please report it");
        }
    }
}

/// New settings; the new target is already open.
#[derive(Debug)]
pub struct LogChange {
    sink: Option<Sink>,
    format: LogFormat,
    lines_max: usize,
}

struct Writer {
    messages: mpsc::Receiver<Message>,
    state: Arc<LogState>,
    generation: u32,
    current: Option<Sink>,
    previous: Option<Sink>,
    /// When the previous one was replaced.
    changed_at: Instant,
}

impl Writer {
    fn run(mut self) {
        while let Some(message) = self.next() {
            match message {
                Message::Lines(batch) => self.write(&batch),
                Message::Reopen => {
                    if let Some(sink) = &mut self.current {
                        sink.reopen();
                    }
                }
                Message::Change(generation, sink) => {
                    self.generation = generation;
                    self.previous = std::mem::replace(&mut self.current, sink);
                    self.changed_at = Instant::now();
                }
                Message::Stop => return,
            }
        }
    }

    /// `None` if all senders are gone.
    fn next(&mut self) -> Option<Message> {
        if self.previous.is_some()
            && let Some(left) = PREVIOUS_KEPT.checked_sub(self.changed_at.elapsed())
        {
            match self.messages.recv_timeout(left) {
                Ok(message) => return Some(message),
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
        self.previous = None;
        self.messages.recv().ok()
    }

    fn write(&mut self, batch: &Batch) {
        let sink = if batch.generation == self.generation {
            &mut self.current
        } else {
            &mut self.previous
        };
        let lost = sink
            .as_mut()
            .map_or(batch.lines, |sink| sink.write(&batch.bytes));
        self.state.lines_lost.add(lost as u64);
        self.state
            .lines_written
            .add(batch.lines.saturating_sub(lost) as u64);
        self.state.release(batch.lines, batch.bytes.len());
    }
}

/// An open target.
#[derive(Debug)]
pub(super) struct Sink {
    target: LogTarget,
    name: String,
    file: File,
    /// The last write ended within a line.
    torn: bool,
    /// Lines lost since writing began to fail.
    lost: Option<usize>,
}

impl Sink {
    /// `None`: off.
    fn open(target: &LogTarget) -> io::Result<Option<Self>> {
        let (name, file) = match target {
            LogTarget::Off => return Ok(None),
            LogTarget::Stdout => (
                "stdout".into(),
                File::from(io::stdout().as_fd().try_clone_to_owned()?),
            ),
            LogTarget::Stderr => (
                "stderr".into(),
                File::from(io::stderr().as_fd().try_clone_to_owned()?),
            ),
            LogTarget::File(path) => {
                let name = path.display().to_string();
                // Without O_NONBLOCK, opening a FIFO waits for its reader.
                let mut options = OpenOptions::new();
                options
                    .append(true)
                    .create(true)
                    .mode(0o640)
                    .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
                let file = options
                    .open(path)
                    .map_err(|error| cannot_open(&name, &error))?;
                (name, file)
            }
        };
        Ok(Some(Self {
            target: target.clone(),
            name,
            file,
            torn: false,
            lost: None,
        }))
    }

    fn reopen(&mut self) {
        match Self::open(&self.target) {
            Ok(Some(sink)) => *self = sink,
            Ok(None) => {}
            Err(error) => tracing::error!("{error}; carrick continues to write the old file"),
        }
    }

    /// Writes whole lines; returns how many were lost.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let (written, result) = self.try_write(bytes);
        let (done, rest) = bytes.split_at(written.min(bytes.len()));
        let lost = memchr::memchr_iter(b'\n', rest).count();
        if let (Err(_), Some(last)) = (&result, done.last()) {
            self.torn = *last != b'\n';
        }
        match (result, self.lost) {
            (Ok(()), None) => {}
            (Ok(()), Some(before)) => {
                tracing::info!(
                    "writing the access log {} works again; {before} lines were lost",
                    self.name
                );
                self.lost = None;
            }
            (Err(error), None) => {
                tracing::error!(
                    "cannot write the access log {}: {error}; lines are dropped until it works",
                    self.name
                );
                self.lost = Some(lost);
            }
            (Err(_), Some(before)) => self.lost = Some(before.saturating_add(lost)),
        }
        lost
    }

    /// How many bytes were written, and the error if not all.
    fn try_write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let give_up = Instant::now() + STALL_MAX;
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            // What follows a torn line must start on a new line.
            match self.file.write(if self.torn { b"\n" } else { rest }) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(_) if self.torn => self.torn = false,
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < give_up =>
                {
                    wait_writable(&self.file);
                }
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }
}

/// Privileges are dropped before the log is opened, so the user's own rights apply.
fn cannot_open(name: &str, error: &io::Error) -> io::Error {
    let advice = if error.kind() == io::ErrorKind::PermissionDenied {
        let uid = rustix::process::geteuid();
        format!(
            "; carrick runs as user {uid} without privileges: allow it to write the file, and the directory if the file does not exist"
        )
    } else {
        String::new()
    };
    let text = format!("cannot open the access log {name}: {error}{advice}");
    io::Error::new(error.kind(), text)
}

/// Returns when the file accepts bytes again, after 100 ms, or on an error, which the next write will report.
fn wait_writable(file: &File) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    let _ = poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&limit));
}

#[cfg(test)]
mod tests;
