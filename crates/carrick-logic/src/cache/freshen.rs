//! Updating a stored response from a 304 or from the answer to HEAD (RFC 9111 sections 3.2, 4.3.4 and 4.3.5).
use super::Policy;
use super::directives::ResponseDirectives;
use super::etag::ETag;
use super::fields::{Fields, write_line};
use super::message::{Request, Response, Times};
use super::meta::Meta;
use super::parts::is_same_version;
use super::storing::{NotStored, Storing, decide_storing, is_storable};
use super::uri::Uri;
use super::validation::Stored;
use crate::http1::Method;

/// What becomes of a stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Freshened {
    /// It has new fields, which were written, and new decisions.
    Updated(Meta),
    /// The request forbids storing, or had credentials and the answer may be for its user alone: it stays as it was.
    Unchanged,
    /// The update forbids storing: it is removed, once this client has been answered.
    Remove(NotStored),
}

/// Fields that are about the stored bytes: an update never replaces them (section 3.2).
const OF_THE_BODY: [&[u8]; 5] = [
    b"content-digest",
    b"content-encoding",
    b"content-length",
    b"content-md5",
    b"content-range",
];

/// Most lines and bytes of an updated head: as many as any head that comes, and a `Date`. Updates with other names each time would make it
/// grow without end.
const HEAD_LINES_MAX: usize = 513;
const HEAD_BYTES_MAX: usize = 1 << 20;

/// Updates the fields of `stored` with those of `response` (a 304, the answer to HEAD, or a 206 that is combined with
/// it): appends all lines of the result to `out`, which must be empty, and decides anew.
///
/// A field that the update has replaces all stored lines of that name. Stored fields that it does not have stay.
/// A weak `ETag` stays if the update has a strong one. `Set-Cookie` of an update is not stored unless
/// [`Policy::share_set_cookie`].
pub fn freshen(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    uri: &Uri<'_>,
    stored: &Stored<'_>,
    response: &Response<'_>,
    times: Times,
    policy: &Policy,
) -> Freshened {
    debug_assert!(out.is_empty());
    let mut merged_fields = Vec::new();
    merge(&mut merged_fields, stored.fields, response, times, policy);
    let merged = Fields::of_text(&merged_fields);
    if merged_fields.len() > HEAD_BYTES_MAX || merged.iter().nth(HEAD_LINES_MAX).is_some() {
        return Freshened::Remove(NotStored::LongHead);
    }
    let directives = ResponseDirectives::read(merged, &policy.targeted);
    if request.has_authorization && !directives.allow_authorized() {
        return Freshened::Unchanged;
    }
    for (name, value) in merged {
        if is_storable(name, stored.meta.status, merged, &directives) {
            write_line(out, name, value);
        }
    }
    // Age is no stored field: that of the update counts. What of a part is there is not what its fields said once.
    let merged = Response {
        age_s: response.age_s,
        content_range: stored.meta.part(),
        ..Response::read(
            stored.meta.status,
            Fields::of_text(out),
            times.response,
            policy,
        )
    };
    // The stored response was allowed to be stored. That this request asks by HEAD or has a body takes nothing back.
    let request = Request {
        method: Method::Get,
        has_authorization: false,
        has_body: false,
        ..*request
    };
    let decision = decide_storing(
        &request,
        uri,
        &Response {
            directives,
            ..merged
        },
        times,
        policy,
    );
    match decision {
        Storing::Yes(meta) => Freshened::Updated(Meta {
            part: stored.meta.part.clone(),
            ..meta
        }),
        Storing::No(NotStored::RequestNoStore) => Freshened::Unchanged,
        Storing::No(why) => Freshened::Remove(why),
    }
}

fn merge(
    out: &mut Vec<u8>,
    stored: Fields<'_>,
    response: &Response<'_>,
    times: Times,
    policy: &Policy,
) {
    // RFC 9110 section 6.6.1: what has no Date gets the time at which it came. With the old one it would be as old as before.
    let is_dated = response.fields.has(b"date");
    // What was compared weakly says nothing of the bytes: ranges of other bytes must not be joined to them.
    let stored_tag = stored.first(b"etag").and_then(ETag::parse);
    let keeps_weak_tag =
        stored_tag.is_some_and(|tag| tag.weak) && response.etag.is_some_and(|tag| !tag.weak);
    let updates = |name: &[u8]| {
        let is = |other: &&[u8]| name.eq_ignore_ascii_case(other);
        let is_cookie = is(&b"set-cookie".as_slice());
        !OF_THE_BODY.iter().any(is)
            && (!keeps_weak_tag || !is(&b"etag".as_slice()))
            && (policy.share_set_cookie || !is_cookie)
            && is_storable(name, response.status, response.fields, &response.directives)
    };
    for (name, value) in stored {
        let is_new = |(new, _): (&[u8], &[u8])| new.eq_ignore_ascii_case(name);
        let is_old_date = !is_dated && name.eq_ignore_ascii_case(b"date");
        if !(is_old_date || updates(name) && response.fields.iter().any(is_new)) {
            write_line(out, name, value);
        }
    }
    for (name, value) in response.fields {
        if updates(name) {
            write_line(out, name, value);
        }
    }
    if !is_dated {
        let mut date = Vec::with_capacity(29);
        times.response.write_http_date(&mut date);
        write_line(out, b"Date", &date);
    }
}

/// What the answer to HEAD does to a stored response to GET (section 4.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadEffect {
    /// It is the same representation: [`freshen`] it.
    Freshen,
    /// It is another one: the stored response is out of date ([`Meta::outdated`]).
    Outdated,
    /// It says nothing about it.
    Nothing,
}

/// Compares the answer to HEAD with a stored response of `total_bytes`, if they are known.
#[must_use]
pub fn head_effect(
    stored: &Stored<'_>,
    total_bytes: Option<u64>,
    response: &Response<'_>,
) -> HeadEffect {
    if response.status != 200 || !matches!(stored.meta.status, 200 | 206) {
        return HeadEffect::Nothing;
    }
    let same_tag = response.etag.is_none() || stored.etag() == response.etag;
    let same_date =
        response.last_modified.is_none() || stored.meta.last_modified == response.last_modified;
    let same_length = match (response.content_length, total_bytes) {
        (Some(new), Some(stored)) => new == stored,
        _ => true,
    };
    if same_tag && same_date && same_length {
        HeadEffect::Freshen
    } else {
        HeadEffect::Outdated
    }
}

/// Whether a 206 may be combined with what is stored (section 3.4): both have the same strong validator, and the same
/// length if both know it.
#[must_use]
pub fn may_combine(stored: &Stored<'_>, response: &Response<'_>, meta: &Meta) -> bool {
    let new = Stored {
        meta: meta.clone(),
        fields: response.fields,
    };
    response.status == 206
        && meta.part().is_some()
        && matches!(stored.meta.status, 200 | 206)
        && is_same_version(stored, &new)
}

#[cfg(test)]
mod tests;
