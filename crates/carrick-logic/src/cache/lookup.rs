//! What to do with a request, given what is stored (RFC 9111 sections 4 and 5.2.1, RFC 5861).
use super::message::Request;
use super::meta::Meta;
use super::{Policy, UnixTime};
use crate::http1::Method;

/// What a store has for a request's key.
#[derive(Debug, Clone, Copy)]
pub enum Found<'m> {
    /// Nothing under this key.
    Nothing,
    /// Responses, but for other values of the fields that `Vary` names.
    OtherVariant,
    /// A response, with all bytes that the request asks for.
    Stored(&'m Meta),
    /// A response without some of the bytes that the request asks for.
    PartOnly(&'m Meta),
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Send what is stored.
    Fresh(Reuse),
    /// Send what is stored, and have it validated in the background, once for all who ask (RFC 5861 section 3).
    StaleWhileRevalidate(Reuse),
    /// Send what is stored: the client takes it stale (`max-stale`).
    Stale(Reuse),
    /// Ask the origin whether what is stored is still right; [`after_validation`](super::after_validation) says what
    /// its answer means. If it `can_be_validated`, with conditions ([`write_conditions`](super::write_conditions)),
    /// else for the whole response.
    Revalidate(Revalidate),
    /// Ask the origin as if nothing were stored.
    Miss(Miss),
    /// Respond with 504: the client accepts only stored responses (`only-if-cached`, section 5.2.1.7).
    GatewayTimeout,
}

/// A stored response as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reuse {
    /// The value of the `Age` field, which every reused response has (section 4).
    pub age_s: u32,
    /// Remaining lifetime; zero or negative when stale.
    pub ttl_s: i64,
}

impl Reuse {
    pub(super) fn of(meta: &Meta, now: UnixTime) -> Self {
        Self {
            age_s: meta.age_s(now),
            ttl_s: meta.ttl_s(now),
        }
    }
}

crate::named! {
    /// Why a stored response is not sent without asking.
    pub enum Revalidate with label {
        /// Its lifetime is over.
        Expired = "expired",
        /// `no-cache` in the response.
        ResponseNoCache = "no_cache",
        /// `no-cache` in the request, or `Pragma`.
        RequestNoCache = "request_no_cache",
        /// It is older than the request's `max-age`.
        RequestMaxAge = "request_max_age",
        /// It will not be fresh as long as the request's `min-fresh` asks.
        RequestMinFresh = "request_min_fresh",
    }
}

crate::named! {
    /// Why nothing stored is used.
    pub enum Miss with label {
        /// Nothing is stored for the URI.
        Uri = "uri",
        /// Something is, but no variant for this request.
        Vary = "vary",
        /// Some of the bytes are missing.
        Part = "part",
        /// The method is not one that a cache answers.
        Method = "method",
        /// `If-Match` or `If-Unmodified-Since`: the origin is to judge.
        Condition = "condition",
        /// The request has a body.
        Body = "body",
    }
}

/// Decides what to do with `request`. Does not allocate.
#[must_use]
pub fn look_up(request: &Request<'_>, found: Found<'_>, now: UnixTime, policy: &Policy) -> Lookup {
    let only_if_cached = request.directives.only_if_cached;
    if !matches!(request.method, Method::Get | Method::Head) {
        return Lookup::Miss(Miss::Method);
    }
    let decision = match found {
        _ if request.has_body => Lookup::Miss(Miss::Body),
        _ if request.has_origin_condition => Lookup::Miss(Miss::Condition),
        Found::Nothing => Lookup::Miss(Miss::Uri),
        Found::OtherVariant => Lookup::Miss(Miss::Vary),
        Found::PartOnly(_) => Lookup::Miss(Miss::Part),
        Found::Stored(meta) => decide_use(request, meta, now, policy),
    };
    match decision {
        Lookup::Miss(_) | Lookup::Revalidate(_) if only_if_cached => Lookup::GatewayTimeout,
        decision => decision,
    }
}

fn decide_use(request: &Request<'_>, meta: &Meta, now: UnixTime, policy: &Policy) -> Lookup {
    let reuse = Reuse::of(meta, now);
    let asked = &request.directives;
    let heeds = policy.heed_client_reload;
    if meta.always_validate {
        return Lookup::Revalidate(Revalidate::ResponseNoCache);
    }
    if asked.no_cache && heeds {
        return Lookup::Revalidate(Revalidate::RequestNoCache);
    }
    let is_fresh = reuse.ttl_s > 0;
    // Section 5.2.1.1. RFC 8246 section 2: who asks for `max-age=0` while reloading a page gets what cannot have
    // changed.
    let too_old = heeds
        && asked.max_age_s.is_some_and(|most| reuse.age_s > most)
        && !(meta.immutable && is_fresh);
    let too_short = heeds
        && asked
            .min_fresh_s
            .is_some_and(|least| reuse.ttl_s < i64::from(least));
    if too_old {
        return Lookup::Revalidate(Revalidate::RequestMaxAge);
    }
    if is_fresh {
        return if too_short {
            Lookup::Revalidate(Revalidate::RequestMinFresh)
        } else {
            Lookup::Fresh(reuse)
        };
    }
    let stale_s = -reuse.ttl_s;
    if asked
        .max_stale_s
        .is_some_and(|most| stale_s <= i64::from(most))
        && meta.client_may_take_stale
        // Of two wishes the stricter counts.
        && !too_short
    {
        return Lookup::Stale(reuse);
    }
    // A client that requires freshness does not accept a stale response.
    let is_particular = heeds && (asked.max_age_s.is_some() || asked.min_fresh_s.is_some());
    if !is_particular && stale_s < i64::from(meta.stale_while_revalidate_s) {
        return Lookup::StaleWhileRevalidate(reuse);
    }
    Lookup::Revalidate(Revalidate::Expired)
}

/// Whether the stored response may be sent although the origin could not be asked, or failed, at `now` (RFC 5861
/// section 4, RFC 9111 section 4.2.4).
///
/// `None`: the failure is what the client gets. A client can ask for longer than the origin allows only where the
/// origin forbids nothing.
#[must_use]
pub fn stale_on_error(
    request: &Request<'_>,
    meta: &Meta,
    now: UnixTime,
    policy: &Policy,
) -> Option<Reuse> {
    let asked = &request.directives;
    if meta.always_validate || (asked.no_cache && policy.heed_client_reload) {
        return None;
    }
    let reuse = Reuse::of(meta, now);
    let by_client_s = asked
        .stale_if_error_s
        .filter(|_| meta.client_may_take_stale)
        .unwrap_or(0);
    let allowed_s = i64::from(meta.stale_if_error_s.max(by_client_s));
    (-reuse.ttl_s < allowed_s).then_some(reuse)
}

/// A status that counts as a failure of the origin (RFC 5861 section 4).
#[must_use]
pub fn is_origin_failure(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests;
