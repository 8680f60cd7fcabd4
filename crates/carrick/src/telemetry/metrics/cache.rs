//! A worker's cache counters.
use super::{Counter, Histogram};

carrick_logic::named! {
    /// How the cache answered a request.
    pub enum CacheResult with name {
        /// From the store, fresh.
        Hit = "hit",
        /// The same, loaded from the disk, or with the body there.
        HitDisk = "hit-disk",
        /// As a hit, after waiting for another request's answer.
        Collapsed = "collapsed",
        /// From the store, after the origin validated it.
        Revalidated = "revalidated",
        /// From the store, stale, as the origin, the client or the configuration allows.
        Stale = "stale",
        /// From the origin, since nothing usable was stored.
        Miss = "miss",
        /// From the shared cache.
        Shared = "shared",
        /// By a cache peer that had it.
        CachePeer = "peer",
        /// From the origin, because of `cache_bypass` or a URL without a key.
        Bypass = "bypass",
        /// Refused: the request accepts only what is stored (`only-if-cached`), and nothing of that may be sent, or it bypasses the cache.
        Refused = "refused",
    }
}

impl CacheResult {
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

carrick_logic::named! {
    /// The result for an object embedded in a page.
    pub enum PrefetchResult with name {
        /// It was requested.
        Asked = "asked",
        /// It was fetched or validated, and can be sent.
        Stored = "stored",
        /// A client has requested it and got it from the store.
        Used = "used",
        /// It has another host, port or scheme.
        Foreign = "foreign",
        /// The listener's rules deny it, or do not cache it.
        Denied = "denied",
        /// It was stored already.
        Fresh = "fresh",
        /// It was being fetched already.
        InFlight = "in_flight",
        /// The answer may not be stored, or recently could not.
        NotStored = "not_stored",
        /// It exceeds the limit for one object, or the page's objects together exceed theirs.
        TooLarge = "too_large",
        /// Too many fetches in progress, or too many objects in the page.
        TooMany = "too_many",
        /// The fetch failed or broke off.
        Failed = "failed",
        /// The page's client has disconnected.
        Aborted = "aborted",
    }
}

/// Requests by cache result, and related counters.
#[derive(Debug, Default)]
pub struct CacheMetrics {
    requests: [Counter; CacheResult::ALL.len()],
    prefetches: [Counter; PrefetchResult::ALL.len()],
    /// Pages scanned for embedded objects.
    pub pages: Counter,
    /// Requests that waited for another request's answer.
    pub waited: Counter,
    /// Body bytes sent from the store instead of from the origin.
    pub bytes_saved: Counter,
    /// Answers that were stored.
    pub stored: Counter,
    /// Answers that were not stored.
    pub not_stored: Counter,
    /// Objects removed because an unsafe method may have changed the resource.
    pub invalidated: Counter,
    /// Validations in the background.
    pub refreshes: Counter,
    /// Time to load an object from the disk.
    pub disk_seconds: Histogram,
    /// Bodies whose fetch was aborted because no client was waiting.
    pub fills_given_up: Counter,
    /// Time of a look-up in the store.
    pub find_seconds: Histogram,
    /// Time from a request's first byte to the first byte of an answer without the origin.
    pub first_byte_seconds: Histogram,
}

impl CacheMetrics {
    /// Requests with this result.
    #[must_use]
    pub fn requests(&self, result: CacheResult) -> &Counter {
        &self.requests[result as usize]
    }

    /// Embedded objects with this result.
    #[must_use]
    pub fn prefetches(&self, what: PrefetchResult) -> &Counter {
        &self.prefetches[what as usize]
    }

    /// Counts a finished request, with the number of body bytes sent.
    pub fn count(&self, result: CacheResult, sent_bytes: u64) {
        self.requests(result).add(1);
        if result.spares_origin() {
            self.bytes_saved.add(sent_bytes);
        }
    }
}
