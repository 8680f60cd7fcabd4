//! Which responses may be stored (RFC 9111 section 3), and which of their fields (section 3.1).
use super::Policy;
use super::answer::is_content_digest;
use super::directives::{ResponseDirectives, Scope};
use super::fields::{Fields, write_line};
use super::message::{Request, Response, Times};
use super::meta::{self, LifetimeFrom, Meta};
use super::uri::Uri;
use crate::http1::{Method, syntax};

/// Whether a response may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Storing {
    /// It may, with these decisions. A 206 is stored as the part that it is; a response to POST answers later GETs.
    Yes(Meta),
    /// It must not, or it would be of no use.
    No(NotStored),
}

crate::named! {
    /// Why a response is not stored.
    pub enum NotStored with label {
        /// The request's method: only GET, and POST with `Content-Location` and a lifetime (RFC 9110 section 9.3.3).
        Method = "method",
        /// The request had a body, which the key does not have.
        RequestBody = "request_body",
        /// `no-store` in the request (section 5.2.1.5).
        RequestNoStore = "request_no_store",
        /// `no-store` in the response (section 5.2.2.5).
        ResponseNoStore = "no_store",
        /// `private` in the response (section 5.2.2.7).
        Private = "private",
        /// The request had `Authorization`, and the response does not say that others may have it (section 3.5).
        Authorization = "authorization",
        /// `must-understand` with a status that is not understood (section 5.2.2.3).
        NotUnderstood = "must_understand",
        /// The status: interim, 304, or one that is about this request alone.
        Status = "status",
        /// A 206 without a single valid `Content-Range`, or one that cannot be told from other versions.
        Part = "part",
        /// `Vary: *` (section 4.1).
        VaryEverything = "vary",
        /// `Vary` names a field in which the proxy tells of itself or of the client: what clients send does not say what the server got.
        VaryProxyField = "vary_proxy_field",
        /// `Set-Cookie`, and [`Policy::share_set_cookie`] is off.
        SetCookie = "set_cookie",
        /// The origin says nothing that would allow it (section 3, last condition).
        NoLifetime = "no_lifetime",
        /// It is stale already and cannot be validated: it could never be used.
        Useless = "useless",
        /// An error that only [`Policy::negative_ttl_s`] gives a lifetime, and what is stored is still fresh: a
        /// client's reload may have caused it.
        StoredIsFresh = "stored_is_fresh",
        /// Updates have made its head longer than any that comes.
        LongHead = "long_head",
    }
}

/// Decides whether the answer to `request`, which asked for `uri`, may be stored.
///
/// Only the head is judged: a body that ends early must not be stored as a whole one (section 3.3);
/// [`truncated`](super::truncated) says what can be done with it.
#[must_use]
pub fn decide_storing(
    request: &Request<'_>,
    uri: &Uri<'_>,
    response: &Response<'_>,
    times: Times,
    policy: &Policy,
) -> Storing {
    let meta = Meta::of(response, times, policy);
    match objection(request, uri, response, &meta, policy) {
        Some(why) => Storing::No(why),
        None => Storing::Yes(meta),
    }
}

fn objection(
    request: &Request<'_>,
    uri: &Uri<'_>,
    response: &Response<'_>,
    meta: &Meta,
    policy: &Policy,
) -> Option<NotStored> {
    let directives = &response.directives;
    let understood = is_understood(response.status);
    if !may_be_stored_by_method(request.method, uri, response, meta) {
        return Some(NotStored::Method);
    }
    if request.has_body && request.method == Method::Get {
        return Some(NotStored::RequestBody);
    }
    if request.directives.no_store {
        return Some(NotStored::RequestNoStore);
    }
    if !is_about_the_resource(response.status) {
        return Some(NotStored::Status);
    }
    if directives.must_understand && !understood {
        return Some(NotStored::NotUnderstood);
    }
    if directives.no_store && !directives.must_understand {
        return Some(NotStored::ResponseNoStore);
    }
    if directives.private == Scope::Response {
        return Some(NotStored::Private);
    }
    if request.has_authorization && !directives.allow_authorized() {
        return Some(NotStored::Authorization);
    }
    if response.varies_on_everything {
        return Some(NotStored::VaryEverything);
    }
    if response.has_set_cookie && !policy.share_set_cookie && !withholds_cookies(response) {
        return Some(NotStored::SetCookie);
    }
    if response.status == 206
        && (meta.part().is_none() || !meta.has_strong_validator() && !is_whole(meta))
    {
        return Some(NotStored::Part);
    }
    objection_to_lifetime(response, meta)
}

/// The last condition of section 3, and whether it could ever be used.
fn objection_to_lifetime(response: &Response<'_>, meta: &Meta) -> Option<NotStored> {
    let is_allowed = meta.lifetime_from.is_explicit()
        || meta.lifetime_from == LifetimeFrom::Configuration
        || response.directives.public
        || meta::is_heuristically_cacheable(response.status);
    if !is_allowed {
        return Some(NotStored::NoLifetime);
    }
    let grace_s = meta.stale_while_revalidate_s.max(meta.stale_if_error_s);
    let lasts = u64::from(meta.lifetime_s) + u64::from(grace_s) > u64::from(meta.initial_age_s);
    let is_useful = meta.can_be_validated() || (lasts && !meta.always_validate);
    (!is_useful).then_some(if meta.lifetime_from == LifetimeFrom::Nothing {
        NotStored::NoLifetime
    } else {
        NotStored::Useless
    })
}

fn may_be_stored_by_method(
    method: Method,
    uri: &Uri<'_>,
    response: &Response<'_>,
    meta: &Meta,
) -> bool {
    match method {
        Method::Get => true,
        Method::Post => {
            let location = response.fields.first(b"content-location");
            response.status == 200
                && meta.lifetime_from.is_explicit()
                && location
                    .and_then(|location| uri.resolve_same_origin(location))
                    .is_some_and(|named| named == uri.normalized())
        }
        _ => false,
    }
}

/// A 206 that has all there is.
fn is_whole(meta: &Meta) -> bool {
    meta.part()
        .is_some_and(|part| part.start == 0 && part.total_bytes == Some(part.end))
}

/// Not an interim response, no answer to conditions, and none that is about this client, connection or form of request:
/// stored, it would answer requests that it is not about.
fn is_about_the_resource(status: u16) -> bool {
    status >= 200 && !matches!(status, 304 | 407 | 408 | 412 | 416 | 417 | 421 | 431)
}

/// Statuses whose meaning for caches is known here (RFC 9110 section 15 and its registry).
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=206 | 300..=303 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 428 | 429 | 431 | 451 | 500..=505 | 511)
}

fn withholds_cookies(response: &Response<'_>) -> bool {
    is_withheld(b"set-cookie", &response.directives)
}

/// Fields that no cache stores (section 3.1), and those that are made anew for each answer.
const NEVER_STORED: [&[u8]; 12] = [
    b"age",
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authentication-info",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"content-length",
];

/// Appends those of a response's field lines that are stored, `name: value` with CR LF each, without an empty line at
/// the end.
///
/// Left out are the fields of the connection (but the `Upgrade` of a 426), what `no-cache="…"` and `private="…"` name, and `Age`,
/// `Content-Length`, and `Content-Range` of a part, which whoever sends the stored response writes himself; and the checksums of a
/// part. [`Fields::of_text`] reads them again.
pub fn write_stored_fields(out: &mut Vec<u8>, response: &Response<'_>) {
    let is_of_part = |name: &[u8]| {
        response.status == 206
            && (name.eq_ignore_ascii_case(b"content-range") || is_content_digest(name))
    };
    for (name, value) in response.fields {
        if is_storable(name, response.status, response.fields, &response.directives)
            && !is_of_part(name)
        {
            write_line(out, name, value);
        }
    }
}

/// The field lines that `no-cache="…"` and `private="…"` keep from caches, and `Set-Cookie` (which a 304 may have) unless
/// [`Policy::share_set_cookie`]: only the client whose request it answers gets them. `Content-Range` is not among them, as whoever
/// sends a stored response writes it himself.
#[must_use]
pub fn withheld_fields(response: &Response<'_>, policy: &Policy) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in response.fields {
        let is_cookie = !policy.share_set_cookie && name.eq_ignore_ascii_case(b"set-cookie");
        if (is_cookie || is_withheld(name, &response.directives))
            && is_end_to_end(name, response.fields)
            && !name.eq_ignore_ascii_case(b"content-range")
        {
            write_line(&mut out, name, value);
        }
    }
    out
}

pub(super) fn is_storable(
    name: &[u8],
    status: u16,
    fields: Fields<'_>,
    directives: &ResponseDirectives,
) -> bool {
    // RFC 9110 section 15.5.22: it says what the client is to ask for, whoever sends it.
    status == 426 && name.eq_ignore_ascii_case(b"upgrade")
        || !is_withheld(name, directives) && is_end_to_end(name, fields)
}

fn is_withheld(name: &[u8], directives: &ResponseDirectives) -> bool {
    let withheld = &directives.withheld;
    (withheld.iter()).any(|other| name.eq_ignore_ascii_case(other))
}

/// Whether a field is not of the connection, nor made anew for each answer.
fn is_end_to_end(name: &[u8], fields: Fields<'_>) -> bool {
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    let of_connection = || {
        fields
            .values(b"connection")
            .flat_map(syntax::elements)
            .any(is)
    };
    // What says how long and for whom it may be kept is never dropped on the word of `Connection`.
    let essential = [
        b"cache-control".as_slice(),
        b"vary",
        b"date",
        b"etag",
        b"expires",
        b"last-modified",
        b"content-encoding",
        b"content-range",
        b"content-type",
    ];
    !NEVER_STORED.into_iter().any(is) && (essential.into_iter().any(is) || !of_connection())
}

#[cfg(test)]
mod tests;
