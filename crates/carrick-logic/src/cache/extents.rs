//! Which bytes of a representation are stored, and putting parts together (RFC 9111 sections 3.3 and 3.4).
use super::ContentRange;
use super::etag::ETag;
use super::fields::write_line;
use super::meta::Meta;
use super::ranges::{self, Ranges, Spec};
use super::validation::Stored;
use std::ops::Range;

/// The stored bytes of a representation: sorted ranges that neither overlap nor touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extents {
    total_bytes: Option<u64>,
    held: Vec<Range<u64>>,
}

/// Most separate ranges that are kept of one representation.
pub const EXTENTS_MAX: usize = 64;

impl Extents {
    /// All of `total_bytes`.
    #[must_use]
    #[expect(clippy::single_range_in_vec_init, reason = "it is a list of ranges")]
    pub fn whole(total_bytes: u64) -> Self {
        let held = if total_bytes == 0 {
            Vec::new()
        } else {
            vec![0..total_bytes]
        };
        Self {
            total_bytes: Some(total_bytes),
            held,
        }
    }

    /// The bytes of one 206.
    #[must_use]
    #[expect(clippy::single_range_in_vec_init, reason = "it is a list of ranges")]
    pub fn part(part: ContentRange) -> Self {
        Self {
            total_bytes: part.total_bytes,
            held: vec![part.start..part.end],
        }
    }

    /// Takes in the bytes of another 206, which [`may_combine`](super::may_combine) was asked about. `false`, and
    /// nothing changes, if it contradicts the length or would make more than [`EXTENTS_MAX`] ranges.
    pub fn add(&mut self, part: ContentRange) -> bool {
        let total_bytes = self.total_bytes.or(part.total_bytes);
        let last = self.held.last().map_or(0, |range| range.end).max(part.end);
        let fits = total_bytes.is_none_or(|total| last <= total)
            && part.start < part.end
            && (part.total_bytes.is_none() || part.total_bytes == total_bytes);
        let mut merged = part.start..part.end;
        let mut held = Vec::with_capacity(self.held.len() + 1);
        for range in &self.held {
            if range.start <= merged.end && merged.start <= range.end {
                merged = merged.start.min(range.start)..merged.end.max(range.end);
            } else {
                held.push(range.clone());
            }
        }
        let place = held.partition_point(|range| range.start < merged.start);
        held.insert(place, merged);
        if !fits || held.len() > EXTENTS_MAX {
            return false;
        }
        *self = Self { total_bytes, held };
        true
    }

    /// Bytes of the whole representation, if they are known.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// The stored ranges in order.
    #[must_use]
    pub fn held(&self) -> &[Range<u64>] {
        &self.held
    }

    /// Whether the representation is there from the first byte to the last.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.total_bytes.is_some_and(|total| self.has(&(0..total)))
    }

    /// Whether all bytes of `range` are there.
    #[must_use]
    pub fn has(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self
                .held
                .iter()
                .any(|held| held.start <= range.start && range.end <= held.end)
    }

    /// What is not there of `range`, in order.
    #[must_use]
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut place = range.start;
        for held in self
            .held
            .iter()
            .filter(|held| held.end > range.start && held.start < range.end)
        {
            if held.start > place {
                missing.push(place..held.start);
            }
            place = place.max(held.end);
        }
        if place < range.end {
            missing.push(place..range.end);
        }
        missing
    }

    /// Whether all that a request asks for is there: `range` is the value of its `Range`, `None` asks for the whole.
    /// For [`Found::Stored`](super::Found::Stored) or [`Found::PartOnly`](super::Found::PartOnly).
    #[must_use]
    pub fn satisfies(&self, range: Option<&[u8]>, ranges_max: usize) -> bool {
        let Some(value) = range else {
            return self.is_whole();
        };
        match self.total_bytes {
            Some(total) => match ranges::resolve(value, total, ranges_max) {
                Ranges::Whole => self.is_whole(),
                Ranges::Single(range) => self.has(&range),
                Ranges::Multiple(ranges) => ranges.iter().all(|range| self.has(range)),
                Ranges::Unsatisfiable => true,
            },
            // Without the length, only what has both ends can be seen to be there.
            None => ranges::parse(value, ranges_max).is_some_and(|specs| {
                matches!(specs[..], [Spec::From(first, Some(last))] if self.has(&(first..last.saturating_add(1))))
            }),
        }
    }
}

/// Appends the field lines that ask the origin for `range` of the stored version only, and for the whole if that has
/// changed (`Range`, `If-Range`). An end of [`u64::MAX`] is the end of the representation. `false`, and nothing is
/// appended, if there is no strong validator.
pub fn write_range_conditions(out: &mut Vec<u8>, stored: &Stored<'_>, range: &Range<u64>) -> bool {
    if range.is_empty() || !stored.meta.has_strong_validator() {
        return false;
    }
    let tag: Option<ETag<'_>> = stored.etag();
    let Some(validator) = tag
        .and(stored.fields.first(b"etag"))
        .or(stored.fields.first(b"last-modified"))
    else {
        return false;
    };
    let last = match range.end {
        u64::MAX => String::new(),
        end => (end - 1).to_string(),
    };
    let value = format!("bytes={}-{last}", range.start);
    write_line(out, b"Range", value.as_bytes());
    write_line(out, b"If-Range", validator);
    true
}

/// What is left of a 200 or 206 whose body ended early after `received_bytes` (section 3.3): the beginning, as a part.
/// `None`: nothing, as it could not be told from another version. `announced_bytes` is what `Content-Length` said.
#[must_use]
pub fn truncated(meta: &Meta, received_bytes: u64, announced_bytes: Option<u64>) -> Option<Meta> {
    if received_bytes == 0
        || !meta.has_strong_validator()
        || announced_bytes.is_some_and(|announced| received_bytes > announced)
    {
        return None;
    }
    let part = match (meta.status, meta.part()) {
        (200, _) => ContentRange {
            start: 0,
            end: received_bytes,
            total_bytes: announced_bytes,
        },
        (206, Some(part)) if received_bytes <= part.bytes() => ContentRange {
            end: part.start + received_bytes,
            ..part
        },
        _ => return None,
    };
    Some(Meta {
        status: 206,
        part: Some(Box::new(part)),
        ..meta.clone()
    })
}

#[cfg(test)]
mod tests;
