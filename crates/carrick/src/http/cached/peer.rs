//! Which requests a cache peer is asked for, and what its answers mean.
use super::ask::Asking;
use crate::cache::peers::{CachePeer, CachePeers, PeerAnswer};
use crate::context::destination::NextHop;
use crate::context::request_context::RequestContext;
use crate::net::scratch::Scratch;
use carrick_logic::cache::{Forward, Request};
use carrick_logic::http1::{BodyLength, Method, RequestHead, ResponseBody, ResponseHead, Scheme};
use std::sync::Arc;
use std::time::Instant;

impl Asking {
    /// The cache peers, and the one of them that is asked for the request in `scratch`. None is asked for what has to come from the
    /// origin, what would not be stored, what was requested with credentials, and what came by TLS: peers are asked without. Nor for
    /// what an intercepted connection asks its original destination: they have what the name leads to.
    pub fn cache_peer(
        &self,
        (context, next_hop): (&RequestContext, &NextHop),
        scratch: &Scratch,
        now: Instant,
    ) -> Option<(Arc<CachePeers>, Arc<CachePeer>)> {
        let cache_peers = self.cache.cache_peers.load_full()?;
        let is_wanted = matches!(
            self.status.forward,
            Some(Forward::UriMiss | Forward::VaryMiss | Forward::Partial | Forward::Stale)
        );
        // Only the origin can say that it may be sent.
        let stored = self.stored.as_ref();
        let is_wanted = is_wanted && !stored.is_some_and(|stored| stored.meta().always_validate);
        let is_intercepted =
            context.original.is_some() && matches!(next_hop, NextHop::Origin { .. });
        let passes = || (self.cache.passes).has(self.store_key().hash(), self.asked_at);
        if !is_wanted
            || is_intercepted
            || self.is_cache_peer_asked
            || self.is_bypassed
            || self.not_filled.is_some()
            || passes()
        {
            return None;
        }
        if !is_for_others(&scratch.request_head, &scratch.request) {
            return None;
        }
        let owner = Arc::clone(cache_peers.owner(&self.key, now)?);
        Some((cache_peers, owner))
    }

    /// What is asked next is asked of a cache peer, for what it has stored; or of the origin.
    pub fn wants_only_stored(&mut self, word: bool) {
        self.wants_only_stored = word;
        self.is_cache_peer_asked = true;
        self.status.detail = word.then_some("peer");
    }

    /// The cache peer was asked in vain: the origin is asked now.
    pub fn ask_origin(&mut self, why: PeerAnswer) {
        self.wants_only_stored = false;
        self.status.detail = Some(match why {
            PeerAnswer::Hit | PeerAnswer::Miss => "peer-miss",
            PeerAnswer::Refused => "peer-refused",
            PeerAnswer::Failed => "peer-failed",
        });
    }
}

/// Whether this is a request that another cache could answer, and may see.
fn is_for_others(head: &RequestHead, bytes: &[u8]) -> bool {
    let request = Request::of_head(head, bytes);
    matches!(head.method, Method::Get | Method::Head)
        && head.body == BodyLength::None
        && !head.host.is_empty()
        && head.scheme == Scheme::Http
        && !request.has_origin_condition
        && !request.has_authorization
        && !request.directives.no_store
        && !request.directives.only_if_cached
}

/// What a cache peer's answer means. One without a length or chunks is no hit: a part of it would pass for the whole.
pub fn meaning(head: &ResponseHead) -> PeerAnswer {
    let is_delimited = !matches!(head.body, ResponseBody::UntilClose | ResponseBody::Tunnel);
    match head.status {
        504 => PeerAnswer::Miss,
        200..=399 | 404 | 410 if is_delimited => PeerAnswer::Hit,
        _ => PeerAnswer::Refused,
    }
}
