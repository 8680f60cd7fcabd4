//! The configuration in force, as a worker sees it: the shared plan, and the worker's own state for each upstream.
use crate::config::plan::{ListenerPlan, Plan};
use crate::context::followers::Followers;
use crate::engines::RouteTables;
use crate::upstream::group::Group;
use crate::upstream::link::Link;
use crate::upstream::state::UpstreamState;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A plan in force, shared by all threads.
#[derive(Debug)]
pub struct Live {
    /// Counts the plans of this process, from 0.
    pub generation: u64,
    /// The plan.
    pub plan: Arc<Plan>,
    /// The state of its upstreams, in the plan's order.
    pub upstreams: Vec<Arc<UpstreamState>>,
    /// The kernel's tables of its routes.
    pub route_tables: RouteTables,
    /// The workers that have taken it up.
    pub followers: Followers,
}

/// A plan in force, with what one worker keeps for it.
#[derive(Debug)]
pub struct WorkerLive {
    /// The shared part.
    pub live: Arc<Live>,
    /// Balancers and idle connections, in the order of the plan's upstreams.
    pub groups: Vec<Rc<Group>>,
    /// Connections to other carricks, in the order of the plan's links.
    pub links: Vec<Rc<Link>>,
}

impl WorkerLive {
    /// Makes a worker's state for `live`; the idle connections of servers that stay are taken over from `previous`.
    #[must_use]
    pub fn new(live: Arc<Live>, worker: usize, previous: Option<&Self>) -> Self {
        let groups = live
            .upstreams
            .iter()
            .map(|state| {
                let before = previous.and_then(|known| {
                    known
                        .groups
                        .iter()
                        .find(|group| group.state.plan.name == state.plan.name)
                });
                Rc::new(Group::new(
                    Arc::clone(state),
                    worker as u64,
                    before.map(Rc::as_ref),
                ))
            })
            .collect();
        for group in previous.iter().flat_map(|known| &known.groups) {
            group.retire();
        }
        let links = Link::all(
            &live.plan.links,
            previous.map_or(&[][..], |known| &known.links),
        );
        Self {
            live,
            groups,
            links,
        }
    }

    /// The listener with this address, if the plan (still) has it.
    #[must_use]
    pub fn listener(&self, address: SocketAddr) -> Option<Arc<ListenerPlan>> {
        self.live
            .plan
            .listeners
            .iter()
            .find(|listener| listener.address == address)
            .cloned()
    }

    /// The listener whose packets have this mark, if the plan (still) has it.
    #[must_use]
    pub fn listener_of(&self, mark: u32) -> Option<Arc<ListenerPlan>> {
        let mut listeners = self.live.plan.listeners.iter();
        let found = listeners.find(|listener| {
            let interception = listener.interception.as_ref();
            interception.is_some_and(|one| one.mark == mark)
        });
        found.cloned()
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.live.plan
    }
}

/// What all workers are told.
#[derive(Debug, Clone)]
pub struct Orders {
    /// The plan in force.
    pub live: Arc<Live>,
    /// Whether to drain.
    pub draining: bool,
    /// Whether to end at once what is still under way.
    pub cut_off: bool,
}
