//! Decides whether a response leaves a server's connection fit for another request; no other place does.
//!
//! A pinned one carries its own client's only. One that is not [current](super::group::Group::is_current) carries none.
use carrick_splice::DisarmError;

/// The result of taking a client's and a server's connection back from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disarmed {
    /// The process has both, and knows every request that the server got.
    Done,
    /// The kernel still has them, and has forwarded requests that the process does not know yet.
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

/// The state of a server's connection that its client no longer needs. Read all of it after the kernel has returned the
/// connection: until then another request may be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtRest {
    /// Whether the process has the connection, and knows every request.
    pub disarmed: Disarmed,
    /// Whether no response is in progress.
    pub is_over: bool,
    /// Whether each response ended where its head said, and the server expects another request: no further byte can follow.
    pub is_exact: bool,
    /// Whether the kernel has seen the server's end, or unsolicited bytes.
    pub has_server_ended: bool,
    /// Bytes of requests that the server has not acknowledged; `None` after an error.
    pub unacknowledged_bytes: Option<u64>,
    /// Whether neither bytes nor an end are waiting in the socket.
    pub is_quiet: bool,
}

impl AtRest {
    /// Whether the connection may return to the idle pool. If not, it is closed.
    #[must_use]
    pub fn may_be_reused(&self) -> bool {
        self.disarmed == Disarmed::Done
            && self.is_over
            && self.is_exact
            && !self.has_server_ended
            // Bytes that answered a request before the server received it could also answer the next one, which is another client's.
            && self.unacknowledged_bytes == Some(0)
            && self.is_quiet
    }
}

#[cfg(test)]
mod tests;
