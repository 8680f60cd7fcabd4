//! What the process's descriptors are for: clients, servers, pipes, and the rest.
use crate::cache::disk::open_files_max;
use crate::config::plan::Plan;
use crate::net::admission::Admission;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are not for clients and upstreams: listeners, epoll, log, admin, pipes that are kept. Where there are few, it is half of them.
const DESCRIPTORS_RESERVED: u64 = 128;

/// Raises the soft limit on descriptors to the hard limit; the limit then in force.
pub(super) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum {
        // A failure leaves the lower limit, which is what is then read.
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

/// Of what clients, servers and pipes have together, pipes have so much of it at most: who gets none copies.
const PIPES_SHARE: u64 = 16;

/// What is left of the descriptors for clients, servers and pipes.
fn for_connections(plan: &Plan, descriptors: u64) -> u64 {
    let has_disk = (plan.cache.as_ref()).is_some_and(|cache| cache.disk.is_some());
    let files = if has_disk { open_files_max() } else { 0 };
    descriptors - (DESCRIPTORS_RESERVED + files).min(descriptors / 2)
}

/// Cuts the limit on pipes to what the descriptors allow: two for each, in each worker.
pub(super) fn fit_pipes(plan: &mut Plan, descriptors: u64) {
    let share = for_connections(plan, descriptors) / PIPES_SHARE;
    let each = share / 2 / plan.workers.max(1) as u64;
    plan.limits.pipes = (plan.limits.pipes).min(usize::try_from(each).unwrap_or(usize::MAX));
}

/// Sets the limits on clients, so that each finds a descriptor for its connection to a server as well. Further ones wait in the kernel's queue.
pub(super) fn set_limits(admission: &Admission, plan: &Plan, descriptors: u64) {
    let asked = plan.limits.connections;
    let pipes = 2 * plan.limits.pipes as u64 * plan.workers as u64;
    let both = for_connections(plan, descriptors).saturating_sub(pipes);
    let both = usize::try_from(both).unwrap_or(usize::MAX);
    let possible = (both / 2).max(1);
    if asked > possible {
        tracing::info!(
            "[limits] connections = {asked}, but {descriptors} descriptors a process allow {possible} clients, each with a connection to a server; raise the limit (`LimitNOFILE=`, `ulimit -n`)"
        );
    }
    let clients = asked.min(possible);
    let upstreams = both.saturating_sub(clients).max(1);
    admission.set_limits(clients, plan.limits.connections_per_client, upstreams);
}
