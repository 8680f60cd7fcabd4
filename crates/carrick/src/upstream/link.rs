//! The connections of one worker to the other end of a link, as they are kept.
use super::link_connection::Connection;
use crate::config::plan::LinkPlan;
use crate::net::io::peek;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// A link as one worker uses it.
#[derive(Debug)]
pub struct Link {
    /// What the configuration says.
    pub plan: Arc<LinkPlan>,
    pub(crate) idle: RefCell<VecDeque<Connection>>,
    pub(crate) opening: Cell<usize>,
    pub(crate) failed: Cell<Option<Instant>>,
    /// A reload has changed it, or taken it away: nothing is kept any more.
    pub(crate) is_retired: Cell<bool>,
}

impl Link {
    /// Those of a plan; what is as it was is taken over from `previous`.
    #[must_use]
    pub fn all(plans: &[Arc<LinkPlan>], previous: &[Rc<Self>]) -> Vec<Rc<Self>> {
        let links: Vec<Rc<Self>> = plans
            .iter()
            .map(|plan| {
                let same = previous.iter().find(|link| link.plan == *plan);
                same.map_or_else(|| Rc::new(Self::new(plan)), Rc::clone)
            })
            .collect();
        for old in previous {
            if !links.iter().any(|link| Rc::ptr_eq(link, old)) {
                old.is_retired.set(true);
                // Their drop counts them; those in use follow when they are given back.
                old.idle.take();
            }
        }
        links
    }

    fn new(plan: &Arc<LinkPlan>) -> Self {
        Self {
            plan: Arc::clone(plan),
            idle: RefCell::default(),
            opening: Cell::new(0),
            failed: Cell::new(None),
            is_retired: Cell::new(false),
        }
    }

    /// How many connections wait for something to carry.
    pub fn idle_count(&self) -> usize {
        self.idle.borrow().len()
    }

    /// The connection that was used last, and is still good.
    pub fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        std::iter::from_fn(|| idle.pop_back()).find(is_quiet)
    }

    /// Closes what the other end has closed.
    pub fn drop_dead(&self) {
        self.idle.borrow_mut().retain(is_quiet);
    }
}

/// Nothing has come on a connection that waits, neither data nor an end.
fn is_quiet(connection: &Connection) -> bool {
    peek(&connection.stream) == Err(rustix::io::Errno::AGAIN)
}
