//! Which workers have taken up a new plan: a reload is done when all have.
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What is known of the workers that are to take up a plan.
#[derive(Debug)]
pub struct Followers {
    known: Mutex<Known>,
    changed: Notify,
}

#[derive(Debug)]
struct Known {
    /// Numbers of those that have not said anything yet.
    missing: Vec<usize>,
    /// What went wrong.
    errors: Vec<String>,
}

impl Followers {
    /// For this many workers, none of which has followed.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        let known = Known {
            missing: (0..workers).collect(),
            errors: Vec::new(),
        };
        Self {
            known: Mutex::new(known),
            changed: Notify::new(),
        }
    }

    /// Notes that a worker has followed, or what kept it from that.
    pub fn has_followed(&self, worker: usize, result: Result<(), String>) {
        let mut known = self.known();
        known.missing.retain(|missing| *missing != worker);
        let error = result.err().map(|why| format!("worker {worker}: {why}"));
        known.errors.extend(error);
        drop(known);
        self.changed.notify_one();
    }

    /// Waits for all of them.
    pub async fn all(&self) {
        while !self.known().missing.is_empty() {
            self.changed.notified().await;
        }
    }

    /// Whether all have followed.
    ///
    /// # Errors
    /// Which ones have not, and why.
    pub fn outcome(&self) -> Result<(), String> {
        let known = self.known();
        let silent = known.missing.iter();
        let silent = silent.map(|worker| format!("worker {worker} does not answer"));
        let errors: Vec<String> = known.errors.iter().cloned().chain(silent).collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors.join("; ")),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn a_reload_is_done_when_the_last_worker_has_followed() {
        let followers = Followers::new(2);
        let mut all = pin!(followers.all());
        let mut context = Context::from_waker(Waker::noop());
        for worker in [1, 0] {
            assert!(all.as_mut().poll(&mut context).is_pending());
            let missing = followers.outcome().unwrap_err();
            assert!(missing.contains("worker 0 does not answer"), "{missing}");
            followers.has_followed(worker, Ok(()));
        }
        assert!(all.as_mut().poll(&mut context).is_ready());
        assert_eq!(followers.outcome(), Ok(()));
    }

    #[test]
    fn a_reload_has_failed_when_a_worker_cannot_follow() {
        let followers = Followers::new(3);
        followers.has_followed(1, Err("bind 127.0.0.1:80: in use".to_owned()));
        followers.has_followed(0, Ok(()));
        let why = "worker 1: bind 127.0.0.1:80: in use; worker 2 does not answer";
        assert_eq!(followers.outcome(), Err(why.to_owned()));
    }
}
