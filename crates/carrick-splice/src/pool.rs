//! The pools of pipes and copy buffers of one thread, and the handle that makes transfers and exchanges.

use crate::{Counters, Exchange, ExchangeOrder, Order, Transfer};
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpStream;

/// Bounds on what one [`Splicer`] holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolLimits {
    /// Pipes open at a time; beyond, transfers copy. Each is two descriptors.
    pub pipes_max: usize,
    /// Unused pipes that are kept.
    pub pipes_idle_max: usize,
    /// Size asked of each pipe, in bytes. The kernel may give less: `fs.pipe-max-size`, `fs.pipe-user-pages-soft`.
    pub pipe_bytes: usize,
    /// Size of each copy buffer, in bytes.
    pub copy_buffer_bytes: usize,
    /// Unused copy buffers that are kept.
    pub buffers_idle_max: usize,
}

impl Default for PoolLimits {
    fn default() -> PoolLimits {
        PoolLimits {
            pipes_max: 2048,
            pipes_idle_max: 64,
            pipe_bytes: 1 << 20,
            copy_buffer_bytes: 32 << 10,
            buffers_idle_max: 64,
        }
    }
}

/// Makes transfers and exchanges, and owns what they share: pipes, buffers, counters. A cheap handle; one per thread.
#[derive(Clone)]
pub struct Splicer(Rc<Pools>);

struct Pools {
    limits: PoolLimits,
    counters: Arc<Counters>,
}

impl Splicer {
    /// A splicer with empty pools.
    #[must_use]
    pub fn new(limits: PoolLimits, counters: Arc<Counters>) -> Splicer {
        Splicer(Rc::new(Pools { limits, counters }))
    }

    /// What this splicer did so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// The bounds that it was made with.
    #[must_use]
    pub fn limits(&self) -> &PoolLimits {
        &self.0.limits
    }

    /// A transfer one way. Nothing happens before [`Transfer::run`].
    pub fn transfer<'a>(
        &self,
        from: &'a TcpStream,
        to: &'a TcpStream,
        order: Order<'a>,
    ) -> Transfer<'a> {
        Transfer::new(self.clone(), from, to, order)
    }

    /// A transfer both ways. Nothing happens before [`Exchange::run`].
    pub fn exchange<'a>(
        &self,
        a: &'a TcpStream,
        b: &'a TcpStream,
        order: ExchangeOrder<'a>,
    ) -> Exchange<'a> {
        Exchange::new(self.clone(), a, b, order)
    }
}
