//! What may wait unread at a connection (`limits.unread`): set once, before the process passes on what comes.
use super::io::Stream;
use super::transport::Transport;
use carrick_splice::tcp::UnreadLimit;

/// What a connection has of it.
#[derive(Debug, Clone, Copy)]
pub enum Unread {
    /// Nothing yet: it will be so many bytes; 0: never.
    ToCome(u32),
    /// It is set.
    Set(UnreadLimit),
}

impl Unread {
    /// With `limits.unread`.
    #[must_use]
    pub fn new(bytes: u32) -> Self {
        match bytes {
            0 => Self::Set(UnreadLimit::default()),
            bytes => Self::ToCome(bytes),
        }
    }

    /// Sets it, unless it is set. For those who tell an [`UnreadWindow`](carrick_splice::tcp::UnreadWindow) what they read.
    pub fn begin(&mut self, transport: &Transport) -> UnreadLimit {
        match (*self, transport.tcp()) {
            (Self::Set(limit), _) => limit,
            (Self::ToCome(_), None) => UnreadLimit::default(),
            (Self::ToCome(bytes), Some(stream)) => {
                // Without it, it is a connection all the same.
                let limit = UnreadLimit::begin(stream, bytes).unwrap_or_default();
                *self = Self::Set(limit);
                limit
            }
        }
    }

    /// For those who do not: only if the peer is near.
    pub fn begin_if_near(&mut self, transport: &Transport) {
        let Some(stream) = transport.tcp() else {
            return;
        };
        match *self {
            Self::Set(limit) => limit.lift(stream),
            Self::ToCome(bytes) => {
                let _ = UnreadLimit::begin_if_near(stream, bytes);
            }
        }
    }
}
