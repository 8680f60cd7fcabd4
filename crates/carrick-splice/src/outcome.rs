//! How a transfer ended: at its boundary, by a fault, or taken back by its owner.

use crate::Engine;
use std::io;

/// Where a transfer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After exactly this many bytes from the sender's connection. The next byte stays in the sender's
    /// socket, or, if the kernel had taken it already, [`unsplice`](crate::Transfer::unsplice) returns it
    /// ([`HandOver::surplus`]). If the sender closes before, the transfer ends with [`Ended::EndOfStream`].
    AfterBytes(u64),
    /// At the sender's FIN.
    EndOfStream,
}

/// How a transfer ended without a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The agreed number of bytes was written to the receiver.
    Bytes,
    /// The sender closed its side, and everything before that was written to the receiver.
    EndOfStream,
    /// The receiver sent something (`stop_on_input`). Bytes may be in flight: `unsplice` gives them back.
    Input,
    /// No byte moved for as long as `idle` says.
    Idle,
    /// Fewer bytes moved than `rate_min` asks for.
    TooSlow,
    /// The receiver took nothing, and the owner reclaimed the memory
    /// ([`Splicer::end_stalled`](crate::Splicer::end_stalled)).
    Stalled,
}

/// One end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The connection that bytes are read from.
    From,
    /// The connection that bytes are written to.
    To,
}

/// A connection failed during a transfer.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed at the {}", match side { Side::From => "sender", Side::To => "receiver" })]
pub struct Fault {
    /// The connection that failed: the sender's, or the receiver's, whose peer usually went away.
    pub side: Side,
    /// The system call that reported it.
    pub call: &'static str,
    /// Its error.
    pub source: io::Error,
}

impl Fault {
    /// What `call` reported of the connection on this side.
    #[must_use]
    pub fn new(side: Side, call: &'static str, source: io::Error) -> Self {
        Self { side, call, source }
    }
}

/// The result of `unsplice`: both connections stand exactly here.
#[derive(Debug)]
pub struct HandOver {
    /// Bytes of the body that were written to the receiver. The prefix is not in it.
    pub bytes: u64,
    /// Bytes that were taken from the sender and not written to the receiver, in order. They belong before whatever the
    /// sender's connection yields next.
    pub unsent: Vec<u8>,
    /// Bytes beyond the boundary that the kernel had taken from the sender's connection already: they belong
    /// before whatever it yields next. Only with the socket engine and a sender that continues beyond the
    /// boundary.
    pub surplus: Vec<u8>,
    /// How many bytes at the end of the prefix were not written to the receiver. They belong before `unsent`.
    pub prefix_unsent: usize,
    /// The engine used last.
    pub engine: Engine,
    /// Bytes of the body that the local copy received.
    pub copied_bytes: u64,
    /// Whether the local copy is complete: possible even if the receiver failed, if `keep_reading_bytes_max`
    /// allowed it. If so and the end is a byte count, the sender's connection stands at the boundary.
    pub copy_complete: bool,
}
