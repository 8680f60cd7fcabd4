//! What can go wrong with a request, by kind for counting and in words for reading.

use std::fmt;
use std::io;

/// Why a request failed. `Display` gives the words, [`Fault::kind`] the kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// No connection.
    Connect(io::ErrorKind, String),
    /// The connection broke.
    Reset {
        /// The kernel's words.
        error: String,
        /// How far the response was.
        progress: Progress,
    },
    /// The connection ended before the response did.
    ClosedEarly(Progress),
    /// The answer took too long.
    Timeout {
        /// The limit, in seconds.
        limit_seconds: f64,
        /// How far the response was.
        progress: Progress,
    },
    /// Another status than 200.
    Status(u16),
    /// Not HTTP, or not what was agreed on the connection.
    Garbled(String),
    /// The body's length is not what was asked for.
    WrongLength {
        /// As the response has it.
        received: u64,
        /// As asked for.
        expected: u64,
        /// Whether the head announced it, or the body turned out so.
        announced: bool,
    },
    /// Bytes after the end of the response.
    Surplus(u64),
    /// A byte of the body is not what was sent.
    WrongByte {
        /// Its place, from 0.
        at: u64,
        /// What came.
        received: u8,
        /// What was sent.
        expected: u8,
    },
}

/// How far a response was when its connection ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Whether the whole head was there.
    pub head: bool,
    /// Bytes of the head, if it was not whole.
    pub head_bytes: u64,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Whether the connection had carried a response before.
    pub reused: bool,
}

impl Fault {
    /// For counting: one of the kinds that [`super::outcome::ClassOutcome::failed`] lists.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Connect(..) => Kind::Connect,
            Self::Reset { .. } => Kind::Reset,
            Self::ClosedEarly(_) => Kind::ClosedEarly,
            Self::Timeout { .. } => Kind::Timeout,
            Self::Status(status) => Kind::Status(*status),
            Self::Garbled(_) => Kind::Garbled,
            Self::WrongLength { .. } | Self::Surplus(_) => Kind::WrongLength,
            Self::WrongByte { .. } => Kind::WrongByte,
        }
    }
}

/// A kind of failure; `Display` gives its name in the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "as in `Fault`")]
pub enum Kind {
    Connect,
    Reset,
    ClosedEarly,
    Timeout,
    Status(u16),
    Garbled,
    WrongLength,
    WrongByte,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connect => "connect",
            Self::Reset => "reset",
            Self::ClosedEarly => "closed_early",
            Self::Timeout => "timeout",
            Self::Status(status) => return write!(formatter, "status_{status}"),
            Self::Garbled => "garbled",
            Self::WrongLength => "wrong_length",
            Self::WrongByte => "wrong_byte",
        })
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(_, error) => write!(formatter, "cannot connect: {error}"),
            Self::Reset { error, progress } => {
                write!(formatter, "the connection broke {progress}: {error}")
            }
            Self::ClosedEarly(progress) => {
                write!(formatter, "the connection was closed {progress}")
            }
            Self::Timeout {
                limit_seconds,
                progress,
            } => write!(
                formatter,
                "not finished after {limit_seconds} s, given up {progress}"
            ),
            Self::Status(status) => write!(formatter, "the answer was {status} instead of 200"),
            Self::Garbled(why) => write!(formatter, "the answer is garbled: {why}"),
            Self::WrongLength {
                received,
                expected,
                announced,
            } => {
                let verb = if *announced { "announces" } else { "has" };
                write!(
                    formatter,
                    "the response {verb} a body of {received} bytes instead of {expected}"
                )
            }
            Self::Surplus(bytes) => write!(
                formatter,
                "{bytes} bytes came after the end of the response"
            ),
            Self::WrongByte {
                at,
                received,
                expected,
            } => write!(
                formatter,
                "byte {at} of the body (counted from 0) is {received:#04x} instead of {expected:#04x}"
            ),
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.head, self.head_bytes) {
            (true, _) => write!(formatter, "after {} bytes of the body", self.body_bytes),
            (false, 0) => formatter.write_str("before any byte of the response"),
            (false, bytes) => write!(formatter, "after {bytes} bytes of the head"),
        }?;
        if self.reused {
            formatter.write_str(" (on a connection that had carried a response before)")?;
        }
        Ok(())
    }
}
