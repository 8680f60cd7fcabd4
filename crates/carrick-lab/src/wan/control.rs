//! What a running emulator can be told from another thread: to stop, to say its counts, to follow another specification.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

use anyhow::{Context as _, Result};
use rustix::event::{EventfdFlags, eventfd};

use crate::wan::spec::{WanCounts, WanSpec};

/// Something to be done between two packets.
#[derive(Debug)]
pub(crate) enum Order {
    Stop,
    Counts(SyncSender<WanCounts>),
    Replace(WanSpec),
}

/// Tells a running emulator what to do. Dropped, it ends the emulator.
#[derive(Debug)]
pub struct Handle {
    sender: Sender<Order>,
    bell: Arc<OwnedFd>,
}

/// The emulator's end.
#[derive(Debug)]
pub struct Orders {
    receiver: Receiver<Order>,
    bell: Arc<OwnedFd>,
}

/// Both ends, for [`run`](crate::wan::run).
///
/// # Errors
/// When the kernel gives no event descriptor.
pub fn pair() -> Result<(Handle, Orders)> {
    let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
    let bell = Arc::new(eventfd(0, flags).context("eventfd: cannot make one")?);
    let (sender, receiver) = mpsc::channel();
    let handle = Handle {
        sender,
        bell: Arc::clone(&bell),
    };
    Ok((handle, Orders { receiver, bell }))
}

impl Handle {
    /// Ends the emulator; packets that wait are not sent any more.
    pub fn stop(&self) {
        self.send(Order::Stop);
    }

    /// What it did until now; `None`: it has ended.
    #[must_use]
    pub fn counts(&self) -> Option<WanCounts> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.send(Order::Counts(sender));
        receiver.recv().ok()
    }

    /// Lets it follow another specification, which was checked, and read addresses and routes again. Counts and states
    /// begin anew; packets that are on their way arrive as was decided.
    pub fn replace(&self, spec: WanSpec) {
        self.send(Order::Replace(spec));
    }

    fn send(&self, order: Order) {
        // It fails if the emulator has ended.
        if self.sender.send(order).is_ok() {
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Orders {
    /// Readable when there is an order.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes all orders, and silences the bell.
    pub(crate) fn take(&self) -> Vec<Order> {
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        self.receiver.try_iter().collect()
    }
}
