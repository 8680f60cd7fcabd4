//! How a stored response is sent: as 304, whole, or in ranges; and with which fields.
use super::fields::{Fields, write_line};
use super::message::Request;
use super::ranges::{Ranges, if_range_holds, resolve};
use super::validation::{Stored, client_has_it};
use super::{Policy, UnixTime};
use crate::http1::Method;
use std::ops::Range;

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// 304 with the fields for which [`belongs_in_304`] holds.
    NotModified,
    /// The stored response with its status (200 if it is stored in parts) and all of its body; the head alone for HEAD.
    /// If the store does not have the whole, because `If-Range` did not hold, the request is a miss.
    Whole,
    /// 206 with `Content-Range` and these bytes.
    Range(Range<u64>),
    /// 206 with a body of [`multipart`](super::multipart).
    Ranges(Vec<Range<u64>>),
    /// 416 with `Content-Range: bytes */total`, without a body.
    Unsatisfiable,
}

/// Decides how `stored`, which [`look_up`](super::look_up) let be sent, answers `request`, in the order of RFC 9110
/// section 13.2.2. `total_bytes` is the length of the whole representation; of a part of a representation of unknown
/// length give the end of the part.
///
/// A part that is stored must [satisfy](super::Extents::satisfies) the request.
#[must_use]
pub fn plan_answer(
    request: &Request<'_>,
    stored: &Stored<'_>,
    total_bytes: u64,
    now: UnixTime,
    policy: &Policy,
) -> Answer {
    if client_has_it(request, stored, now) {
        return Answer::NotModified;
    }
    let range = request
        .range
        .filter(|_| request.method == Method::Get && matches!(stored.meta.status, 200 | 206));
    let Some(range) = range.filter(|_| {
        request
            .if_range
            .is_none_or(|value| if_range_holds(value, stored, now))
    }) else {
        return Answer::Whole;
    };
    match resolve(range, total_bytes, policy.ranges_max) {
        Ranges::Whole => Answer::Whole,
        Ranges::Single(range) => Answer::Range(range),
        Ranges::Multiple(ranges) => Answer::Ranges(ranges),
        Ranges::Unsatisfiable => Answer::Unsatisfiable,
    }
}

/// Whether a field goes into a 304 (RFC 9110 section 15.4.5): what a 200 would have had for caches, and nothing about
/// the body that the client has.
#[must_use]
pub fn belongs_in_304(name: &[u8]) -> bool {
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    let about_the_body: [&[u8]; 8] = [
        b"content-digest",
        b"content-encoding",
        b"content-language",
        b"content-length",
        b"content-md5",
        b"content-range",
        b"content-type",
        b"last-modified",
    ];
    !about_the_body.into_iter().any(is)
}

/// Appends the stored field lines that `answer` has, and `Age`, if there is one: what is used without having been validated
/// must have it, and it says that the origin has neither made nor validated the answer for this request (RFC 9111 sections 4 and
/// 5.1). What depends on the body of the answer
/// (`Content-Length`, `Content-Range`, and `Content-Type` of several ranges) is for the caller to write; so are
/// `Connection`, `Via` and `Cache-Status`.
///
/// `Content-Digest` (RFC 9530 section 2) and `Content-MD5` are those of the whole content, or of a part that came from the origin; they go
/// only with what was stored whole and is sent whole. `Repr-Digest` and `Digest` are of the representation, whatever part of it is sent.
///
/// A 304 has `Last-Modified` only without an entity tag, where it is all that the client can compare. The `Content-Range` of what is stored
/// whole means nothing (RFC 9110 section 14.4), and stays with the whole.
pub fn write_answer_fields(
    out: &mut Vec<u8>,
    stored: &Stored<'_>,
    answer: &Answer,
    age_s: Option<u32>,
) {
    let is_part = stored.meta.part().is_some();
    match (answer, stored.fields.text()) {
        // All of them are sent: at once, as they are.
        (Answer::Whole, Some(lines)) if !is_part => out.extend_from_slice(lines),
        _ => write_some_fields(out, stored.fields, answer, is_part),
    }
    if let Some(age_s) = age_s {
        write_line(out, b"Age", age_s.to_string().as_bytes());
    }
}

fn write_some_fields(out: &mut Vec<u8>, fields: Fields<'_>, answer: &Answer, is_part: bool) {
    let has_tag = fields.has(b"etag");
    for (name, value) in fields {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        let is_sent = match answer {
            Answer::NotModified => belongs_in_304(name) || (is(b"last-modified") && !has_tag),
            Answer::Whole if !is_part => true,
            _ if is(b"content-range") || is_content_digest(name) => false,
            Answer::Whole | Answer::Range(_) => true,
            Answer::Ranges(_) => !is(b"content-type"),
            Answer::Unsatisfiable => !is(b"content-type") && !is(b"content-encoding"),
        };
        if is_sent {
            write_line(out, name, value);
        }
    }
}

/// Whether a field is a checksum of the content of the message that it came in.
pub(super) fn is_content_digest(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"content-digest") || name.eq_ignore_ascii_case(b"content-md5")
}

#[cfg(test)]
mod tests;
