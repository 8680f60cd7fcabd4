//! Entity tags (RFC 9110 section 8.8.3).

/// An entity tag, borrowed from a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ETag<'a> {
    /// The opaque part with its quotes.
    pub opaque: &'a [u8],
    /// It began with `W/`.
    pub weak: bool,
}

impl<'a> ETag<'a> {
    /// Reads a whole field value, or an element of a list. A tag without quotes is none.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let (opaque, weak) = match text {
            [b'W', b'/', opaque @ ..] => (opaque, true),
            opaque => (opaque, false),
        };
        let [b'"', inside @ .., b'"'] = opaque else {
            return None;
        };
        let is_right = inside
            .iter()
            .all(|&byte| byte == b'!' || (byte > b'"' && byte != 0x7f));
        is_right.then_some(Self { opaque, weak })
    }

    /// Section 8.8.3.2: equal, and neither weak.
    #[must_use]
    pub fn is_strongly(self, other: Self) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Section 8.8.3.2: equal, weak or not.
    #[must_use]
    pub fn is_weakly(self, other: Self) -> bool {
        self.opaque == other.opaque
    }

    /// Appends the tag.
    pub fn write(self, out: &mut Vec<u8>) {
        if self.weak {
            out.extend_from_slice(b"W/");
        }
        out.extend_from_slice(self.opaque);
    }
}

/// What `If-None-Match` says (RFC 9110 section 13.1.2), over all its lines.
pub(super) fn none_match_finds<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    stored: Option<ETag<'_>>,
) -> bool {
    lines.flat_map(tags).any(|tag| match tag {
        None => true,
        Some(tag) => stored.is_some_and(|stored| tag.is_weakly(stored)),
    })
}

/// The tags of one line; `None` is `*`. A backslash is an ordinary byte in a tag, so quotes end at the next quote.
fn tags(line: &[u8]) -> impl Iterator<Item = Option<ETag<'_>>> {
    let star = (crate::http1::syntax::trim(line) == b"*").then_some(None);
    star.into_iter().chain(List(line).map(Some))
}

/// The tags of a list; what is none is passed over.
pub(super) struct List<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for List<'a> {
    type Item = ETag<'a>;

    fn next(&mut self) -> Option<ETag<'a>> {
        loop {
            let start = self
                .0
                .iter()
                .position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
            let text = &self.0[start..];
            let prefix = if text.starts_with(b"W/\"") {
                3
            } else {
                usize::from(text[0] == b'"')
            };
            let length = match prefix {
                0 => None,
                _ => memchr::memchr(b'"', &text[prefix..]).map(|inside| prefix + inside + 1),
            };
            let Some(length) = length else {
                // To the next comma, whatever quotes say: the end of one would be looked for at each element.
                let skipped = memchr::memchr(b',', text).unwrap_or(text.len());
                self.0 = &text[skipped.max(1)..];
                continue;
            };
            let (tag, rest) = text.split_at(length);
            self.0 = rest;
            if let Some(tag) = ETag::parse(tag) {
                return Some(tag);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ETag, List, none_match_finds};

    #[test]
    fn rfc_9110_8_8_3_2_comparison() {
        // The RFC's own table.
        for (one, two, strong, weak) in [
            (r#"W/"1""#, r#"W/"1""#, false, true),
            (r#"W/"1""#, r#"W/"2""#, false, false),
            (r#"W/"1""#, r#""1""#, false, true),
            (r#""1""#, r#""1""#, true, true),
        ] {
            let (one, two) = (
                ETag::parse(one.as_bytes()).unwrap(),
                ETag::parse(two.as_bytes()).unwrap(),
            );
            assert_eq!(
                (one.is_strongly(two), one.is_weakly(two)),
                (strong, weak),
                "{one:?} {two:?}"
            );
        }
    }

    #[test]
    fn rfc_9110_8_8_3_syntax() {
        for (text, right) in [
            ("\"\"", true),
            ("\"a,b\"", true),
            ("\"a\\\"", true),
            ("W/\"x\"", true),
            ("w/\"x\"", false),
            ("abc", false),
            ("\"", false),
            ("\"a b\"", false),
            ("\"a\"b\"", false),
            ("", false),
        ] {
            assert_eq!(ETag::parse(text.as_bytes()).is_some(), right, "{text}");
        }
        assert!(ETag::parse(b"\"\xfc\"").is_some());
    }

    #[test]
    fn rfc_9110_13_1_2_if_none_match() {
        let stored = ETag::parse(b"\"a\"");
        for (line, found) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            (" , \"b\" ,, W/\"a\"", true),
            ("\"b,\\\", \"a\"", true),
            ("*", true),
            ("a", false),
            ("a, \"a\"", true),
            ("\"b\", *", false),
            ("", false),
            ("\"a", false),
        ] {
            assert_eq!(
                none_match_finds([line.as_bytes()].into_iter(), stored),
                found,
                "{line}"
            );
        }
        assert!(none_match_finds([b"*".as_slice()].into_iter(), None));
        assert!(!none_match_finds([b"\"a\"".as_slice()].into_iter(), None));
        assert_eq!(List(b"x\"y\" \"z\"").count(), 0);
        // Looking for the end of a quote from each of them on would take minutes.
        assert_eq!(List("\\\",".repeat(1_000_000).as_bytes()).count(), 0);
    }
}
