//! The pools of pipes and copy buffers of one thread, and the handle that makes transfers and exchanges.

use crate::engine::sockmap::SocketEngine;
use crate::engine::tc::PacketEngine;
use crate::pacing::Pacer;
use crate::relay::pipe::Pipe;
use crate::relay::stalls;
use crate::relay::stalls::{Stalled, Stalls};
use crate::{Counters, PacketService, SocketService};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// After the kernel has refused a pipe, this many requests are refused without asking it.
const REQUESTS_BEFORE_RETRY: u32 = 64;

/// Limits of one [`Splicer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolLimits {
    /// Pipes open at a time; beyond that, transfers copy. Each takes two descriptors.
    pub pipes_max: usize,
    /// Unused pipes kept.
    pub pipes_idle_max: usize,
    /// Requested size of each pipe, in bytes. It limits the number of memory pieces in a pipe, one per 4 KB,
    /// rather than the bytes. The kernel may give less: `fs.pipe-max-size`, `fs.pipe-user-pages-soft`.
    pub pipe_bytes: usize,
    /// Size of each copy buffer, in bytes.
    pub copy_buffer_bytes: usize,
    /// Unused copy buffers kept.
    pub buffers_idle_max: usize,
}

impl Default for PoolLimits {
    fn default() -> PoolLimits {
        PoolLimits {
            pipes_max: 2048,
            pipes_idle_max: 64,
            // From 128 KB to 1 MB, requests/s and CPU time did not differ beyond a busy machine's noise; a
            // stalled receiver holds less with a smaller pipe.
            pipe_bytes: 256 << 10,
            // Copying 1 MB cost the process about 430 us with 64 KB, 475 us with 32 KB, 780 us with 16 KB.
            copy_buffer_bytes: 64 << 10,
            buffers_idle_max: 64,
        }
    }
}

/// Makes transfers and exchanges, and owns what they share: pipes, buffers, counters. A cheap handle; one per thread.
///
/// What it makes must be polled on the tokio runtime that the streams belong to, with I/O and time drivers
/// enabled. `SIGPIPE` must be ignored, as Rust programs do from the start: splice(2) has no `MSG_NOSIGNAL`.
#[derive(Clone)]
pub struct Splicer(Rc<Pools>);

struct Pools {
    limits: PoolLimits,
    counters: Arc<Counters>,
    socket: SocketService,
    packet: PacketService,
    pipes: RefCell<Vec<Pipe>>,
    pipes_open: Cell<usize>,
    refusals_left: Cell<u32>,
    buffers: RefCell<Vec<Box<[u8]>>>,
    pacer: OnceCell<Pacer>,
    stalls: Stalls,
}

impl Splicer {
    /// A splicer with empty pools.
    #[must_use]
    pub fn new(limits: PoolLimits, counters: Arc<Counters>) -> Splicer {
        Splicer::with_socket(limits, counters, SocketService::default())
    }

    /// A splicer that can also use the socket engine, once that is loaded.
    #[must_use]
    pub fn with_socket(
        limits: PoolLimits,
        counters: Arc<Counters>,
        socket: SocketService,
    ) -> Splicer {
        Splicer::with_engines(limits, counters, socket, PacketService::default())
    }

    /// A splicer that can also use the kernel's engines, once they are loaded.
    #[must_use]
    pub fn with_engines(
        limits: PoolLimits,
        counters: Arc<Counters>,
        socket: SocketService,
        packet: PacketService,
    ) -> Splicer {
        Splicer(Rc::new(Pools {
            limits: PoolLimits {
                copy_buffer_bytes: limits.copy_buffer_bytes.max(1),
                ..limits
            },
            counters,
            socket,
            packet,
            pipes: RefCell::default(),
            pipes_open: Cell::new(0),
            refusals_left: Cell::new(0),
            buffers: RefCell::default(),
            pacer: OnceCell::new(),
            stalls: Stalls::default(),
        }))
    }

    /// Sets the pacer; without one, no splice is paced. Only the first call counts.
    pub fn set_pacer(&self, pacer: Pacer) {
        // A second pacer would not know the splices that wait at the first.
        let _ = self.0.pacer.set(pacer);
    }

    /// The pacer of its splices.
    #[must_use]
    pub fn pacer(&self) -> Option<&Pacer> {
        self.0.pacer.get()
    }

    /// What splices hold in the kernel if their receivers have taken next to nothing for a second or longer.
    /// To be called periodically: costs two system calls per such splice.
    #[must_use]
    pub fn stalled(&self, now: Instant) -> Stalled {
        let stalled = self.0.stalls.look(now, stalls::held_bytes);
        self.0.counters.stalled_splices.set(stalled.splices);
        self.0.counters.stalled_bytes.set(stalled.bytes);
        stalled
    }

    /// Ends the longest stalled splices ([`Ended::Stalled`](crate::Ended::Stalled),
    /// [`ExchangeEnd::Stalled`](crate::ExchangeEnd::Stalled)) until this many bytes are free, by the last
    /// result of [`stalled`](Splicer::stalled). Returns how many.
    pub fn end_stalled(&self, bytes: u64) -> u64 {
        self.0.stalls.end_oldest(bytes)
    }

    /// Splices that have waited for their receivers.
    pub(crate) fn stalls(&self) -> &Stalls {
        &self.0.stalls
    }

    /// The counters of this splicer.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// The limits that it was made with.
    #[must_use]
    pub fn limits(&self) -> &PoolLimits {
        &self.0.limits
    }

    /// The socket engine, if it is loaded.
    pub(crate) fn socket_engine(&self) -> Option<&Arc<SocketEngine>> {
        self.0.socket.engine()
    }

    /// Whether the packet engine is loaded.
    #[must_use]
    pub fn has_packet_engine(&self) -> bool {
        self.packet_engine().is_some()
    }

    /// The packet engine, if it is loaded.
    pub(crate) fn packet_engine(&self) -> Option<&Arc<PacketEngine>> {
        self.0.packet.engine()
    }

    /// An empty pipe, if available.
    pub(crate) fn take_pipe(&self) -> Option<Pipe> {
        let pools = &*self.0;
        if let Some(pipe) = pools.pipes.borrow_mut().pop() {
            pools.counters.pipes_pooled.sub(1);
            return Some(pipe);
        }
        let opened = self.open_pipe();
        if opened.is_none() {
            pools.counters.pipes_refused.add(1);
        }
        opened
    }

    fn open_pipe(&self) -> Option<Pipe> {
        let pools = &*self.0;
        if pools.pipes_open.get() >= pools.limits.pipes_max {
            return None;
        }
        if pools.refusals_left.get() > 0 {
            pools.refusals_left.set(pools.refusals_left.get() - 1);
            return None;
        }
        match Pipe::open(pools.limits.pipe_bytes) {
            Ok(pipe) => {
                pools.pipes_open.set(pools.pipes_open.get() + 1);
                pools.counters.pipes_open.add(1);
                if pipe.size_bytes() < pools.limits.pipe_bytes {
                    pools.counters.pipes_small.add(1);
                }
                Some(pipe)
            }
            Err(_) => {
                pools.refusals_left.set(REQUESTS_BEFORE_RETRY);
                None
            }
        }
    }

    /// Returns a pipe. Only an empty one is reused: leftover bytes would surface in another connection.
    pub(crate) fn put_pipe(&self, pipe: Pipe, left_bytes: usize) {
        let pools = &*self.0;
        let mut pipes = pools.pipes.borrow_mut();
        if left_bytes == 0 && pipes.len() < pools.limits.pipes_idle_max {
            pipes.push(pipe);
            pools.counters.pipes_pooled.add(1);
        } else {
            pools
                .pipes_open
                .set(pools.pipes_open.get().saturating_sub(1));
            pools.counters.pipes_open.sub(1);
            pools.counters.pipes_closed.add(1);
        }
    }

    /// A copy buffer.
    #[inline]
    pub(crate) fn take_buffer(&self) -> Box<[u8]> {
        let pools = &*self.0;
        pools.counters.buffers_in_use.add(1);
        match pools.buffers.borrow_mut().pop() {
            Some(buffer) => {
                pools.counters.buffers_pooled.sub(1);
                buffer
            }
            None => vec![0; pools.limits.copy_buffer_bytes].into_boxed_slice(),
        }
    }

    /// Returns a copy buffer, or one that [`shrink`](Splicer::shrink) made.
    #[inline]
    pub(crate) fn put_buffer(&self, buffer: Box<[u8]>) {
        self.0.counters.buffers_in_use.sub(1);
        self.pool_buffer(buffer);
    }

    /// A buffer just large enough for `bytes`, in place of `buffer`, which returns to the pool.
    pub(crate) fn shrink(&self, buffer: &mut Box<[u8]>, bytes: std::ops::Range<usize>) {
        let small = Box::from(&buffer[bytes]);
        self.pool_buffer(std::mem::replace(buffer, small));
    }

    #[inline]
    fn pool_buffer(&self, buffer: Box<[u8]>) {
        let pools = &*self.0;
        let mut buffers = pools.buffers.borrow_mut();
        if buffer.len() == pools.limits.copy_buffer_bytes
            && buffers.len() < pools.limits.buffers_idle_max
        {
            buffers.push(buffer);
            pools.counters.buffers_pooled.add(1);
        }
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        let pooled = self.pipes.borrow().len() as u64;
        self.counters.pipes_pooled.sub(pooled);
        self.counters.pipes_open.sub(pooled);
        self.counters
            .buffers_pooled
            .sub(self.buffers.borrow().len() as u64);
    }
}
