//! How a transfer ended: as agreed, by a fault, or taken back by its owner.

use crate::Engine;
use std::io;

/// Where a transfer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After exactly so many bytes from the sender's connection. The next byte stays in the sender's socket, or, if the kernel
    /// had it in its hands already, is given back by [`unsplice`](crate::Transfer::unsplice) ([`HandOver::surplus`]). If the sender
    /// closes before, the transfer ends with [`Ended::EndOfStream`].
    AfterBytes(u64),
    /// When the sender closes its side.
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
    /// The receiver took nothing, and the owner wanted the memory back ([`Splicer::end_stalled`](crate::Splicer::end_stalled)).
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
    /// Whose connection failed: the sender's, or the receiver's, which usually went away.
    pub side: Side,
    /// The system call that told.
    pub call: &'static str,
    /// What it told.
    pub source: io::Error,
}

/// What the owner gets back by `unsplice`: both connections stand exactly here.
#[derive(Debug)]
pub struct HandOver {
    /// Bytes of the body that were written to the receiver. The prefix is not in it.
    pub bytes: u64,
    /// Bytes that were taken from the sender and not written to the receiver, in order. They belong before whatever the
    /// sender's connection yields next.
    pub unsent: Vec<u8>,
    /// Bytes from behind the agreed end that the kernel had taken from the sender's connection already: they belong before
    /// whatever it yields next. Only with the socket engine and a sender that goes on behind the end.
    pub surplus: Vec<u8>,
    /// How many bytes at the end of the prefix were not written to the receiver. They belong before `unsent`.
    pub prefix_unsent: usize,
    /// The engine used last.
    pub engine: Engine,
    /// Bytes of the body that the local copy received.
    pub copied_bytes: u64,
    /// Whether the local copy reached the end of the body: also possible after the receiver went away, if
    /// `keep_reading_bytes_max` allowed it. If so and the end is a byte count, the sender's connection stands at the
    /// boundary.
    pub copy_complete: bool,
}
