//! Conditional requests and ranges (RFC 9110, sections 13 and 14): what of a body a request gets.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::request::Head;
use super::wishes::{TagKind, Wishes};

/// First second of 2001, the earliest `Last-Modified`.
const MODIFIED_FIRST: u64 = 978_307_200;
/// Twenty years in seconds: `Last-Modified` is within them.
const MODIFIED_SPAN: u64 = 20 * 365 * 86_400;
/// `W/"` and `"`, 16 digits, `-`, 16 digits.
const TAG_BYTES_MAX: usize = 40;

/// An entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    text: [u8; TAG_BYTES_MAX],
    length: usize,
    is_weak: bool,
}

impl Tag {
    fn new(kind: TagKind, seed: u64, body_bytes: u64) -> Self {
        let mut text = [0; TAG_BYTES_MAX];
        let is_weak = kind == TagKind::Weak;
        let prefix = if is_weak { "W/" } else { "" };
        let mut rest = &mut text[..];
        // It fits: 2 + 1 + 16 + 1 + 16 + 1 bytes at most.
        let _ = write!(rest, "{prefix}\"{seed:016x}-{body_bytes:x}\"");
        let length = TAG_BYTES_MAX - rest.len();
        Self {
            text,
            length,
            is_weak,
        }
    }

    /// As in the `ETag` field.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// Whether a list of tags has this one; weak ones count only if `weakly` (RFC 9110, section 8.8.3.2).
    fn is_in(&self, list: &[u8], weakly: bool) -> bool {
        let mine = self.text().strip_prefix(b"W/").unwrap_or(self.text());
        let mut rest = list;
        while let Some(start) = rest.iter().position(|&byte| byte == b'"') {
            let is_weak = rest[..start].ends_with(b"W/");
            let Some(bytes) = rest[start + 1..].iter().position(|&byte| byte == b'"') else {
                return false;
            };
            let (tag, later) = rest[start..].split_at(bytes + 2);
            if tag == mine && (weakly || !(is_weak || self.is_weak)) {
                return true;
            }
            rest = later;
        }
        false
    }
}

/// What a client can ask about later.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validators {
    /// For `ETag`.
    pub tag: Option<Tag>,
    /// For `Last-Modified`.
    pub modified: Option<SystemTime>,
}

impl Validators {
    /// Those that were wished for.
    #[must_use]
    pub fn new(wishes: &Wishes<'_>, seed: u64, body_bytes: u64) -> Self {
        Self {
            tag: wishes.tag.map(|kind| Tag::new(kind, seed, body_bytes)),
            modified: wishes.last_modified.then(|| last_modified(seed)),
        }
    }
}

/// The `Last-Modified` of a seed: within the twenty years from 2001 on.
#[must_use]
pub fn last_modified(seed: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(MODIFIED_FIRST + seed % MODIFIED_SPAN)
}

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything: 200.
    Whole,
    /// 206.
    Part {
        /// First byte.
        from: u64,
        /// How many.
        bytes: u64,
    },
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
    /// 416.
    Unsatisfiable,
}

/// Judges the conditions of a request in the order of RFC 9110, section 13.2.2.
#[must_use]
pub fn judge(head: &Head<'_>, validators: &Validators, body_bytes: u64) -> Verdict {
    let is_get = head.method == "GET";
    let is_read = is_get || head.method == "HEAD";
    match lists(head, "If-Match", validators, false) {
        Some(false) => return Verdict::PreconditionFailed,
        None if date(head, "If-Unmodified-Since")
            .zip(validators.modified)
            .is_some_and(|(asked, modified)| modified > asked) =>
        {
            return Verdict::PreconditionFailed;
        }
        _ => {}
    }
    match lists(head, "If-None-Match", validators, true) {
        Some(true) if is_read => return Verdict::NotModified,
        Some(true) => return Verdict::PreconditionFailed,
        None if is_read
            && date(head, "If-Modified-Since")
                .zip(validators.modified)
                .is_some_and(|(asked, modified)| modified <= asked) =>
        {
            return Verdict::NotModified;
        }
        _ => {}
    }
    if !is_get || !range_is_current(head, validators) {
        return Verdict::Whole;
    }
    let mut ranges = head.values("Range");
    match (ranges.next(), ranges.next()) {
        (Some(range), None) => part(range, body_bytes),
        _ => Verdict::Whole,
    }
}

/// Whether a field that lists tags names ours; `None`: there is no such field.
fn lists(
    head: &Head<'_>,
    name: &'static str,
    validators: &Validators,
    weakly: bool,
) -> Option<bool> {
    let mut is_there = false;
    for value in head.values(name) {
        is_there = true;
        if value.trim_ascii() == b"*" || validators.tag.is_some_and(|tag| tag.is_in(value, weakly))
        {
            return Some(true);
        }
    }
    is_there.then_some(false)
}

/// The date of a field that is there once and right.
fn date(head: &Head<'_>, name: &'static str) -> Option<SystemTime> {
    let mut values = head.values(name);
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    httpdate::parse_http_date(str::from_utf8(value).ok()?.trim_ascii()).ok()
}

/// `If-Range` (RFC 9110, section 13.1.5): compared strongly, and dates exactly.
fn range_is_current(head: &Head<'_>, validators: &Validators) -> bool {
    match head.values("If-Range").next() {
        None => true,
        Some(value) if value.contains(&b'"') => {
            validators.tag.is_some_and(|tag| tag.is_in(value, false))
        }
        Some(_) => date(head, "If-Range").is_some_and(|asked| validators.modified == Some(asked)),
    }
}

/// One range of bytes (RFC 9110, section 14.1.2). Other units, several ranges and nonsense are ignored, as section
/// 14.2 allows.
fn part(range: &[u8], body_bytes: u64) -> Verdict {
    let whole = Verdict::Whole;
    let Some((unit, range)) = str::from_utf8(range)
        .ok()
        .and_then(|range| range.split_once('='))
    else {
        return whole;
    };
    let Some((first, last)) = range.trim_ascii().split_once('-') else {
        return whole;
    };
    if !unit.eq_ignore_ascii_case("bytes") {
        return whole;
    }
    // Saturating: a number beyond all bodies means the same as any other such number.
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (from, to) = match (number(first), number(last)) {
        (Some(first), None) if last.is_empty() => (first, u64::MAX),
        (Some(first), Some(last)) if first <= last => (first, last),
        (None, Some(0)) if first.is_empty() => return Verdict::Unsatisfiable,
        (None, Some(suffix)) if first.is_empty() && body_bytes > 0 => {
            (body_bytes.saturating_sub(suffix), u64::MAX)
        }
        (None, Some(_)) if first.is_empty() => return Verdict::Unsatisfiable,
        _ => return whole,
    };
    if from >= body_bytes {
        return Verdict::Unsatisfiable;
    }
    Verdict::Part {
        from,
        bytes: to.min(body_bytes - 1) - from + 1,
    }
}

#[cfg(test)]
mod tests;
