//! A worker's list of its tunnels: who is told of at admin, and by which number the kernel knows a splice.
use crate::telemetry::metrics::WorkerMetrics;
use crate::telemetry::tunnels::{About, LISTED_MAX, Tunnel};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Labels begin with the worker's number; the rest counts its tunnels.
const COUNT_BITS: u32 = 48;

/// The places of the list that are taken.
#[derive(Debug, Default)]
pub struct TunnelList {
    places: RefCell<Slab<()>>,
    begun: Cell<u64>,
}

impl TunnelList {
    /// A number for a tunnel of this worker that no other ever has.
    pub fn label(&self, worker: usize) -> u64 {
        let count = self.begun.get() + 1;
        self.begun.set(count);
        (worker as u64) << COUNT_BITS | count
    }
}

/// A tunnel that is in the list for as long as this lives.
pub struct Listed {
    tunnel: Arc<Tunnel>,
    place: usize,
    list: Rc<TunnelList>,
    metrics: Arc<WorkerMetrics>,
}

impl Listed {
    /// Puts a tunnel into the list of its worker. Takes no lock; with [`LISTED_MAX`] tunnels in it, it is left out.
    pub fn new(list: &Rc<TunnelList>, metrics: &Arc<WorkerMetrics>, about: About) -> Self {
        let tunnel = Arc::new(Tunnel::new(about));
        let place = list.places.borrow_mut().insert(());
        if place < LISTED_MAX {
            metrics.tunnels.set(place, Some(Arc::clone(&tunnel)));
        }
        Self {
            tunnel,
            place,
            list: Rc::clone(list),
            metrics: Arc::clone(metrics),
        }
    }

    /// What is told of it.
    pub fn tunnel(&self) -> &Tunnel {
        &self.tunnel
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if self.place < LISTED_MAX {
            self.metrics.tunnels.set(self.place, None);
        }
        self.list.places.borrow_mut().remove(self.place);
    }
}

#[cfg(test)]
mod tests;
