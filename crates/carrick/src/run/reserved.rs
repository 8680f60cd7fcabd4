//! What only one carrick may have, taken before anything else, and from a draining carrick once it has ended.
use crate::cache::disk::{Disk, FolderLock};
use crate::config::plan::Plan;
use crate::control::Control;
use crate::service::{END_MAX, ServiceManager};
use crate::transparent::{self, Claims};
use std::io;
use std::time::{Duration, Instant};

/// How often what a draining carrick has is tried again.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// What a running carrick would not release.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) claims: Claims,
    pub(super) disk: Option<FolderLock>,
}

impl Reserved {
    /// Takes it. If the carrick that has admin's address is draining, waits for its end: at most `timeouts.drain`, and what
    /// an end may take longer.
    ///
    /// # Errors
    /// Another carrick has something of it; says what to do.
    pub(super) async fn take(plan: &Plan, manager: &ServiceManager) -> io::Result<Self> {
        let limit = plan.timeouts.drain + END_MAX;
        let give_up_at = Instant::now() + limit;
        let mut seen_draining: Option<Instant> = None;
        loop {
            let error = match Self::try_take(plan) {
                Err(error) if is_taken(&error) => error,
                result => return result,
            };
            let now = Instant::now();
            if Control::has_draining_predecessor(plan) {
                if seen_draining.replace(now).is_none() {
                    tracing::info!(
                        "{error}. It is draining: waiting for its end, for at most {limit:?}"
                    );
                }
            } else if seen_draining.is_none() {
                // It may have ended meanwhile.
                return Self::try_take(plan);
            }
            // Admin is closed before the end.
            let is_ending = seen_draining.is_some_and(|seen| now.duration_since(seen) < END_MAX);
            if !is_ending || now >= give_up_at {
                return Err(error);
            }
            manager.starting(&format!("Waiting for the end of another carrick: {error}"));
            tokio::time::sleep(RETRY_EVERY).await;
        }
    }

    fn try_take(plan: &Plan) -> io::Result<Self> {
        transparent::check_privileges(plan)?;
        let disk = plan.cache.as_ref().and_then(|cache| cache.disk.as_ref());
        let disk = disk.map(Disk::lock_folder).transpose().map_err(|why| {
            io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("`disk` of [cache]: {why}"),
            )
        })?;
        Ok(Self {
            claims: Claims::take(plan)?,
            disk,
        })
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrInUse | io::ErrorKind::ResourceBusy
    )
}
