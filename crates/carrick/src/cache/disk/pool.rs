//! The disk's threads, for all calls that may wait for the medium.
//!
//! There are three queues: first reads, for which requests wait; then chores, such as removing, which makes room; last writes, which
//! never use all threads. Now and then chores and writes come first.
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of threads.
pub(super) const THREADS: usize = 4;

/// Threads that write at the same time, at most.
const WRITERS: usize = 2;

/// One of so many jobs is a chore or a write, if there is one.
const OTHERS_TURN: u32 = 4;

/// With so many queued reads, those that may be refused are.
const READS_MAX: usize = 1024;

/// Queued bytes to write, at most. Further ones are refused.
pub(super) const WRITE_BYTES_MAX: u64 = 64 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// The threads and their queues.
pub(super) struct ThreadPool {
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
    /// Bytes of writes that are queued or under way.
    write_bytes: u64,
    writing: usize,
    working: usize,
    /// Counts the jobs that were looked for.
    taken: u32,
    /// The pool was dropped: the threads end.
    is_over: bool,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busy;

impl ThreadPool {
    /// A pool whose threads are not started.
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
    /// The system starts no more threads.
    pub(super) fn start(&self) -> io::Result<()> {
        for number in 0..THREADS {
            let shared = Arc::clone(&self.shared);
            std::thread::Builder::new()
                .name(format!("disk-{number}"))
                .spawn(move || shared.run())?;
        }
        Ok(())
    }

    /// Queues a job that a request waits for.
    pub(super) fn read(&self, job: impl FnOnce() + Send + 'static) {
        self.shared.lock().reads.push_back(Box::new(job));
        self.shared.wake.notify_one();
    }

    /// Queues a job that a request waits for, unless many do.
    pub(super) fn try_read(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        if self.shared.lock().reads.len() >= READS_MAX {
            return Err(Busy);
        }
        self.read(job);
        Ok(())
    }

    /// Queues a small job. There are never more of them than files.
    pub(super) fn chore(&self, job: impl FnOnce() + Send + 'static) {
        self.shared.lock().chores.push_back(Box::new(job));
        self.shared.wake.notify_one();
    }

    /// Queues a job that writes so many bytes.
    pub(super) fn write(
        &self,
        bytes: u64,
        job: impl FnOnce() + Send + 'static,
    ) -> Result<(), Busy> {
        let mut queues = self.shared.lock();
        let after = queues.write_bytes.saturating_add(bytes);
        // A write that is larger than the limit is queued alone.
        if (bytes > 0 && after > WRITE_BYTES_MAX && queues.write_bytes > 0) || queues.is_over {
            return Err(Busy);
        }
        queues.write_bytes = after;
        queues.writes.push_back((bytes, Box::new(job)));
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Bytes of writes that are queued or under way.
    pub(super) fn write_bytes(&self) -> u64 {
        self.shared.lock().write_bytes
    }

    /// Does all queued jobs in this thread.
    #[cfg(test)]
    pub(super) fn work(&self) {
        while let Some(task) = { self.shared.lock().next() } {
            self.shared.finish(task);
        }
    }

    /// Waits until all jobs are done, `limit` at most; `false`: some are not.
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

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.wake.notify_all();
    }
}

impl fmt::Debug for ThreadPool {
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
        // Another thread may write now, or `finish` waits.
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
        // However many reads there are, chores and writes make progress.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn what_must_be_read_is_not_refused_although_many_wait() {
        let (pool, done) = (ThreadPool::new(), Arc::<AtomicUsize>::default());
        let job = || {
            let done = Arc::clone(&done);
            move || _ = done.fetch_add(1, Ordering::Relaxed)
        };
        while pool.try_read(job()).is_ok() {}
        pool.read(job());
        pool.work();
        assert_eq!(done.load(Ordering::Relaxed), READS_MAX + 1);
        assert!(pool.try_read(job()).is_ok());
    }
}
