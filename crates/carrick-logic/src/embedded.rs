//! What an HTML page embeds: the objects that a browser asks for when it has read the page, found while the page comes.
//!
//! | module | what it does |
//! |---|---|
//! | `coding` | takes the content codings gzip and deflate off |
//! | `elements` | which attributes of which elements name an object |
//! | `request` | what is asked for an object in the place of the browser |
mod coding;
mod elements;
mod request;
#[cfg(test)]
mod tests;

pub use coding::{Coding, Decoder};
pub use request::{page_url, write_request};

use elements::Tag;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use std::collections::HashSet;
use std::convert::Infallible;
use url::Url;

/// What is unfinished is read again when so much of it is new, as a part of the whole. So a page that is one tag without an end costs
/// so many times what another costs, however it comes.
const NEW_PART: usize = 8;

/// So many names of objects are taken from a page at most, of use or not.
const NAMES_MAX: usize = 1024;

/// So many references are read in a page at most, also if they repeat each other: each becomes a URL.
const REFERENCES_MAX: usize = 4096;

/// Most bytes of an object's URL. Longer ones are refused by many servers.
const URL_BYTES_MAX: usize = 4096;

/// What an object is to its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A style sheet.
    Style,
    /// A script.
    Script,
    /// A picture.
    Image,
    /// Anything else, or it is not said.
    Other,
}

/// Whose objects are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// Those of the page's own host and port.
    Same,
    /// Also those of other hosts, at port 80.
    Any,
}

/// An object that a page embeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its URL, without a fragment.
    pub url: Url,
    /// What it is.
    pub kind: ObjectKind,
}

/// What was found in a piece of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FoundObjects {
    /// What can be asked for, in the page's order; each once.
    pub objects: Vec<Object>,
    /// How many others were named: not by `http`, of another host or port, too long, or not to be understood.
    pub foreign: usize,
}

/// Looks for what a page embeds while the page comes.
#[derive(Debug)]
pub struct Embedded {
    /// Of the page.
    page: Url,
    hosts: Hosts,
    /// What `<base>` says, else the page's own.
    base: Url,
    has_base: bool,
    /// Whether that is so long that nothing relative to it can be asked for: then the rest of the page is left alone.
    is_base_too_long: bool,
    /// The tags before are read; these bytes begin behind one.
    unread: Vec<u8>,
    /// Bytes that have come since `unread` was read last.
    new_bytes: usize,
    /// Whether what may be the end of a tag is among them.
    has_end: bool,
    /// In how many `<template>`s this is: what is in them is no part of the page.
    templates: usize,
    references: usize,
    names: HashSet<String>,
}

impl Embedded {
    /// For a page with this URL.
    #[must_use]
    pub fn new(page: Url, hosts: Hosts) -> Self {
        Self {
            base: page.clone(),
            page,
            hosts,
            has_base: false,
            is_base_too_long: false,
            unread: Vec::new(),
            new_bytes: 0,
            has_end: false,
            templates: 0,
            references: 0,
            names: HashSet::new(),
        }
    }

    /// Takes the next bytes of the page, without their content coding; what is found in them. It takes time in proportion to them.
    pub fn take(&mut self, bytes: &[u8]) -> FoundObjects {
        self.unread.extend_from_slice(bytes);
        self.new_bytes += bytes.len();
        self.has_end |= memchr::memchr(b'>', bytes).is_some();
        // Without the end of a tag there is nothing new.
        let is_due = self.has_end && self.new_bytes.saturating_mul(NEW_PART) >= self.unread.len();
        let mut found = FoundObjects::default();
        if is_due {
            self.read(&mut found);
        }
        found
    }

    /// No more will come: what was left.
    #[must_use]
    pub fn end(mut self) -> FoundObjects {
        let mut found = FoundObjects::default();
        if self.has_end {
            self.read(&mut found);
        }
        found
    }

    /// Whether no more is taken from this page.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_base_too_long || self.names.len() >= NAMES_MAX || self.references >= REFERENCES_MAX
    }

    /// Reads what is unread, but for a tag or an element of text that is not whole yet.
    fn read(&mut self, found: &mut FoundObjects) {
        let unread = std::mem::take(&mut self.unread);
        (self.new_bytes, self.has_end) = (0, false);
        let mut tag = Tag::default();
        let mut read_bytes = 0;
        {
            let on_event = |event: CallbackEvent<'_>, span: Span<usize>| -> Option<Infallible> {
                match event {
                    CallbackEvent::OpenStartTag { name } => tag.begin(name),
                    CallbackEvent::AttributeName { name } => tag.attribute(name),
                    CallbackEvent::AttributeValue { value } => tag.value(value),
                    CallbackEvent::CloseStartTag { .. } => {
                        self.meet(&tag, found);
                        // The text of a script has no tags in it, whatever it looks like: it is read from its own tag on.
                        if html5gum::naive_next_state(tag.name()).is_none() {
                            read_bytes = span.end;
                        }
                    }
                    CallbackEvent::EndTag { name } => {
                        if name == b"template" {
                            self.templates = self.templates.saturating_sub(1);
                        }
                        read_bytes = span.end;
                    }
                    _ => {}
                }
                None
            };
            let mut emitter = CallbackEmitter::new(on_event);
            emitter.naively_switch_states(true);
            // A slice does not fail.
            let Ok(()) = Tokenizer::new_with_emitter(unread.as_slice(), emitter).finish();
        }
        self.unread = unread;
        self.unread.drain(..read_bytes.min(self.unread.len()));
    }

    /// A whole start tag.
    fn meet(&mut self, tag: &Tag, found: &mut FoundObjects) {
        match tag.name() {
            b"template" => self.templates += 1,
            b"base" if !self.has_base => {
                let base = tag.get(b"href").and_then(|href| self.resolve(href));
                if let Some(base) = base {
                    // Each name would become as long as this.
                    self.is_base_too_long = base.as_str().len() > URL_BYTES_MAX;
                    (self.base, self.has_base) = (base, true);
                }
            }
            _ if self.templates > 0 => {}
            _ => tag.references(|reference, kind| self.name(reference, kind, found)),
        }
    }

    fn name(&mut self, reference: &[u8], kind: ObjectKind, found: &mut FoundObjects) {
        if reference.is_empty() || self.is_full() {
            return;
        }
        self.references += 1;
        let Some(mut url) = self.resolve(reference) else {
            found.foreign += 1;
            return;
        };
        // A page that holds its pictures itself names no others.
        if matches!(url.scheme(), "data" | "blob" | "about" | "javascript") {
            return;
        }
        url.set_fragment(None);
        if url.as_str().len() > URL_BYTES_MAX {
            found.foreign += 1;
            return;
        }
        if !self.names.insert(url.as_str().to_owned()) {
            return;
        }
        if self.is_wanted(&url) {
            found.objects.push(Object { url, kind });
        } else {
            found.foreign += 1;
        }
    }

    /// A browser takes references so, too.
    fn resolve(&self, reference: &[u8]) -> Option<Url> {
        let reference = std::str::from_utf8(reference).ok()?;
        self.base.join(reference).ok()
    }

    fn is_wanted(&self, url: &Url) -> bool {
        let is_same = url.host() == self.page.host()
            && url.port() == self.page.port()
            && url.host().is_some();
        // An absent port is the scheme's own.
        let is_any = self.hosts == Hosts::Any && url.host().is_some() && url.port().is_none();
        url.scheme() == self.page.scheme()
            && (is_same || is_any)
            && url.username().is_empty()
            && url.password().is_none()
            && *url != self.page
    }
}
