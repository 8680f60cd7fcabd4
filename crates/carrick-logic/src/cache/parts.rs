//! Answers from parts: whether those that are stored have what is asked for, and what of it is to be asked of the origin
//! (RFC 9111 sections 3.3 and 3.4).
use super::answer::{Answer, plan_answer};
use super::extents::Extents;
use super::message::Request;
use super::meta::Validator;
use super::validation::Stored;
use super::{Policy, UnixTime};
use crate::http1::Method;
use std::ops::Range;

/// Whether `held`, the bytes of `stored` that are there, are all that an answer to `request` needs.
#[must_use]
pub fn has_all(
    request: &Request<'_>,
    stored: &Stored<'_>,
    held: &Extents,
    now: UnixTime,
    policy: &Policy,
) -> bool {
    let Some(total_bytes) = length(held) else {
        return false;
    };
    let range = request.range.filter(|_| request.method == Method::Get);
    // A range in a field that is not heeded, as `If-Range` does not hold, is not enough; nor is one of unknown end.
    held.satisfies(range, policy.ranges_max)
        && match plan_answer(request, stored, total_bytes, now, policy) {
            Answer::NotModified | Answer::Unsatisfiable => true,
            Answer::Whole => held.is_whole(),
            Answer::Range(range) => held.has(&range),
            Answer::Ranges(ranges) => ranges.iter().all(|range| held.has(range)),
        }
}

/// What the origin is to be asked for, so that `held` and its answer are all that `request` needs: from the first missing
/// byte to the last. An end of [`u64::MAX`] is the end of a representation whose length is not known.
///
/// `None`: the request is passed on as it is. It has conditions of its own, its answer is not for others, nothing would be
/// spared, or the parts could not be told from those of another version.
#[must_use]
pub fn missing(
    request: &Request<'_>,
    stored: &Stored<'_>,
    held: &Extents,
    now: UnixTime,
    policy: &Policy,
) -> Option<Range<u64>> {
    let has_conditions = request.has_if_none_match
        || request.if_modified_since.is_some()
        || request.has_origin_condition;
    // The answers to these would most likely not be stored, and so not be added.
    let is_apart = request.has_authorization || request.directives.no_store;
    if request.method != Method::Get
        || request.has_body
        || has_conditions
        || is_apart
        || !stored.meta.has_strong_validator()
    {
        return None;
    }
    let Some(total_bytes) = held.total_bytes() else {
        let beginning = held.held().first().filter(|first| first.start == 0)?;
        return request.range.is_none().then_some(beginning.end..u64::MAX);
    };
    let wanted = match plan_answer(request, stored, total_bytes, now, policy) {
        Answer::Whole => 0..total_bytes,
        Answer::Range(range) => range,
        Answer::Ranges(ranges) => {
            let start = ranges.iter().map(|range| range.start).min()?;
            start..ranges.iter().map(|range| range.end).max()?
        }
        Answer::NotModified | Answer::Unsatisfiable => return None,
    };
    let gaps = held.missing(wanted.clone());
    let missing = gaps.first()?.start..gaps.last()?.end;
    (missing != wanted).then_some(missing)
}

/// The length of the representation; of an unknown one what is known of it.
fn length(held: &Extents) -> Option<u64> {
    let last = held.held().last();
    held.total_bytes().or(last.map(|range| range.end))
}

/// Whether two stored responses are of the same bytes, as far as both are there (section 3.4): they have the same strong
/// validator, the same coding, and the same length if both know it.
#[must_use]
pub fn is_same_version(one: &Stored<'_>, other: &Stored<'_>) -> bool {
    let same_validator = match (one.etag(), other.etag()) {
        (Some(one), Some(other)) => one.is_strongly(other),
        (None, None) => {
            let is_strong = |stored: &Stored<'_>| stored.meta.validator == Validator::StrongDate;
            is_strong(one) && is_strong(other) && one.meta.last_modified == other.meta.last_modified
        }
        _ => false,
    };
    let coding = |stored: &Stored<'_>| stored.fields.first(b"content-encoding").map(<[u8]>::to_vec);
    let total = |stored: &Stored<'_>| stored.meta.part().and_then(|part| part.total_bytes);
    let same_length = match (total(one), total(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    same_validator && same_length && coding(one) == coding(other)
}

#[cfg(test)]
mod tests;
