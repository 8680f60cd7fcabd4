//! One way: bytes flow from one connection to the other until the agreed end.

use crate::{Choice, Ended, Engine, Fault, HandOver, Splicer};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tokio::net::TcpStream;

/// Where a transfer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After exactly so many bytes from the sender's connection. The next byte stays in the sender's socket.
    AfterBytes(u64),
    /// When the sender closes its side.
    EndOfStream,
}

/// Who gets a copy of the body.
#[derive(Default)]
pub enum LocalCopy<'a> {
    /// Nobody.
    #[default]
    None,
    /// This function, piece by piece, in order, without gaps.
    To(&'a mut dyn FnMut(&[u8])),
    /// This file, at its offset, which moves on. Writing to it may block the thread for as long as the disk takes.
    File(BorrowedFd<'a>),
}

/// The least rate at which bytes must move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateMin {
    /// Bytes per second, both sides taken together: what arrives and is passed on.
    pub bytes_per_second: u64,
    /// The rate is looked at once per this interval, over this interval. The first one is thus the time of grace.
    pub grace: Duration,
}

/// What a [`Transfer`] is asked to do.
pub struct Order<'a> {
    /// The engine.
    pub choice: Choice,
    /// The end.
    pub end: End,
    /// Bytes that the caller holds already. They go first, and in the same segments as the first bytes of the body if
    /// these are there; they never wait for the body. They are not counted in `end` and not given to `local_copy`.
    pub prefix: &'a [u8],
    /// End when the receiver sends something, with [`Ended::Input`]. That it closes its side does not count.
    pub stop_on_input: bool,
    /// At the end of the stream: `shutdown(SHUT_WR)` on the receiver's connection once everything is written.
    pub pass_end: bool,
    /// Who gets a copy of the body.
    pub local_copy: LocalCopy<'a>,
    /// If the receiver goes away while a local copy is wanted, so many more bytes are read for the copy.
    pub keep_reading_bytes_max: u64,
    /// End with [`Ended::Idle`] after no byte moved for so long. Noticed within a quarter of it.
    pub idle: Duration,
    /// End with [`Ended::TooSlow`] below this rate.
    pub rate_min: Option<RateMin>,
    /// How many bytes are expected, for [`Choice::Auto`], if `end` does not say it.
    pub expected: Option<u64>,
}

impl Order<'_> {
    /// An order with `choice: Auto`, one minute of `idle`, and nothing else asked for.
    #[must_use]
    pub fn new(end: End) -> Self {
        Order {
            choice: Choice::Auto,
            end,
            prefix: &[],
            stop_on_input: false,
            pass_end: false,
            local_copy: LocalCopy::None,
            keep_reading_bytes_max: 0,
            idle: Duration::from_secs(60),
            rate_min: None,
            expected: None,
        }
    }
}

/// A transfer one way, made by [`Splicer::transfer`].
pub struct Transfer<'a> {
    splicer: Splicer,
    from: &'a TcpStream,
    to: &'a TcpStream,
    order: Order<'a>,
}

impl<'a> Transfer<'a> {
    pub(crate) fn new(
        splicer: Splicer,
        from: &'a TcpStream,
        to: &'a TcpStream,
        order: Order<'a>,
    ) -> Self {
        Transfer {
            splicer,
            from,
            to,
            order,
        }
    }

    /// Moves bytes until the end. It may be dropped at any moment and called again: the state lives in the transfer.
    ///
    /// # Errors
    /// A [`Fault`] when one of the connections fails.
    pub async fn run(&mut self) -> Result<Ended, Fault> {
        unimplemented!()
    }

    /// Bytes of the body written to the receiver so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        unimplemented!()
    }

    /// The engine in use, or used last.
    #[must_use]
    pub fn engine(&self) -> Engine {
        unimplemented!()
    }

    /// Takes the connections back: what was taken from the sender and not written comes back, in order.
    #[must_use]
    pub fn unsplice(self) -> HandOver {
        unimplemented!()
    }
}
