//! What a worker counts of links: connections to other carricks, and what is relayed over them.
use carrick_splice::Counter;

/// Counters of both ends of links.
#[derive(Debug, Default)]
pub struct LinkMetrics {
    /// Connections to peers that were opened.
    pub opened: Counter,
    /// Connections to peers that could not be opened, or whose peer speaks something else.
    pub failed: Counter,
    /// Those that ended; opened less closed are open.
    pub closed: Counter,
    /// Connections that began to wait for something to carry.
    pub idle_added: Counter,
    /// Those that carry something, or have ended, meanwhile; added less removed are idle.
    pub idle_removed: Counter,
    /// Relayed connections that were sent over a link.
    pub relayed: Counter,
    /// Of these, those over a connection that had carried others before.
    pub reused: Counter,
    /// Of these, those that the far end has refused.
    pub refused: Counter,
    /// Relayed connections that ended because the connection over the link did; at both ends.
    pub lost: Counter,
    /// Connections that went directly to their servers, because there was none over the link.
    pub direct: Counter,
    /// What peers sent and must not send; at both ends.
    pub malformed: Counter,
    /// Relayed bytes that were sent to peers; at both ends.
    pub bytes_sent: Counter,
    /// Relayed bytes that came from peers; at both ends.
    pub bytes_received: Counter,
}

impl LinkMetrics {
    /// Connections to peers that are open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        super::difference(&self.opened, &self.closed)
    }

    /// Connections to peers that wait for something to carry.
    #[must_use]
    pub fn idle(&self) -> u64 {
        super::difference(&self.idle_added, &self.idle_removed)
    }
}
