//! What an operator can decide; the defaults are RFC 9111's.

/// What is left to configuration, per route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Fields that replace `Cache-Control` and `Expires` for this cache (RFC 9213 section 2.2), lower-case, the first
    /// counts. Empty by default: `cdn-cache-control` is for a cache that works for the origin (section 3.1), which only a configuration knows.
    pub targeted: Vec<Vec<u8>>,
    /// Heuristic lifetime in percent of the time since `Last-Modified` (RFC 9111 section 4.2.2). Default 10.
    pub heuristic_percent: u32,
    /// The longest heuristic lifetime. Default one day.
    pub heuristic_max_s: u32,
    /// Lifetime of a success or redirect that says nothing of one and is heuristically cacheable. Default 0.
    pub default_ttl_s: u32,
    /// Lifetime of an error (404, 405, 410, 500, 502 to 504) that says nothing of one. Default 0. Above 0
    /// this also stores errors that RFC 9110 section 15.1 does not let be stored without the origin's word.
    pub negative_ttl_s: u32,
    /// How long after its lifetime a response may be sent while it is fetched anew, where the origin says nothing.
    /// Default 0.
    pub stale_while_revalidate_s: u32,
    /// How long after its lifetime a response may be sent when the origin fails, where the origin says nothing. Default
    /// 0.
    pub stale_if_error_s: u32,
    /// Whether responses with `Set-Cookie` are stored as they are. By default they are not stored, unless the origin
    /// keeps the field from being stored (`no-cache="set-cookie"` or `private="set-cookie"`).
    pub share_set_cookie: bool,
    /// Whether `no-cache`, `max-age` and `min-fresh` of requests, and `Pragma`, count. Default yes.
    pub heed_client_reload: bool,
    /// Most ranges of a request that are answered; one with more is answered with the whole. Default 16.
    pub ranges_max: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            targeted: Vec::new(),
            heuristic_percent: 10,
            heuristic_max_s: 86_400,
            default_ttl_s: 0,
            negative_ttl_s: 0,
            stale_while_revalidate_s: 0,
            stale_if_error_s: 0,
            share_set_cookie: false,
            heed_client_reload: true,
            ranges_max: 16,
        }
    }
}
