//! Validation (RFC 9111 section 4.3): asking the origin whether what is stored is still right, and what its answer
//! means.
use super::etag::{self, ETag};
use super::fields::{Fields, write_line};
use super::lookup::{Reuse, is_origin_failure, stale_on_error};
use super::message::{Request, Response};
use super::meta::Meta;
use super::{Policy, UnixTime};

/// A stored response: the decisions about it and its stored fields.
#[derive(Debug, Clone)]
pub struct Stored<'a> {
    /// The decisions.
    pub meta: Meta,
    /// The fields, as [`write_stored_fields`](super::write_stored_fields) left them.
    pub fields: Fields<'a>,
}

impl<'a> Stored<'a> {
    /// The entity tag.
    #[must_use]
    pub fn etag(&self) -> Option<ETag<'a>> {
        self.fields.first(b"etag").and_then(ETag::parse)
    }
}

/// The client's fields that must not go to the origin beside those that [`write_conditions`] writes. `Range` and
/// `If-Range` are to be left out too, unless the part alone is asked for.
pub const CONDITION_FIELDS: [&[u8]; 2] = [b"if-none-match", b"if-modified-since"];

/// Most entity tags in an `If-None-Match` of ours.
const TAGS_MAX: usize = 32;

/// What [`write_conditions`] wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// There is one: a 304 can come.
    pub any: bool,
    /// The client's tags are among them: a 304 may be for the client alone.
    pub with_clients_tags: bool,
}

/// Appends the field lines that make a request for what is `stored` conditional (section 4.3.1): one response to be
/// validated, or all variants of a URI none of which matches the request. The client's own entity tags go with them, so
/// that its copy is validated at once.
pub fn write_conditions(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    stored: &[Stored<'_>],
) -> Conditions {
    let own: Vec<ETag<'_>> = stored
        .iter()
        .filter_map(Stored::etag)
        .take(TAGS_MAX)
        .collect();
    let mut tags = own.clone();
    if !own.is_empty() {
        for line in request.fields.values(b"if-none-match") {
            let room = TAGS_MAX.saturating_sub(tags.len());
            let clients =
                etag::List(line).filter(|tag| !own.iter().any(|known| known.is_weakly(*tag)));
            tags.extend(clients.take(room));
        }
        out.extend_from_slice(b"If-None-Match: ");
        for (place, tag) in tags.iter().enumerate() {
            if place > 0 {
                out.extend_from_slice(b", ");
            }
            tag.write(out);
        }
        out.extend_from_slice(b"\r\n");
    }
    let modified = match stored {
        [only] if only.meta.last_modified.is_some() => only.fields.first(b"last-modified"),
        _ => None,
    };
    if let Some(modified) = modified {
        write_line(out, b"If-Modified-Since", modified);
    }
    Conditions {
        any: modified.is_some() || !tags.is_empty(),
        with_clients_tags: tags.len() > own.len(),
    }
}

/// Whether the client has what is stored (section 4.3.2): it gets 304, not the body. Only to be asked when the stored
/// response may be sent.
#[must_use]
pub fn client_has_it(request: &Request<'_>, stored: &Stored<'_>, now: UnixTime) -> bool {
    if !matches!(stored.meta.status, 200 | 206) {
        return false;
    }
    // RFC 9110 section 13.1.3: If-Modified-Since is ignored beside If-None-Match.
    if request.has_if_none_match {
        return etag::none_match_finds(request.fields.values(b"if-none-match"), stored.etag());
    }
    let since = request
        .if_modified_since
        .and_then(|value| UnixTime::parse_http_date(value, now));
    // Without Last-Modified the date of the response counts, else when it came.
    let changed = stored.meta.last_modified.unwrap_or(stored.meta.date);
    since.is_some_and(|since| changed <= since)
}

/// What the origin's answer to a validation means (section 4.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validated {
    /// The stored response at this place of the slice is still right: [`freshen`](super::freshen) it, then answer from
    /// it.
    Freshen(usize),
    /// A 304 about what the client has: it goes to the client, nothing stored changes.
    PassOn,
    /// A whole answer: it goes to the client, and is stored instead if it may be.
    Replace,
    /// The origin failed, and the stored response may be sent nevertheless.
    Stale(Reuse),
    /// A 304 that matches no stored response: ask again, without conditions.
    AskAgain,
}

/// Judges the head of the origin's answer to a request whose conditions were written from `stored`; the one to be
/// validated is the first.
#[must_use]
pub fn after_validation(
    request: &Request<'_>,
    stored: &[Stored<'_>],
    sent: Conditions,
    response: &Response<'_>,
    now: UnixTime,
    policy: &Policy,
) -> Validated {
    if response.status != 304 {
        let stale = stored
            .first()
            .filter(|_| is_origin_failure(response.status));
        return match stale.and_then(|stored| stale_on_error(request, &stored.meta, now, policy)) {
            Some(reuse) => Validated::Stale(reuse),
            None => Validated::Replace,
        };
    }
    let is_alone = stored.len() == 1 && !sent.with_clients_tags;
    let newest = (0..stored.len())
        .filter(|&place| is_freshened_by(&stored[place], response, is_alone))
        .max_by_key(|&place| (stored[place].meta.date, stored[place].meta.response_time));
    let is_for_client = || {
        let clients = request.fields.values(b"if-none-match");
        !sent.any
            || (sent.with_clients_tags
                && response
                    .etag
                    .is_some_and(|tag| etag::none_match_finds(clients, Some(tag))))
    };
    match newest {
        Some(place) => Validated::Freshen(place),
        None if is_for_client() => Validated::PassOn,
        None => Validated::AskAgain,
    }
}

/// Section 4.3.4: which stored responses a 304 is about. `is_alone`: it can be about no other, so a 304 without any
/// validator is about it.
#[must_use]
pub fn is_freshened_by(stored: &Stored<'_>, response: &Response<'_>, is_alone: bool) -> bool {
    match (response.etag, response.last_modified) {
        // A tag that was weak before and is strong now, or the other way round, is an origin's way with compression.
        (Some(tag), _) => stored.etag().map_or(
            is_alone
                && stored.meta.last_modified.is_some()
                && response.last_modified == stored.meta.last_modified,
            |known| known.is_weakly(tag),
        ),
        (None, Some(modified)) => stored.meta.last_modified == Some(modified),
        (None, None) => is_alone,
    }
}

#[cfg(test)]
mod tests;
