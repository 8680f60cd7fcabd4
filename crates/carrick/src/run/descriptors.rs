//! Divides the process's file descriptors among clients, servers, pipes and the rest.
use crate::cache::disk::open_files_max;
use crate::config::plan::Plan;
use crate::net::admission::Admission;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for epoll, log, admin and spare pipes, beside those of listeners and the disk; at most half of the limit.
const DESCRIPTORS_RESERVED: u64 = 128;

/// Raises the soft limit on descriptors to the hard limit. Returns the limit in force.
pub(super) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum {
        // If it fails, the next line reads the old limit.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                maximum: limit.maximum,
            },
        );
    }
    descriptor_limit()
}

pub(super) fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Pipes get at most this share of the descriptors for clients, servers and pipes. A splice without a pipe copies.
const PIPES_SHARE: u64 = 16;

/// The descriptors that remain for clients, servers and pipes.
fn for_connections(plan: &Plan, descriptors: u64) -> u64 {
    let has_disk = (plan.cache.as_ref()).is_some_and(|cache| cache.disk.is_some());
    let files = if has_disk { open_files_max() } else { 0 };
    let listening = (plan.listeners.len() * plan.workers) as u64;
    descriptors - (DESCRIPTORS_RESERVED + files + listening).min(descriptors / 2)
}

/// Reduces the limit on pipes to what the descriptors allow: two for each pipe, in each worker.
pub(super) fn fit_pipes(plan: &mut Plan, descriptors: u64) {
    let share = for_connections(plan, descriptors) / PIPES_SHARE;
    let each = share / 2 / plan.workers.max(1) as u64;
    plan.limits.pipes = (plan.limits.pipes).min(usize::try_from(each).unwrap_or(usize::MAX));
}

/// Limits clients so that each has a descriptor for its server connection, too. Further clients wait in the accept queue.
pub(super) fn set_limits(admission: &Admission, plan: &Plan, descriptors: u64) {
    let asked = plan.limits.connections;
    let pipes = 2 * plan.limits.pipes as u64 * plan.workers as u64;
    let both = for_connections(plan, descriptors).saturating_sub(pipes);
    let both = usize::try_from(both).unwrap_or(usize::MAX);
    let possible = (both / 2).max(1);
    if asked > possible {
        tracing::info!(
            "[limits] connections = {asked}, but the limit of {descriptors} file descriptors allows only {possible} clients with a server connection each; raise it (`LimitNOFILE=`, `ulimit -n`)"
        );
    }
    let clients = asked.min(possible);
    let upstreams = both.saturating_sub(clients).max(1);
    admission.set_limits(clients, plan.limits.connections_per_client, upstreams);
}
