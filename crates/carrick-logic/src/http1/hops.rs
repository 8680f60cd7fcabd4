//! Whether a request goes in a loop: the marks that proxies leave in `Via` (RFC 9110 section 7.6.3) and `CDN-Loop` (RFC 8586).
use super::{FieldName, RequestHead, syntax};

/// Most proxies that a request may have come through, as `Via` or `CDN-Loop` counts them. Chains of five are rare.
pub const HOPS_MAX: usize = 20;

/// What a proxy knows its own requests by, as text: 64 bits in hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark([u8; 16]);

impl Mark {
    /// The mark with this number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'0'; 16];
        for (place, digit) in text.iter_mut().rev().enumerate() {
            *digit = DIGITS[(number >> (4 * place) & 15) as usize];
        }
        Self(text)
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.0
    }
}

/// Why a request must not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// It was here before.
    Closed,
    /// It has come through more than [`HOPS_MAX`] proxies.
    TooLong,
}

impl RequestHead {
    /// Whether some proxy has had the request before.
    #[must_use]
    pub fn has_come_through_proxies(&self) -> bool {
        self.fields
            .iter()
            .any(|field| matches!(field.known, FieldName::Via | FieldName::CdnLoop))
    }

    /// Whether the request has come in a loop, if this proxy would leave `mark` in it.
    #[must_use]
    pub fn find_loop(&self, bytes: &[u8], mark: &Mark) -> Option<Loop> {
        let is_mark = |part: &[u8]| part == mark.text();
        let is_separator = |byte: &u8| !byte.is_ascii_alphanumeric();
        let (mut via, mut cdn_loop) = (0, 0);
        for field in &self.fields {
            let count = match field.known {
                FieldName::Via => &mut via,
                FieldName::CdnLoop => &mut cdn_loop,
                _ => continue,
            };
            let value = field.value.of(bytes);
            if value.split(is_separator).any(is_mark) {
                return Some(Loop::Closed);
            }
            *count += syntax::elements(value).count();
        }
        (via.max(cdn_loop) > HOPS_MAX).then_some(Loop::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::{HeadLimits, Progress};

    #[test]
    fn circles_are_known_by_the_mark_or_by_their_length() {
        let mark = Mark::new(0x0123_4567_89ab_cdef);
        assert_eq!(mark.text(), b"0123456789abcdef");
        let many = |name: &str, count| format!("{name}: 1.1 a{}\r\n", ", 1.1 b".repeat(count - 1));
        #[rustfmt::skip]
        let table = [
            (String::new(), None),
            ("Via: 1.1 carrick (0123456789abcdef)\r\n".to_owned(), Some(Loop::Closed)),
            ("Via: 1.1 a, 1.1 carrick (0123456789abcdef), 1.0 b (c)\r\n".to_owned(), Some(Loop::Closed)),
            ("Via: 1.1 a\r\nvia: 1.1 carrick (0123456789abcdef)\r\n".to_owned(), Some(Loop::Closed)),
            ("CDN-Loop: other, 0123456789abcdef; a=b\r\n".to_owned(), Some(Loop::Closed)),
            ("Via: 1.1 carrick (0123456789abcdee)\r\n".to_owned(), None),
            ("Via: 1.1 carrick (0123456789abcdef0)\r\n".to_owned(), None),
            ("X-Via: 0123456789abcdef\r\n".to_owned(), None),
            (many("Via", HOPS_MAX), None),
            (many("Via", HOPS_MAX + 1), Some(Loop::TooLong)),
            ("Via: 1.1 a\r\n".repeat(HOPS_MAX + 1), Some(Loop::TooLong)),
            (many("CDN-Loop", HOPS_MAX + 1), Some(Loop::TooLong)),
            ("Via: , ,, ,,,,,,,,,,,,,,,,,,,,,,\r\n".to_owned(), None),
        ];
        for (fields, expected) in table {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let limits = HeadLimits {
                head_bytes_max: 8192,
                fields_max: 100,
            };
            let mut head = RequestHead::new();
            let parsed = head.parse(text.as_bytes(), &limits);
            assert_eq!(parsed, Ok(Progress::Complete), "{text}");
            assert_eq!(head.find_loop(text.as_bytes(), &mark), expected, "{fields}");
            assert_eq!(
                head.has_come_through_proxies(),
                fields.to_ascii_lowercase().starts_with("via") || fields.starts_with("CDN")
            );
        }
    }
}
