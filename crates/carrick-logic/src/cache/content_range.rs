//! `Content-Range` of a 206 (RFC 9110 section 14.4).
use crate::http1::syntax;

/// Which bytes of a representation a response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte; greater than `start`.
    pub end: u64,
    /// Bytes of the whole representation; `None` if the origin does not know yet.
    pub total_bytes: Option<u64>,
}

impl ContentRange {
    /// Reads `bytes 0-99/200` or `bytes 0-99/*`. Another unit, `bytes */200` and anything that contradicts itself is
    /// `None`.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, rest) = value.split_at_checked(5)?;
        let rest = rest.strip_prefix(b" ")?;
        let dash = memchr::memchr(b'-', rest)?;
        let slash = memchr::memchr(b'/', rest)?;
        if !unit.eq_ignore_ascii_case(b"bytes") || dash > slash {
            return None;
        }
        let first = syntax::decimal(&rest[..dash])?;
        let last = syntax::decimal(&rest[dash + 1..slash])?;
        let total_bytes = match &rest[slash + 1..] {
            b"*" => None,
            total => Some(syntax::decimal(total)?),
        };
        let is_right = first <= last && total_bytes.is_none_or(|total| last < total);
        is_right.then_some(Self {
            start: first,
            end: last + 1,
            total_bytes,
        })
    }

    /// Bytes in the range.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Appends the field's value, such as `bytes 0-99/200`.
    pub fn write(self, out: &mut Vec<u8>) {
        use std::io::Write as _;
        // Writing to a Vec does not fail.
        let _ = write!(out, "bytes {}-{}/", self.start, self.end.saturating_sub(1));
        let _ = match self.total_bytes {
            Some(total) => write!(out, "{total}"),
            None => out.write_all(b"*"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::ContentRange;

    #[test]
    fn rfc_9110_14_4_syntax() {
        let range = |start, end, total_bytes| {
            Some(ContentRange {
                start,
                end,
                total_bytes,
            })
        };
        for (value, expected) in [
            ("bytes 0-99/200", range(0, 100, Some(200))),
            ("Bytes 4-9/10", range(4, 10, Some(10))),
            ("bytes 4-9/*", range(4, 10, None)),
            ("bytes 9-4/10", None),
            ("bytes 4-10/10", None),
            ("bytes */10", None),
            ("bytes 4-/10", None),
            ("bytes -4/10", None),
            ("bytes=4-9/10", None),
            ("lines 4-9/10", None),
            ("bytes 4-9", None),
            ("bytes 0-18446744073709551615/*", None),
            ("", None),
        ] {
            let parsed = ContentRange::parse(value.as_bytes());
            assert_eq!(parsed, expected, "{value}");
            if let Some(range) = parsed {
                let mut written = Vec::new();
                range.write(&mut written);
                assert!(written.eq_ignore_ascii_case(value.as_bytes()), "{value}");
            }
        }
    }
}
