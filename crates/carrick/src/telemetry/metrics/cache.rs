//! What a worker counts of the cache.
use super::{Counter, Histogram};

/// What the cache did for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheResult {
    /// It was answered from the store, fresh.
    Hit,
    /// The same, from the disk: it was not in memory, or its body is not.
    HitDisk,
    /// As a hit, with the answer to somebody else's request, for which it had waited.
    Collapsed,
    /// It was answered from the store after the origin had said that this is still right.
    Revalidated,
    /// It was answered from the store out of date, as the origin, the client or the configuration allows.
    Stale,
    /// It went to the origin, since nothing that could be sent was stored.
    Miss,
    /// It was answered from the second level.
    Shared,
    /// It was answered by a cache peer, which had it.
    CachePeer,
    /// It went to the origin by `cache_bypass`, or because its URL has no key.
    Bypass,
    /// It was refused: nothing was stored, and it wanted nothing else (`only-if-cached`).
    Refused,
}

impl CacheResult {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Hit,
        Self::HitDisk,
        Self::Collapsed,
        Self::Revalidated,
        Self::Stale,
        Self::Miss,
        Self::Shared,
        Self::CachePeer,
        Self::Bypass,
        Self::Refused,
    ];

    /// Its name in metrics and in the access log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::HitDisk => "hit-disk",
            Self::Collapsed => "collapsed",
            Self::Revalidated => "revalidated",
            Self::Stale => "stale",
            Self::Miss => "miss",
            Self::Shared => "shared",
            Self::CachePeer => "peer",
            Self::Bypass => "bypass",
            Self::Refused => "refused",
        }
    }

    /// Whether the origin did not have to send the body.
    #[must_use]
    pub const fn spares_origin(self) -> bool {
        matches!(
            self,
            Self::Hit
                | Self::HitDisk
                | Self::Collapsed
                | Self::Revalidated
                | Self::Stale
                | Self::Shared
                | Self::CachePeer
        )
    }
}

/// What became of an object that a page embeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// It was asked for.
    Asked,
    /// It has come, or what is stored was found to be right, and can be sent.
    Stored,
    /// A client has asked for it, and got it out of the store.
    Used,
    /// It is of another host or port, or not by `http`.
    Foreign,
    /// The listener's rules forbid it, or have no cache for it.
    Denied,
    /// It was stored already.
    Fresh,
    /// Somebody was asking for it.
    InFlight,
    /// The origin's answer may not be stored, or could not lately.
    NotStored,
    /// It was larger than objects may be, or the page's objects were together.
    TooLarge,
    /// So much was being fetched already, or the page has so many.
    TooMany,
    /// It did not come, or not to its end.
    Failed,
    /// The page's client had gone.
    Aborted,
}

impl Ahead {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Asked,
        Self::Stored,
        Self::Used,
        Self::Foreign,
        Self::Denied,
        Self::Fresh,
        Self::InFlight,
        Self::NotStored,
        Self::TooLarge,
        Self::TooMany,
        Self::Failed,
        Self::Aborted,
    ];

    /// Its name in metrics and in `/status`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Stored => "stored",
            Self::Used => "used",
            Self::Foreign => "foreign",
            Self::Denied => "denied",
            Self::Fresh => "fresh",
            Self::InFlight => "in_flight",
            Self::NotStored => "not_stored",
            Self::TooLarge => "too_large",
            Self::TooMany => "too_many",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
        }
    }
}

/// Requests by what the cache did for them, and what came of that.
#[derive(Debug, Default)]
pub struct CacheMetrics {
    requests: [Counter; CacheResult::ALL.len()],
    ahead: [Counter; Ahead::ALL.len()],
    /// Pages that were read for what they embed.
    pub pages: Counter,
    /// Requests that waited for the answer to another one.
    pub waited: Counter,
    /// Bytes of bodies that were sent out of the store without the origin's having sent them for that.
    pub bytes_saved: Counter,
    /// Answers that went into the store.
    pub stored: Counter,
    /// Answers that did not.
    pub not_stored: Counter,
    /// Objects taken out because an unsafe method changed what they are copies of.
    pub invalidated: Counter,
    /// Validations in the background.
    pub refreshes: Counter,
    /// How long it took to bring something from the disk.
    pub disk_seconds: Histogram,
    /// Bodies that were not fetched to their end because nobody waited for them.
    pub fills_given_up: Counter,
    /// Time to look for something in the store.
    pub find_seconds: Histogram,
    /// Time from a request's first byte to the first of an answer that the origin was not asked for.
    pub first_byte_seconds: Histogram,
}

impl CacheMetrics {
    /// Requests with this result.
    #[must_use]
    pub fn requests(&self, result: CacheResult) -> &Counter {
        &self.requests[result as usize]
    }

    /// Objects of pages of which this became.
    #[must_use]
    pub fn ahead(&self, what: Ahead) -> &Counter {
        &self.ahead[what as usize]
    }

    /// Counts a request that is over, for which so many bytes of a body were sent.
    pub fn count(&self, result: CacheResult, sent_bytes: u64) {
        self.requests(result).add(1);
        if result.spares_origin() {
            self.bytes_saved.add(sent_bytes);
        }
    }
}
