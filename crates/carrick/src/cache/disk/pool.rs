//! The disk's own threads: whatever may wait for the medium is done by them.
//!
//! Three queues. What somebody waits for goes first; removing and other small things come next, as they make room; writing
//! comes last, in no more threads than leave some for the rest. Now and then the last are first.
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Threads.
pub(super) const THREADS: usize = 4;

/// Threads that write at one time.
const WRITERS: usize = 2;

/// One task of so many is not one that somebody waits for, if there are others.
const OTHERS_TURN: u32 = 4;

/// Things that somebody waits for. Who finds as many before him does without the disk.
const READS_MAX: usize = 1024;

/// Bytes that wait to be written. What does not fit is not written.
pub(super) const WRITE_BYTES_MAX: u64 = 64 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// The threads, and what they have to do.
pub(super) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    queues: Mutex<Queues>,
    wake: Condvar,
}

#[derive(Default)]
struct Queues {
    reads: VecDeque<Job>,
    chores: VecDeque<Job>,
    writes: VecDeque<(u64, Job)>,
    /// Of those that wait and of those under way.
    write_bytes: u64,
    writing: usize,
    working: usize,
    /// Tasks that were looked for, ever.
    taken: u32,
    /// What the threads do is over.
    is_over: bool,
}

/// There is too much to do already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busy;

impl Pool {
    /// One without threads: its work is done by [`work`](Self::work).
    pub(super) fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                queues: Mutex::default(),
                wake: Condvar::new(),
            }),
        }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// The system has none left.
    pub(super) fn start(&self) -> io::Result<()> {
        for number in 0..THREADS {
            let shared = Arc::clone(&self.shared);
            std::thread::Builder::new()
                .name(format!("disk-{number}"))
                .spawn(move || shared.run())?;
        }
        Ok(())
    }

    /// Has something done for which somebody waits.
    pub(super) fn read(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        let mut queues = self.shared.lock();
        if queues.reads.len() >= READS_MAX || queues.is_over {
            return Err(Busy);
        }
        queues.reads.push_back(Box::new(job));
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Has something small done. There is never more of it than there are files.
    pub(super) fn chore(&self, job: impl FnOnce() + Send + 'static) {
        self.shared.lock().chores.push_back(Box::new(job));
        self.shared.wake.notify_one();
    }

    /// Has so many bytes written.
    pub(super) fn write(
        &self,
        bytes: u64,
        job: impl FnOnce() + Send + 'static,
    ) -> Result<(), Busy> {
        let mut queues = self.shared.lock();
        let after = queues.write_bytes.saturating_add(bytes);
        // One that is larger than all that may wait goes alone.
        if (bytes > 0 && after > WRITE_BYTES_MAX && queues.write_bytes > 0) || queues.is_over {
            return Err(Busy);
        }
        queues.write_bytes = after;
        queues.writes.push_back((bytes, Box::new(job)));
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Bytes that wait to be written.
    pub(super) fn write_bytes(&self) -> u64 {
        self.shared.lock().write_bytes
    }

    /// Does everything that there is, in this thread.
    #[cfg(test)]
    pub(super) fn work(&self) {
        while let Some(task) = { self.shared.lock().next() } {
            self.shared.finish(task);
        }
    }

    /// Waits until nothing is left to do, `limit` at most; whether that is so.
    pub(super) fn finish(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut queues = self.shared.lock();
        while !queues.is_idle() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.wake.wait_timeout(queues, left);
            queues = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.wake.notify_all();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a pool of {THREADS} threads")
    }
}

enum Task {
    Other(Job),
    Write(u64, Job),
}

impl Shared {
    fn run(&self) {
        let mut queues = self.lock();
        loop {
            if let Some(task) = queues.next() {
                drop(queues);
                self.finish(task);
                queues = self.lock();
            } else if queues.is_over {
                return;
            } else {
                let waited = self.wake.wait(queues);
                queues = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn finish(&self, task: Task) {
        let bytes = match task {
            Task::Other(job) => {
                job();
                None
            }
            Task::Write(bytes, job) => {
                job();
                Some(bytes)
            }
        };
        let mut queues = self.lock();
        queues.working -= 1;
        if let Some(bytes) = bytes {
            queues.writing -= 1;
            queues.write_bytes -= bytes;
        }
        // A writer may go on, or somebody wait for the end.
        if bytes.is_some() || queues.is_idle() {
            self.wake.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    fn next(&mut self) -> Option<Task> {
        self.taken = self.taken.wrapping_add(1);
        // However much is read, the rest goes on, too.
        let task = if self.taken.is_multiple_of(OTHERS_TURN) {
            self.chore()
                .or_else(|| self.write())
                .or_else(|| self.read())
        } else {
            self.read()
                .or_else(|| self.chore())
                .or_else(|| self.write())
        }?;
        self.working += 1;
        Some(task)
    }

    fn read(&mut self) -> Option<Task> {
        self.reads.pop_front().map(Task::Other)
    }

    fn chore(&mut self) -> Option<Task> {
        self.chores.pop_front().map(Task::Other)
    }

    fn write(&mut self) -> Option<Task> {
        if self.writing == WRITERS {
            return None;
        }
        let (bytes, job) = self.writes.pop_front()?;
        self.writing += 1;
        Some(Task::Write(bytes, job))
    }

    fn is_idle(&self) -> bool {
        self.working == 0
            && self.reads.is_empty()
            && self.chores.is_empty()
            && self.writes.is_empty()
    }
}
