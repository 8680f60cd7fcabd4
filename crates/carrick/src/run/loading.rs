//! Loads the kernel engines in a thread of its own, so that clients do not wait for the BPF verifier.
//!
//! Capabilities, user IDs, Landlock rules and seccomp filters are per thread: this thread keeps those of the start, exits when it is done, and
//! leaves no thread behind.
use crate::config::plan::Plan;
use crate::engines::{Engines, Features};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Engines that are being loaded.
pub(super) struct Loading {
    done: oneshot::Receiver<Features>,
    thread: Option<JoinHandle<()>>,
}

impl Loading {
    /// Starts the thread with the caller's privileges.
    pub(super) fn start(engines: &Engines, plan: &Arc<Plan>) -> io::Result<Self> {
        let (tell, done) = oneshot::channel();
        let (engines, plan) = (engines.clone(), Arc::clone(plan));
        let thread = std::thread::Builder::new()
            .name("loader".to_owned())
            .spawn(move || {
                let features = engines.load(&plan);
                // Needs the start-up privileges.
                if let Err(error) = engines.packet.seal() {
                    tracing::warn!(
                        "engine packet: cannot determine the interfaces to forward packets on: {error}"
                    );
                }
                // The receiver is gone if start-up has failed.
                let _ = tell.send(features);
            })?;
        Ok(Self {
            done,
            thread: Some(thread),
        })
    }

    /// The usable features, once the thread and its privileges are gone. Cancel-safe.
    pub(super) async fn features(&mut self) -> Features {
        let features = (&mut self.done).await;
        // The thread has returned its result, or panicked.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        features.unwrap_or_else(|_| {
            Engines::not_loaded("the thread that loads it panicked; please report it")
        })
    }
}
