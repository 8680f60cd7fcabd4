//! Whether a server's connection may carry another client's request: the one place where that is decided.
use carrick_splice::DisarmError;

/// What came of taking a client's and a server's connection back from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disarmed {
    /// The process has both, and knows of each request that went to the server.
    Done,
    /// The kernel has them still, and has forwarded requests that the process does not know of yet.
    Behind,
    /// Neither can be used any more.
    Lost,
}

impl From<Result<(), DisarmError>> for Disarmed {
    fn from(result: Result<(), DisarmError>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(DisarmError::Behind) => Self::Behind,
            Err(DisarmError::Lost(_)) => Self::Lost,
        }
    }
}

/// What is known of a server's connection whose client needs it no longer. All of it has to be read after the kernel has given it back: until
/// then another request may be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtRest {
    /// Whether the process has the connection, and knows of each request.
    pub disarmed: Disarmed,
    /// Whether no response is under way.
    pub is_over: bool,
    /// Whether each response has ended where its head said, and the server expects another request: no byte of one can follow.
    pub is_exact: bool,
    /// Whether the kernel has seen the server's end, or bytes that no request asked for.
    pub has_server_ended: bool,
    /// Bytes of requests that the server has not acknowledged; `None` after an error.
    pub unacknowledged_bytes: Option<u64>,
    /// Whether neither bytes nor an end wait in the socket.
    pub is_quiet: bool,
}

impl AtRest {
    /// Whether the connection may go back to those that are idle. If not, it is closed.
    #[must_use]
    pub fn may_be_reused(&self) -> bool {
        self.disarmed == Disarmed::Done
            && self.is_over
            && self.is_exact
            && !self.has_server_ended
            // Whatever has answered a request that the server does not have yet, may answer the next one, which is another client's.
            && self.unacknowledged_bytes == Some(0)
            && self.is_quiet
    }
}

#[cfg(test)]
mod tests;
