//! What is asked of the origin for a request that the cache cannot answer by itself.
use super::parts::{Completion, PendingBody, stored_of};
use crate::cache::Cache;
use crate::cache::flights::Lead;
use crate::cache::key::Key;
use crate::cache::memory::{NotTaken, Object};
use crate::cache::purges::PurgeEpoch;
use crate::cache::shared::Ticket;
use crate::config::plan::RouteCache;
use crate::context::destination::NextHop;
use crate::context::request_context::RequestContext;
use crate::http::prefetch::{Fetch, Prefetch};
use crate::net::scratch::Scratch;
use carrick_logic::cache::{
    CONDITION_FIELDS, CacheStatus, Conditions, NotFilled, Realm, Request, UnixTime,
    write_conditions, write_range_conditions,
};
use std::net::IpAddr;
use std::sync::Arc;

/// A request for which the cache is asked.
pub(super) struct CacheQuery {
    pub(super) cache: Arc<Cache>,
    pub(super) route: Arc<RouteCache>,
    pub(super) key: Box<[u8]>,
    pub(super) not_filled: Option<NotFilled>,
    pub(super) says_status: bool,
    pub(super) fetch: Fetch,
}

impl CacheQuery {
    /// What the origin is to be asked.
    pub(super) fn ask(
        &self,
        stored: Option<Arc<Object>>,
        status: CacheStatus<'static>,
        now: UnixTime,
    ) -> Asking {
        Asking {
            cache: Arc::clone(&self.cache),
            route: Arc::clone(&self.route),
            key: self.key.clone(),
            not_filled: self.not_filled,
            stored,
            completion: None,
            conditions: NO_CONDITIONS,
            asked_at: now,
            asked: self.cache.purges.now(),
            origin: None,
            status,
            own_lines: Vec::new(),
            is_aged: false,
            says_status: self.says_status,
            fetch: self.fetch,
            lead: None,
            prefetch: None,
            is_bypassed: false,
            wants_only_stored: false,
            is_cache_peer_asked: false,
            ticket: None,
        }
    }
}

/// A request on its way to the origin, as the cache sees it.
pub struct Asking {
    /// All that is stored.
    pub(super) cache: Arc<Cache>,
    /// How the route wants it.
    pub(super) route: Arc<RouteCache>,
    /// What is asked for.
    pub(super) key: Box<[u8]>,
    /// Why the answer may not be stored, whatever it says.
    pub(super) not_filled: Option<NotFilled>,
    /// What is stored, and is to be validated.
    pub(super) stored: Option<Arc<Object>>,
    /// What is stored in parts, and what of it is asked for.
    pub(super) completion: Option<Completion>,
    /// The conditions that were sent.
    pub(super) conditions: Conditions,
    /// When it was asked for.
    pub(super) asked_at: UnixTime,
    /// Which purges it comes after.
    pub(super) asked: PurgeEpoch,
    /// The address that the answer comes from, if rules for addresses are about it.
    pub(super) origin: Option<IpAddr>,
    /// What `Cache-Status` will say.
    pub(super) status: CacheStatus<'static>,
    /// Field lines of the answer that its client gets, and the store does not.
    pub(super) own_lines: Vec<u8>,
    /// Whether a cache nearer to the origin had the answer for a while.
    pub(super) is_aged: bool,
    /// Whether the answer says what the cache did.
    pub(super) says_status: bool,
    /// Fetches what a page embeds.
    pub(super) fetch: Fetch,
    /// Other requests wait for the answer.
    pub(super) lead: Option<Lead>,
    /// Whatever the answer is, the store has nothing to do with it.
    pub(super) is_bypassed: bool,
    /// It is an object that a page embeds: a prefetch.
    pub(super) prefetch: Option<Prefetch>,
    /// Another cache is asked, for what it has stored.
    pub(super) wants_only_stored: bool,
    /// One was asked already.
    pub(super) is_cache_peer_asked: bool,
    /// What is stored may be written to the shared cache, too.
    pub(super) ticket: Option<Ticket>,
}

/// Fields of the client's that do not go to the origin when something stored is validated: the whole is asked for.
const OMITTED: [&[u8]; 4] = [
    CONDITION_FIELDS[0],
    CONDITION_FIELDS[1],
    b"range",
    b"if-range",
];

/// The fields to leave out of the request in `scratch`, and the lines to add to it.
pub fn request_lines(
    asking: Option<&mut Asking>,
    scratch: &Scratch,
    lines: &mut Vec<u8>,
) -> &'static [&'static [u8]] {
    let Some(asking) = asking else {
        return &[];
    };
    if asking.wants_only_stored {
        lines.extend_from_slice(b"Cache-Control: only-if-cached\r\n");
    }
    if let Some(Completion { object, missing }) = &asking.completion
        && write_range_conditions(lines, &stored_of(object), missing)
    {
        return &OMITTED;
    }
    let Some(stored) = &asking.stored else {
        return &[];
    };
    let request = Request::of_head(&scratch.request_head, &scratch.request);
    asking.conditions = write_conditions(lines, &request, &[stored_of(stored)]);
    match stored.part() {
        // Of what is stored in parts the client's range is enough.
        Some(_) => &CONDITION_FIELDS,
        None => &OMITTED,
    }
}

impl Asking {
    /// The name of what is asked for, as the store has it.
    pub(super) fn store_key(&self) -> Key<'_> {
        self.cache.store.key(&self.key)
    }

    /// The answer comes from there. Who fetched what another cache has is not known.
    pub fn comes_from(&mut self, next_hop: &NextHop, address: IpAddr) {
        let is_origin = matches!(next_hop, NextHop::Origin { parent: false, .. });
        self.origin = (is_origin && !self.wants_only_stored).then_some(address);
    }

    /// The prefetch, if it is one.
    pub fn prefetch(&mut self) -> Option<&mut Prefetch> {
        self.prefetch.as_mut()
    }

    /// Takes it out, for the rest of the body.
    pub fn take_prefetch(&mut self) -> Option<Prefetch> {
        self.prefetch.take()
    }

    /// It is a prefetch.
    pub fn set_prefetch(&mut self, prefetch: Prefetch) {
        self.prefetch = Some(prefetch);
    }

    /// What is prefetched can be sent from now on: its next use is counted.
    pub fn note_prefetch(&self) {
        if self.prefetch.is_some() {
            let hash = self.store_key().hash();
            self.cache.prefetched.note(hash, self.asked_at);
        }
    }

    /// The right to write to the shared cache, once.
    pub fn take_ticket(&mut self) -> Option<Ticket> {
        self.ticket.take()
    }

    /// Fetches what a page embeds.
    pub fn fetch(&self) -> Fetch {
        self.fetch
    }

    /// Requests that wait for a part wait for its end: it cannot be found before.
    pub fn leave_lead_to(&mut self, keep: &mut PendingBody) {
        if keep.is_part() {
            keep.take_lead(self.lead.take());
        }
    }

    /// The requests that wait for the answer go on.
    pub fn release(&mut self) {
        if let Some(lead) = self.lead.take() {
            lead.end();
        }
    }

    /// The disk has not taken the answer: it is asked for once more, and passed on.
    pub fn give_up_storing(&mut self) {
        self.is_bypassed = true;
        self.status.stored = false;
        self.status.detail = Some(NotTaken::Full.label());
    }

    /// The stored response does not count: it is asked for as if there were none.
    pub fn forget_stored(&mut self) {
        self.stored = None;
        self.completion = None;
        self.conditions = NO_CONDITIONS;
    }

    /// The value of `Cache-Status` for a response that is passed on, if it is wanted.
    pub fn status_value(&self) -> Option<String> {
        self.says_status.then(|| status_value(&self.status))
    }
}

/// Nothing was sent along.
const NO_CONDITIONS: Conditions = Conditions {
    any: false,
    with_clients_tags: false,
};

/// The value of `Cache-Status`.
pub(super) fn status_value(status: &CacheStatus<'_>) -> String {
    let mut value = Vec::with_capacity(64);
    status.write(&mut value, NAME);
    // It is ASCII.
    String::from_utf8(value).unwrap_or_default()
}

/// Who answers requests that go to the upstream of this name; `None`: to servers in none.
pub(super) fn realm<'a>(context: &RequestContext, upstream: Option<&'a str>) -> Realm<'a> {
    match (upstream, context.original) {
        (Some(name), _) => Realm::Upstream(name),
        (None, Some(original)) => Realm::Original(original),
        (None, None) => Realm::Listener(context.listener.address),
    }
}

/// This cache's name in `Cache-Status`.
const NAME: &[u8] = b"carrick";
