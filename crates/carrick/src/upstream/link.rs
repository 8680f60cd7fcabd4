//! One worker's idle connections to the other end of a link.
use super::link_connection::Connection;
use crate::config::plan::LinkPlan;
use crate::net::io::peek;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// One worker's view of a link.
#[derive(Debug)]
pub struct Link {
    /// The configuration.
    pub plan: Arc<LinkPlan>,
    pub(crate) idle: RefCell<VecDeque<Connection>>,
    pub(crate) opening: Cell<usize>,
    pub(crate) failed: Cell<Option<Instant>>,
    /// A reload has changed or removed it: connections are no longer kept.
    pub(crate) is_retired: Cell<bool>,
}

impl Link {
    /// The links of a plan; unchanged ones are taken from `previous`.
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
                // Dropping them counts them; those in use follow when they are returned.
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

    /// Number of idle connections.
    pub fn idle_count(&self) -> usize {
        self.idle.borrow().len()
    }

    /// The most recently used connection that is still usable.
    pub fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        std::iter::from_fn(|| idle.pop_back()).find(is_quiet)
    }

    /// Closes connections that the other end has closed.
    pub fn drop_dead(&self) {
        self.idle.borrow_mut().retain(is_quiet);
    }
}

/// Neither data nor an end has arrived on an idle connection.
fn is_quiet(connection: &Connection) -> bool {
    peek(&*connection.stream) == Err(rustix::io::Errno::AGAIN)
}
