//! `Range` and `If-Range` (RFC 9110 section 14), answered from a stored body.
use super::UnixTime;
use super::etag::ETag;
use super::meta::Validator;
use super::validation::Stored;
use crate::http1::syntax;
use std::ops::Range;

/// What a `Range` field asks for, given the length of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// The whole: another unit, a field that is malformed, or too many ranges.
    Whole,
    /// One range of bytes; not empty.
    Single(Range<u64>),
    /// Several, in the order in which they were asked for; none is empty, and no two overlap or touch.
    Multiple(Vec<Range<u64>>),
    /// None of them has a byte: 416.
    Unsatisfiable,
}

/// One range of a `Range` field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spec {
    /// From, and up to and with, if it is said.
    From(u64, Option<u64>),
    /// This many bytes at the end.
    Last(u64),
}

impl Spec {
    fn parse(text: &[u8]) -> Option<Self> {
        let dash = memchr::memchr(b'-', text)?;
        match (&text[..dash], &text[dash + 1..]) {
            ([], length) => Some(Self::Last(number(length)?)),
            (first, []) => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// The bytes of a whole of `total` bytes; possibly none.
    fn resolve(self, total: u64) -> Range<u64> {
        match self {
            Self::From(first, last) => {
                first.min(total)..last.map_or(total, |last| last.saturating_add(1).min(total))
            }
            Self::Last(length) => total.saturating_sub(length)..total,
        }
    }
}

/// A number of any size; too large a one counts as the largest.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

/// The ranges of a field value; `None` if it is not `bytes` or malformed (RFC 9110 section 14.2: then it is ignored),
/// or has more than `ranges_max`.
pub(super) fn parse(value: &[u8], ranges_max: usize) -> Option<Vec<Spec>> {
    let (unit, list) = value.split_at(memchr::memchr(b'=', value)?);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut specs = Vec::new();
    for element in syntax::elements(&list[1..]) {
        if specs.len() == ranges_max {
            return None;
        }
        specs.push(Spec::parse(element)?);
    }
    (!specs.is_empty()).then_some(specs)
}

/// What `value`, the value of `Range`, asks for of `total_bytes`. Ranges that overlap or touch become one, at the place
/// of the first of them (RFC 9110 section 15.3.7.2).
#[must_use]
pub fn resolve(value: &[u8], total_bytes: u64, ranges_max: usize) -> Ranges {
    let Some(specs) = parse(value, ranges_max) else {
        return Ranges::Whole;
    };
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(specs.len());
    for mut range in specs
        .into_iter()
        .map(|spec| spec.resolve(total_bytes))
        .filter(|range| !range.is_empty())
    {
        let touches = |other: &Range<u64>, range: &Range<u64>| {
            other.start <= range.end && range.start <= other.end
        };
        let mut place = merged.len();
        // Growing, the range may come to touch others.
        while let Some(found) = merged.iter().position(|other| touches(other, &range)) {
            let other = merged.remove(found);
            range = range.start.min(other.start)..range.end.max(other.end);
            place = place.min(found);
        }
        merged.insert(place.min(merged.len()), range);
    }
    match merged.len() {
        0 => Ranges::Unsatisfiable,
        1 => Ranges::Single(merged.remove(0)),
        _ => Ranges::Multiple(merged),
    }
}

/// Whether `If-Range` lets a range be sent (RFC 9110 section 13.1.5): a strong entity tag that is equal, or exactly the
/// stored `Last-Modified`, where that is strong. Otherwise the whole is sent.
#[must_use]
pub fn if_range_holds(value: &[u8], stored: &Stored<'_>, now: UnixTime) -> bool {
    if let Some(tag) = ETag::parse(value) {
        return stored.etag().is_some_and(|stored| stored.is_strongly(tag));
    }
    let date = UnixTime::parse_http_date(value, now);
    // A response with an entity tag can have a strong date as well.
    let is_strong = stored.meta.validator == Validator::StrongDate
        || (stored.fields.has(b"date")
            && stored
                .meta
                .last_modified
                .is_some_and(|modified| modified < stored.meta.date));
    is_strong && date.is_some() && date == stored.meta.last_modified
}

#[cfg(test)]
mod tests;
