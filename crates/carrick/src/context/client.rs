//! A client, as those see it who serve it.
use super::downstream::Downstream;
use super::live::WorkerLive;
use super::request_context::RequestContext;
use super::worker::Worker;
use crate::config::plan::ListenerPlan;
use crate::net::transport::Transport;
use crate::net::unread::Unread;
use carrick_splice::PaceHandle;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A client that is connected.
pub struct Client {
    /// What its requests are decided, fetched and logged by.
    pub context: RequestContext,
    /// Its connection.
    pub downstream: Downstream,
}

impl Client {
    /// For a connection that was accepted.
    #[must_use]
    pub fn new(
        worker: Rc<Worker>,
        live: Rc<WorkerLive>,
        listener: Arc<ListenerPlan>,
        (transport, address): (Transport, SocketAddr),
    ) -> Self {
        let unread = Unread::new(live.plan().limits.unread);
        Self {
            context: RequestContext::new(worker, live, listener, address),
            downstream: Downstream::new(transport, unread),
        }
    }

    /// How what is spliced for it is paced, to the server and to the client: see [`KeptPace::of`](super::pace::KeptPace::of).
    pub fn paced(&mut self, class: Option<usize>) -> [PaceHandle; 2] {
        self.downstream.pace.of(&self.context, class)
    }
}

/// What follows a request.
pub enum Next {
    /// Another request may come.
    Request,
    /// The connection is closed at once.
    Close,
    /// The connection is closed so that what was just sent arrives.
    CloseGently,
    /// The connection is reset, so that the client notices that the response is not whole.
    Reset,
}
