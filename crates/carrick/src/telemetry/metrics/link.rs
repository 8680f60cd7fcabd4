//! A worker's link counters: connections to other carricks, and connections relayed over them.
use carrick_splice::Counter;

/// Counters of both ends of links.
#[derive(Debug, Default)]
pub struct LinkMetrics {
    /// Connections to peers that were opened.
    pub opened: Counter,
    /// Connections to peers that could not be opened, or whose peer speaks another protocol.
    pub failed: Counter,
    /// Connections that ended; opened less closed are open.
    pub closed: Counter,
    /// Connections that became idle.
    pub idle_added: Counter,
    /// Idle connections that were used or ended; added less removed are idle.
    pub idle_removed: Counter,
    /// Relayed connections sent over a link.
    pub relayed: Counter,
    /// Of these, those over a connection that had been used before.
    pub reused: Counter,
    /// Of these, those that the far end refused.
    pub refused: Counter,
    /// Relayed connections that ended because their link connection did; at both ends.
    pub lost: Counter,
    /// Connections that went directly to their servers, because there was no link connection.
    pub direct: Counter,
    /// Protocol violations by peers; at both ends.
    pub malformed: Counter,
    /// Relayed bytes sent to peers; at both ends.
    pub bytes_sent: Counter,
    /// Relayed bytes received from peers; at both ends.
    pub bytes_received: Counter,
}

impl LinkMetrics {
    /// Connections to peers that are open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        super::difference(&self.opened, &self.closed)
    }

    /// Idle connections to peers.
    #[must_use]
    pub fn idle(&self) -> u64 {
        super::difference(&self.idle_added, &self.idle_removed)
    }
}
