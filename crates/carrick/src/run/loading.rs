//! The kernel's engines are loaded by a thread of their own, so that clients need not wait for the verifier.
//!
//! Capabilities, user, Landlock's rules and seccomp's filters belong to threads: this one has those of the start, and ends when it is done. It
//! starts no thread that would outlive it.
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
    /// Starts the thread, with the privileges that the caller has.
    pub(super) fn start(engines: &Engines, plan: &Arc<Plan>) -> io::Result<Self> {
        let (tell, done) = oneshot::channel();
        let (engines, plan) = (engines.clone(), Arc::clone(plan));
        let thread = std::thread::Builder::new()
            .name("loader".to_owned())
            .spawn(move || {
                let features = engines.load(&plan);
                // While there is still the right to do it.
                if let Err(error) = engines.packet.seal() {
                    tracing::warn!(
                        "engine packet: the interfaces by which packets are forwarded could not be fixed: {error}"
                    );
                }
                // Who does not listen any more has failed to start.
                let _ = tell.send(features);
            })?;
        Ok(Self {
            done,
            thread: Some(thread),
        })
    }

    /// What can be used, once the thread and its privileges are gone. May be given up and called again.
    pub(super) async fn features(&mut self) -> Features {
        let features = (&mut self.done).await;
        // It ends with what it said, or has panicked.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        features.unwrap_or_else(|_| {
            Engines::not_loaded("loading it has ended with a panic; please report it")
        })
    }
}
