//! A worker's cache counters.
use super::{Counter, Histogram};

/// How the cache answered a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheResult {
    /// From the store, fresh.
    Hit,
    /// The same, loaded from the disk, or with the body there.
    HitDisk,
    /// As a hit, after waiting for another request's answer.
    Collapsed,
    /// From the store, after the origin validated it.
    Revalidated,
    /// From the store, stale, as the origin, the client or the configuration allows.
    Stale,
    /// From the origin, since nothing usable was stored.
    Miss,
    /// From the shared cache.
    Shared,
    /// By a cache peer that had it.
    CachePeer,
    /// From the origin, because of `cache_bypass` or a URL without a key.
    Bypass,
    /// Refused: nothing was stored and the request allowed nothing else (`only-if-cached`).
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

/// The result for an object embedded in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchResult {
    /// It was requested.
    Asked,
    /// It was fetched or validated, and can be sent.
    Stored,
    /// A client has requested it and got it from the store.
    Used,
    /// It has another host, port or scheme.
    Foreign,
    /// The listener's rules deny it, or do not cache it.
    Denied,
    /// It was stored already.
    Fresh,
    /// It was being fetched already.
    InFlight,
    /// The answer may not be stored, or recently could not.
    NotStored,
    /// It exceeds the limit for one object, or the page's objects together exceed theirs.
    TooLarge,
    /// Too many fetches in progress, or too many objects in the page.
    TooMany,
    /// The fetch failed or broke off.
    Failed,
    /// The page's client has disconnected.
    Aborted,
}

impl PrefetchResult {
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
