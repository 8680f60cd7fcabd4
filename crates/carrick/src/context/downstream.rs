//! A client's connection, and its state.
use super::kernel_forward::KernelForward;
use super::pace::KeptPace;
use crate::net::admission::Admitted;
use crate::net::deadline::Timer;
use crate::net::transport::Transport;
use crate::net::unread::Unread;
use crate::syn_defer::Kept;
use carrick_splice::tcp::UnreadLimit;
use std::cell::Cell;
use std::rc::Rc;

/// A client's connection with what belongs to it.
pub struct Downstream {
    /// The connection.
    pub transport: Transport,
    /// Its timer.
    pub timer: Timer,
    /// Its place among those that are let in.
    pub admitted: Option<Rc<Admitted>>,
    /// The server's connection whose responses the kernel forwards to it.
    pub kernel_forward: KernelForward,
    /// What it has of the class by which it is paced.
    pub pace: KeptPace,
    /// Whether the kernel may keep the end of an answer back, for the next one to go with it; see [`push_held`](Downstream::push_held).
    pub holds: Cell<bool>,
    /// Whether it is to end with the present request: its listener is no longer configured.
    pub is_last: bool,
    /// The server's connection that stood before this one did.
    pub kept: Cell<Option<Box<Kept>>>,
    /// What of the client may wait to be read; see [`limit_unread`](Downstream::limit_unread).
    pub unread: Cell<Unread>,
}

impl Downstream {
    /// A connection that was accepted; `unread` limits what of the client may wait to be read.
    #[must_use]
    pub fn new(transport: Transport, unread: Unread) -> Self {
        Self {
            transport,
            timer: Timer::default(),
            admitted: None,
            kernel_forward: KernelForward::default(),
            pace: KeptPace::default(),
            holds: Cell::new(false),
            is_last: false,
            kept: Cell::default(),
            unread: Cell::new(unread),
        }
    }

    /// Limits what the kernel holds of bytes of the client that nobody has read: once for a connection, before much of it is relayed.
    pub fn limit_unread(&self) -> UnreadLimit {
        let mut unread = self.unread.get();
        let limit = unread.begin(&self.transport);
        self.unread.set(unread);
        limit
    }

    /// The same for a tunnel, once it has carried a little.
    pub fn limit_unread_late(&self) -> UnreadLimit {
        let mut unread = self.unread.get();
        let limit = unread.begin_late(&self.transport);
        self.unread.set(unread);
        limit
    }

    /// What the kernel has kept back of answers goes out now. To be called before whatever may have to be waited for.
    pub fn push_held(&self) {
        if self.holds.replace(false) {
            self.transport.push();
        }
    }
}
