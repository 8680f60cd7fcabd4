//! Selection among stored variants by `Vary` (RFC 9111 section 4.1).
use super::UnixTime;
use super::fields::{Elements, Fields};
use super::meta::Meta;
use crate::http1::syntax;
use std::borrow::Borrow;

/// The names that a response's `Vary` has, and the values that the request had for them, in a form in which values that
/// mean the same are the same. The values themselves are kept, not a hash: nobody can make two of them collide.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Variant {
    names: Box<[u8]>,
    values: Box<[u8]>,
}

/// Most names in a `Vary` that is stored.
const NAMES_MAX: usize = 32;

impl Variant {
    /// The variant that `response` is, given the request that it answers. `None` for `Vary: *` and for what is no list
    /// of names: such a response matches no request.
    #[must_use]
    pub fn of(response: Fields<'_>, request: Fields<'_>) -> Option<Self> {
        let mut names: Vec<Vec<u8>> = response
            .elements(b"vary")
            .map(<[u8]>::to_ascii_lowercase)
            .collect();
        if names
            .iter()
            .any(|name| name == b"*" || !syntax::is_token(name))
        {
            return None;
        }
        names.sort();
        names.dedup();
        if names.len() > NAMES_MAX {
            return None;
        }
        let names = names.join(b",".as_slice());
        let values = values(&names, request);
        Some(Self {
            names: names.into(),
            values: values.into(),
        })
    }

    /// Whether a request with these fields can be answered with this variant.
    #[must_use]
    pub fn matches(&self, request: Fields<'_>) -> bool {
        self.names.is_empty() || *self.values == values(&self.names, request)
    }

    /// The variant that a request with these fields asks for, of a response that varies with `names`, which are those of
    /// another variant.
    #[must_use]
    pub fn asked_for(names: &[u8], request: Fields<'_>) -> Self {
        Self {
            names: names.into(),
            values: values(names, request).into(),
        }
    }

    /// The names, lower-case and sorted, with commas between them; empty if the response does not vary.
    #[must_use]
    pub fn names(&self) -> &[u8] {
        &self.names
    }

    /// Each of the names.
    pub fn each_name(&self) -> impl Iterator<Item = &[u8]> {
        each_name(&self.names)
    }

    /// The two parts, for a store: names and values.
    #[must_use]
    pub fn parts(&self) -> (&[u8], &[u8]) {
        (&self.names, &self.values)
    }

    /// A variant of the parts that [`parts`](Self::parts) gave.
    #[must_use]
    pub fn from_parts(names: &[u8], values: &[u8]) -> Self {
        Self {
            names: names.into(),
            values: values.into(),
        }
    }
}

/// Which variants a request matches. Those of one resource mostly vary with the same fields: what the request has for these is read once.
#[derive(Debug)]
pub struct VariantMatcher<'r> {
    request: Fields<'r>,
    /// What the request asks for by the names of the variant before.
    asked: Option<Variant>,
}

impl<'r> VariantMatcher<'r> {
    /// For a request with these fields.
    #[must_use]
    pub fn new(request: Fields<'r>) -> Self {
        Self {
            request,
            asked: None,
        }
    }

    /// Whether the request can be answered with this variant.
    pub fn matches(&mut self, variant: &Variant) -> bool {
        if variant.names.is_empty() {
            return true;
        }
        if self
            .asked
            .as_ref()
            .is_none_or(|asked| asked.names != variant.names)
        {
            self.asked = Some(Variant::asked_for(&variant.names, self.request));
        }
        self.asked.as_ref() == Some(variant)
    }
}

/// Which of the variants, the newest first, answers a request: of those that match the most recent by `Date`, else the
/// one that came last. `None` if none matches.
#[must_use]
pub fn select<'v, M: Borrow<Meta>>(
    variants: impl Iterator<Item = (&'v Variant, M)>,
    request: Fields<'_>,
) -> Option<usize> {
    let mut matcher = VariantMatcher::new(request);
    let mut chosen: Option<(usize, (UnixTime, UnixTime))> = None;
    for (place, (variant, meta)) in variants.enumerate() {
        let meta = meta.borrow();
        let when = (meta.date, meta.response_time);
        if chosen.is_none_or(|(_, before)| when > before) && matcher.matches(variant) {
            chosen = Some((place, when));
        }
    }
    chosen.map(|(place, _)| place)
}

fn each_name(names: &[u8]) -> impl Iterator<Item = &[u8]> {
    names
        .split(|&byte| byte == b',')
        .filter(|name| !name.is_empty())
}

fn values(names: &[u8], request: Fields<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for name in each_name(names) {
        // No field value has the bytes 0 and 1. A field that is absent is not an empty one.
        out.push(u8::from(request.has(name)));
        write_value(&mut out, name, request);
        out.push(0);
    }
    out
}

fn write_value(out: &mut Vec<u8>, name: &[u8], request: Fields<'_>) {
    match name {
        // No lists: white space in them may matter, and lines are not to be reordered.
        b"authorization" | b"cookie" | b"from" | b"host" | b"origin" | b"referer"
        | b"user-agent" => {
            write_lines(out, name, request);
        }
        b"accept" | b"accept-charset" | b"accept-encoding" | b"accept-language" => {
            write_preferences(out, name, request)
        }
        _ => write_elements(out, name, request),
    }
}

/// The elements without white space around them. With an empty one, the lines as they are: a server that does not take the field for a
/// list tells `1,` from `1`.
fn write_elements(out: &mut Vec<u8>, name: &[u8], request: Fields<'_>) {
    let elements: Vec<&[u8]> = request.elements(name).collect();
    let elements = elements.join(b",".as_slice());
    let commas = |text: &[u8]| memchr::memchr_iter(b',', text).count();
    let places: usize = request.values(name).map(|line| commas(line) + 1).sum();
    if places > commas(&elements) + 1 {
        // Unlike every form without: no field value has the byte 1.
        out.push(1);
        return write_lines(out, name, request);
    }
    out.extend_from_slice(&elements);
}

/// The lines as they are, as one.
fn write_lines(out: &mut Vec<u8>, name: &[u8], request: Fields<'_>) {
    let lines: Vec<&[u8]> = request.values(name).collect();
    out.extend_from_slice(&lines.join(b", ".as_slice()));
}

/// Most bytes, and most elements, of preferences that are brought into one form, which takes much longer than comparing
/// them as they are. What clients send is shorter.
const PREFERENCES_BYTES_MAX: usize = 1024;
const PREFERENCES_MAX: usize = 64;

/// RFC 9110 section 12.5: the weights decide, letters can be of either case. The order means nothing for charsets and codings. Of media
/// types and languages of the same weight, servers may prefer the first (section 12.5.4).
fn write_preferences(out: &mut Vec<u8>, name: &[u8], request: Fields<'_>) {
    let bytes: usize = request.values(name).map(<[u8]>::len).sum();
    if bytes > PREFERENCES_BYTES_MAX || request.elements(name).nth(PREFERENCES_MAX).is_some() {
        // As it is, and unlike every form of a shorter one: no field value has the byte 1.
        out.push(1);
        return write_lines(out, name, request);
    }
    let mut elements: Vec<Vec<u8>> = request
        .elements(name)
        .map(|element| preference(name, element))
        .collect();
    if !matches!(name, b"accept" | b"accept-language") {
        elements.sort();
    }
    elements.dedup();
    out.extend_from_slice(&elements.join(b",".as_slice()));
}

fn preference(name: &[u8], element: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(element.len());
    let mut parts = Elements::divided_by(element, b';').enumerate().peekable();
    let mut has_weight = false;
    while let Some((place, part)) = parts.next() {
        let (key, value) = match memchr::memchr(b'=', part) {
            Some(equals) => (
                syntax::trim(&part[..equals]),
                Some(syntax::trim(&part[equals + 1..])),
            ),
            None => (part, None),
        };
        // Of two weights, or of one that is none, servers take different ones.
        let is_q = place > 0 && key.eq_ignore_ascii_case(b"q");
        let is_only = is_q && !has_weight && parts.peek().is_none();
        has_weight |= is_q;
        let weight = value
            .filter(|value| is_only && is_weight(value))
            .map(without_zeros);
        if weight == Some(b"1") {
            continue;
        }
        if place > 0 {
            out.push(b';');
        }
        out.extend_from_slice(&key.to_ascii_lowercase());
        if let Some(value) = weight.or(value) {
            out.push(b'=');
            // Parameters of media types may mind the case.
            if name == b"accept" {
                out.extend_from_slice(value)
            } else {
                out.extend_from_slice(&value.to_ascii_lowercase())
            }
        }
    }
    out
}

/// RFC 9110 section 12.4.2.
fn is_weight(text: &[u8]) -> bool {
    match text {
        [b'0' | b'1'] => true,
        [b'0', b'.', digits @ ..] => digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit),
        [b'1', b'.', zeros @ ..] => zeros.len() <= 3 && zeros.iter().all(|byte| *byte == b'0'),
        _ => false,
    }
}

/// `0.50` as `0.5`, `1.0` as `1`.
fn without_zeros(mut weight: &[u8]) -> &[u8] {
    if weight.contains(&b'.') {
        while let [rest @ .., b'0'] = weight {
            weight = rest;
        }
        weight = weight.strip_suffix(b".").unwrap_or(weight);
    }
    weight
}

#[cfg(test)]
mod tests;
