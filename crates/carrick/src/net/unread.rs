//! The limit on unread bytes of a connection (`limits.unread`): set once, before the process relays incoming bytes.
use super::transport::Transport;
use carrick_splice::tcp::UnreadLimit;
use std::io;
use tokio::net::TcpStream;

/// The limit's state on a connection.
#[derive(Debug, Clone, Copy)]
pub enum Unread {
    /// Not set yet; the value to set, 0 for none.
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

    /// Sets it, unless it is set. For callers that report reads to an [`UnreadWindow`](carrick_splice::tcp::UnreadWindow).
    pub fn begin(&mut self, transport: &Transport) -> UnreadLimit {
        self.begin_by(transport, UnreadLimit::begin)
    }

    /// The same, once some bytes were read.
    pub fn begin_late(&mut self, transport: &Transport) -> UnreadLimit {
        self.begin_by(transport, UnreadLimit::begin_late)
    }

    fn begin_by(
        &mut self,
        transport: &Transport,
        begin: fn(&TcpStream, u32) -> io::Result<UnreadLimit>,
    ) -> UnreadLimit {
        match (*self, transport.socket()) {
            (Self::Set(limit), _) => limit,
            (Self::ToCome(_), None) => UnreadLimit::default(),
            (Self::ToCome(bytes), Some(stream)) => {
                // The connection works without the limit.
                let limit = begin(stream, bytes).unwrap_or_default();
                *self = Self::Set(limit);
                limit
            }
        }
    }

    /// For other callers: sets it only if the peer is near.
    pub fn begin_if_near(&mut self, transport: &Transport) {
        let Some(stream) = transport.socket() else {
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
