//! Both ways: two connections joined until both have closed, one fails, or nothing moves any more.

use crate::{Choice, Engine, Fault, HandOver, Splicer};
use std::time::Duration;
use tokio::net::TcpStream;

/// What an [`Exchange`] is asked to do.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeOrder<'a> {
    /// The engine, for both directions. With `Auto` each direction adapts on its own.
    pub choice: Choice,
    /// Bytes that were read from `a` already: they go to `b` first.
    pub a_prefix: &'a [u8],
    /// Bytes that were read from `b` already: they go to `a` first.
    pub b_prefix: &'a [u8],
    /// End with [`ExchangeEnd::Idle`] after no byte moved either way for so long. Noticed within a quarter of it.
    pub idle: Duration,
}

impl Default for ExchangeOrder<'_> {
    /// `Auto`, no prefixes, one hour of `idle`.
    fn default() -> Self {
        ExchangeOrder {
            choice: Choice::Auto,
            a_prefix: &[],
            b_prefix: &[],
            idle: Duration::from_secs(3600),
        }
    }
}

/// How an [`Exchange`] ended.
#[derive(Debug)]
pub enum ExchangeEnd {
    /// Both sides have closed, and everything that they sent was passed on, the closing included.
    Closed,
    /// No byte moved for as long as `idle` says.
    Idle,
    /// One connection failed. What the other direction could still deliver was delivered. The caller should reset the
    /// other connection (see [`tcp::reset_on_close`](crate::tcp::reset_on_close)), so that its peer does not take a
    /// broken stream for a whole one.
    Fault {
        /// The direction in which it was noticed.
        a_to_b: bool,
        /// Which connection failed in this direction, and how.
        fault: Fault,
    },
}

/// A transfer both ways, made by [`Splicer::exchange`].
pub struct Exchange<'a> {
    splicer: Splicer,
    a: &'a TcpStream,
    b: &'a TcpStream,
    order: ExchangeOrder<'a>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(
        splicer: Splicer,
        a: &'a TcpStream,
        b: &'a TcpStream,
        order: ExchangeOrder<'a>,
    ) -> Self {
        Exchange {
            splicer,
            a,
            b,
            order,
        }
    }

    /// Moves bytes both ways until both directions have ended, a connection fails, or nothing moves for too long. It may
    /// be dropped at any moment and called again: the state lives in the exchange.
    pub async fn run(&mut self) -> ExchangeEnd {
        unimplemented!()
    }

    /// Bytes read from `a`'s connection and written to `b` so far, the prefix not counted.
    #[must_use]
    pub fn a_to_b_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// Bytes read from `b`'s connection and written to `a` so far, the prefix not counted.
    #[must_use]
    pub fn b_to_a_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// The engines in use, or used last: from `a` to `b`, and from `b` to `a`.
    #[must_use]
    pub fn engines(&self) -> (Engine, Engine) {
        unimplemented!()
    }

    /// Takes the connections back: what was taken from one side and not written to the other comes back, in order. First
    /// what belongs from `a` to `b`, then from `b` to `a`.
    #[must_use]
    pub fn unsplice(self) -> (HandOver, HandOver) {
        unimplemented!()
    }
}
