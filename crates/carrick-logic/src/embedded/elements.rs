//! Which attributes of which elements name an object that a browser asks for with the page (HTML, "fetching resources").
use super::ObjectKind;

/// Attributes that are read; others are not even kept.
const NAMES: [&[u8]; 9] = [
    b"src", b"srcset", b"href", b"rel", b"as", b"poster", b"type", b"loading", b"media",
];

/// A start tag, as far as it is of interest.
#[derive(Debug, Default)]
pub(super) struct Tag {
    name: Vec<u8>,
    attributes: Vec<(&'static [u8], Vec<u8>)>,
    /// The next value belongs to the attribute that came last.
    takes_value: bool,
}

impl Tag {
    /// A tag begins.
    pub(super) fn begin(&mut self, name: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(name);
        self.attributes.clear();
        self.takes_value = false;
    }

    /// It has this attribute. Of those of the same name the first counts.
    pub(super) fn attribute(&mut self, name: &[u8]) {
        let known = NAMES.into_iter().find(|known| *known == name);
        let new = known.filter(|known| self.get(known).is_none());
        self.takes_value = new.is_some();
        self.attributes.extend(new.map(|name| (name, Vec::new())));
    }

    /// The last attribute has this value.
    pub(super) fn value(&mut self, value: &[u8]) {
        if self.takes_value
            && let Some((_, kept)) = self.attributes.last_mut()
        {
            kept.extend_from_slice(value);
        }
    }

    /// Its name, in lower case.
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The value of an attribute, without the white space around it.
    pub(super) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let (_, value) = self.attributes.iter().find(|(known, _)| *known == name)?;
        Some(value.trim_ascii())
    }

    /// Calls `name` with each reference to an object.
    pub(super) fn references(&self, mut name: impl FnMut(&[u8], ObjectKind)) {
        let mut one = |attribute: &[u8], kind| {
            if let Some(reference) = self.get(attribute) {
                name(reference, kind);
            }
        };
        match self.name.as_slice() {
            // Browsers ask for these when they come into view, if ever.
            b"img" if self.is(b"loading", b"lazy") => {}
            b"img" => {
                one(b"src", ObjectKind::Image);
                self.candidate(name);
            }
            b"source" => {
                one(b"src", ObjectKind::Other);
                self.candidate(name);
            }
            b"script" => one(b"src", ObjectKind::Script),
            b"video" => one(b"poster", ObjectKind::Image),
            b"input" if self.is(b"type", b"image") => one(b"src", ObjectKind::Image),
            b"link" => {
                if let Some(kind) = self.linked() {
                    one(b"href", kind);
                }
            }
            _ => {}
        }
    }

    /// Of `srcset` the candidate that a screen of density 1 takes; of those that go by width, the first.
    fn candidate(&self, mut name: impl FnMut(&[u8], ObjectKind)) {
        let Some(list) = self.get(b"srcset") else {
            return;
        };
        let candidates = candidates(list);
        let usual = candidates
            .iter()
            .find(|(_, descriptor)| matches!(*descriptor, b"" | b"1x" | b"1.0x"));
        if let Some((reference, _)) = usual.or(candidates.first()) {
            name(reference, ObjectKind::Image);
        }
    }

    /// What a `<link>` is to the page; `None`: it is not asked for.
    fn linked(&self) -> Option<ObjectKind> {
        let rel = self.get(b"rel")?;
        let has = |word: &[u8]| {
            rel.split(u8::is_ascii_whitespace)
                .any(|one| one.eq_ignore_ascii_case(word))
        };
        if has(b"stylesheet") {
            return (!has(b"alternate")).then_some(ObjectKind::Style);
        }
        if has(b"icon") {
            return Some(ObjectKind::Image);
        }
        if has(b"modulepreload") {
            return Some(ObjectKind::Script);
        }
        has(b"preload").then(|| {
            if self.is(b"as", b"style") {
                ObjectKind::Style
            } else if self.is(b"as", b"script") {
                ObjectKind::Script
            } else if self.is(b"as", b"image") {
                ObjectKind::Image
            } else {
                ObjectKind::Other
            }
        })
    }

    fn is(&self, attribute: &[u8], value: &[u8]) -> bool {
        self.get(attribute)
            .is_some_and(|given| given.eq_ignore_ascii_case(value))
    }
}

/// The candidates of a `srcset`, each with its descriptor. A URL may have commas in it, but not at its end.
fn candidates(mut list: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut candidates = Vec::new();
    loop {
        let is_between = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
        let start = list.iter().position(|byte| !is_between(byte));
        let Some(start) = start else {
            return candidates;
        };
        list = &list[start..];
        let end = list.iter().position(u8::is_ascii_whitespace);
        let (url, rest) = list.split_at(end.unwrap_or(list.len()));
        let bare = url.trim_suffix_commas();
        if bare.len() < url.len() {
            candidates.push((bare, b"".as_slice()));
            list = rest;
            continue;
        }
        let end = memchr::memchr(b',', rest).unwrap_or(rest.len());
        let (descriptor, rest) = rest.split_at(end);
        candidates.push((url, descriptor.trim_ascii()));
        list = rest;
    }
}

trait TrimCommas {
    fn trim_suffix_commas(&self) -> &[u8];
}

impl TrimCommas for [u8] {
    fn trim_suffix_commas(&self) -> &[u8] {
        let end = self.iter().rposition(|byte| *byte != b',');
        &self[..end.map_or(0, |end| end + 1)]
    }
}
