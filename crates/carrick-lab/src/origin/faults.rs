//! What can go wrong on demand.

use serde::Serialize;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// RST in the middle of the body.
    Reset,
    /// FIN in the middle of the body.
    Close,
    /// A pause in the middle of the body.
    Stall,
    /// Noise instead of the head, then FIN.
    Garbage,
    /// More bytes than `Content-Length` says.
    Long,
    /// FIN instead of the head.
    Refuse,
    /// A chunk whose length is no number, then FIN.
    BadChunk,
}

impl FaultKind {
    /// All of them; the place in this list is [`FaultKind::index`].
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Close,
        Self::Stall,
        Self::Garbage,
        Self::Long,
        Self::Refuse,
        Self::BadChunk,
    ];

    /// Its name, as a request writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Close => "close",
            Self::Stall => "stall",
            Self::Garbage => "garbage",
            Self::Long => "long",
            Self::Refuse => "refuse",
            Self::BadChunk => "bad-chunk",
        }
    }

    /// The kind that has a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its place in [`FaultKind::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A fault that is to be made while a body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which.
    pub kind: FaultKind,
    /// Body bytes before it; for [`FaultKind::Long`], the bytes too many.
    pub after: u64,
    /// How long a stall lasts, in milliseconds.
    pub stall_ms: u64,
}
