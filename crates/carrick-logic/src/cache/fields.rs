//! Field lines, whether they have just been parsed or lie as text in a store.
use crate::http1::{Field, RequestHead, ResponseHead, syntax};

/// The field lines of a message; cheap to copy.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(Source<'a>);

#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Parsed(&'a [Field], &'a [u8]),
    Text(&'a [u8]),
}

impl<'a> Fields<'a> {
    /// The fields of a parsed request, with the buffer that it was parsed from.
    #[must_use]
    pub fn of_request(head: &'a RequestHead, bytes: &'a [u8]) -> Self {
        Self(Source::Parsed(&head.fields, bytes))
    }

    /// The fields of a parsed response, with the buffer that it was parsed from.
    #[must_use]
    pub fn of_response(head: &'a ResponseHead, bytes: &'a [u8]) -> Self {
        Self(Source::Parsed(&head.fields, bytes))
    }

    /// Lines `name: value` with CR LF each, as [`write_stored_fields`](super::write_stored_fields) wrote them: without
    /// a first line, with or without the empty line. A line without a colon is passed over.
    #[must_use]
    pub fn of_text(text: &'a [u8]) -> Self {
        Self(Source::Text(text))
    }

    /// The text of the lines, if it has all of them and nothing else.
    #[must_use]
    pub fn text(self) -> Option<&'a [u8]> {
        match self.0 {
            Source::Text(text) if text.ends_with(b"\r\n") && !text.ends_with(b"\r\n\r\n") => {
                Some(text)
            }
            _ => None,
        }
    }

    /// Name and value of each line, in order.
    #[must_use]
    pub fn iter(self) -> Lines<'a> {
        Lines(self.0)
    }

    /// The values of all lines with this name (lower-case), in order.
    pub fn values(self, name_lower: &[u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        self.iter()
            .filter(move |(name, _)| name.eq_ignore_ascii_case(name_lower))
            .map(|(_, value)| value)
    }

    /// The value of the first line with this name (lower-case).
    #[must_use]
    pub fn first(self, name_lower: &[u8]) -> Option<&'a [u8]> {
        self.values(name_lower).next()
    }

    /// Whether there is a line with this name (lower-case).
    #[must_use]
    pub fn has(self, name_lower: &[u8]) -> bool {
        self.first(name_lower).is_some()
    }

    /// The elements of all lines with this name taken as one list; commas in quoted strings do not divide.
    pub fn elements(self, name_lower: &[u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        self.values(name_lower).flat_map(Elements::of)
    }
}

impl<'a> IntoIterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = Lines<'a>;

    fn into_iter(self) -> Lines<'a> {
        self.iter()
    }
}

/// Names and values, line after line.
#[derive(Debug, Clone)]
pub struct Lines<'a>(Source<'a>);

impl<'a> Iterator for Lines<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Parsed(fields, bytes) => {
                let (field, rest) = fields.split_first()?;
                *fields = rest;
                Some((field.name.of(bytes), field.value.of(bytes)))
            }
            Source::Text(text) => loop {
                if text.is_empty() {
                    return None;
                }
                let end = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
                let (line, rest) = text.split_at(end);
                *text = rest;
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                if let Some(colon) = memchr::memchr(b':', line) {
                    return Some((&line[..colon], syntax::trim(&line[colon + 1..])));
                }
            },
        }
    }
}

/// The elements of a list (RFC 9110 section 5.6.1) that may have quoted strings. Empty ones are left out; a quote that
/// is never closed is an ordinary byte, so that nothing after it is swallowed.
#[derive(Debug, Clone)]
pub(super) struct Elements<'a> {
    rest: &'a [u8],
    separator: u8,
    quotes_close: bool,
}

impl<'a> Elements<'a> {
    pub(super) fn of(list: &'a [u8]) -> Self {
        Self::divided_by(list, b',')
    }

    pub(super) fn divided_by(list: &'a [u8], separator: u8) -> Self {
        Self {
            rest: list,
            separator,
            quotes_close: true,
        }
    }

    fn end(&mut self) -> usize {
        let mut place = 0;
        while let Some(&byte) = self.rest.get(place) {
            if byte == self.separator {
                return place;
            }
            if byte == b'"' && self.quotes_close {
                match closing_quote(&self.rest[place + 1..]) {
                    Some(length) => place += length + 1,
                    // Looked for once only, which keeps this linear.
                    None => self.quotes_close = false,
                }
            }
            place += 1;
        }
        place
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = self.end();
            let element = syntax::trim(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !element.is_empty() {
                return Some(element);
            }
        }
        None
    }
}

/// Where the quoted string ends whose inside `text` begins with.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut place = 0;
    loop {
        place += memchr::memchr2(b'"', b'\\', text.get(place..)?)?;
        if text[place] == b'"' {
            return Some(place);
        }
        place += 2;
    }
}

/// A number of seconds as RFC 9111 section 1.2.2 has it: digits only; too large a number is
/// [`SECONDS_MAX`](super::SECONDS_MAX).
pub(super) fn delta_seconds(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u32, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        Some(
            number
                .saturating_mul(10)
                .saturating_add(digit)
                .min(super::SECONDS_MAX),
        )
    })
}

/// Appends the line `name: value`.
pub(super) fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}
