//! A table as it stands in the kernel's map: `struct request_table` of `bpf/http/tables.h`.

use super::route::{Cookie, NotInKernel, Settings};
use super::skeleton::types::{request_cookie, request_table, request_text};
use super::{COOKIE_BYTES_MAX, COOKIES_MAX, ROUTES_MAX, TEXT_BYTES_MAX, TEXTS_MAX};
use crate::engine::tc::http::METHODS;
use crate::engine::tc::state::put;
use std::mem::{offset_of, size_of};

/// `enum request_text_kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Path = 0,
    Extension = 1,
    Host = 2,
    HostBelow = 3,
}

/// What a text is a condition on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Path,
    Extension,
    Host,
}

#[derive(Debug, Clone)]
struct Text {
    kind: Kind,
    text: String,
    routes: u32,
}

#[derive(Debug, Clone)]
struct Named {
    name: String,
    present: u32,
    absent: u32,
}

/// A table that is being made. Bit i of each number of routes is route i.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    settings: Settings,
    routes: u32,
    pub(super) in_kernel: u32,
    pub(super) upstreams: [u32; ROUTES_MAX],
    by_method: [u32; METHODS.len()],
    by_cgi: [u32; 2],
    /// Routes with a condition on each [`Part`].
    with: [u32; 3],
    asks_for_cgi: u32,
    texts: Vec<Text>,
    cookies: Vec<Named>,
}

impl Draft {
    pub(super) fn new(settings: Settings) -> Draft {
        Draft {
            settings,
            routes: 0,
            in_kernel: 0,
            upstreams: [0; ROUTES_MAX],
            by_method: [0; METHODS.len()],
            by_cgi: [0; 2],
            with: [0; 3],
            asks_for_cgi: 0,
            texts: Vec::new(),
            cookies: Vec::new(),
        }
    }

    /// A route that takes everything, until conditions are added.
    pub(super) fn add_route(&mut self, bit: u32) {
        self.routes |= bit;
        self.by_method.iter_mut().for_each(|routes| *routes |= bit);
        self.by_cgi.iter_mut().for_each(|routes| *routes |= bit);
    }

    pub(super) fn add_methods(&mut self, bit: u32, wanted: &[String]) {
        for (routes, method) in self.by_method.iter_mut().zip(METHODS) {
            if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == method) {
                *routes &= !bit;
            }
        }
    }

    pub(super) fn add_cgi(&mut self, bit: u32, wanted: Option<bool>) {
        if let Some(wanted) = wanted {
            self.asks_for_cgi |= bit;
            self.by_cgi[usize::from(!wanted)] &= !bit;
        }
    }

    /// The condition that one of these is there; all of them or, if they have no room, none.
    pub(super) fn add_texts(
        &mut self,
        bit: u32,
        part: Part,
        texts: Vec<(Kind, String)>,
    ) -> Result<(), NotInKernel> {
        if texts.iter().any(|(_, text)| text.len() > TEXT_BYTES_MAX) {
            return Err(NotInKernel::Long);
        }
        let mut all = self.texts.clone();
        for (kind, text) in texts {
            // What is compared without case is written in one way.
            let text = match kind {
                Kind::Path => text,
                Kind::Extension | Kind::Host | Kind::HostBelow => text.to_ascii_lowercase(),
            };
            let found = all
                .iter_mut()
                .find(|one| one.kind == kind && one.text == text);
            match found {
                Some(found) => found.routes |= bit,
                None => all.push(Text {
                    kind,
                    text,
                    routes: bit,
                }),
            }
        }
        if all.len() > TEXTS_MAX {
            return Err(NotInKernel::Texts);
        }
        self.texts = all;
        self.with[part as usize] |= bit;
        Ok(())
    }

    pub(super) fn add_cookie(&mut self, bit: u32, cookie: &Cookie) -> Result<(), NotInKernel> {
        let is_odd = |byte: u8| !byte.is_ascii_graphic() || matches!(byte, b'=' | b';');
        let name = &cookie.name;
        if name.is_empty() || name.len() > COOKIE_BYTES_MAX || name.bytes().any(is_odd) {
            return Err(NotInKernel::Cookie);
        }
        let place = self.cookies.iter().position(|one| one.name == *name);
        let place = match place {
            Some(place) => place,
            None if self.cookies.len() == COOKIES_MAX => return Err(NotInKernel::Cookies),
            None => {
                self.cookies.push(Named {
                    name: name.clone(),
                    present: 0,
                    absent: 0,
                });
                self.cookies.len() - 1
            }
        };
        let named = &mut self.cookies[place];
        if cookie.is_present {
            named.present |= bit;
        } else {
            named.absent |= bit;
        }
        Ok(())
    }

    /// Its bytes; the structure has no gaps.
    pub(super) fn bytes(&self, generation: u32) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<request_table>()];
        let saturated = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        macro_rules! put_fields {
            ($($field:ident: $value:expr),* $(,)?) => {
                $(put_u32s(&mut bytes, offset_of!(request_table, $field), &$value);)*
            };
        }
        put_fields!(
            generation: [generation],
            routes: [self.routes],
            in_kernel: [self.in_kernel],
            by_method: self.by_method,
            by_cgi: self.by_cgi,
            with_path: [self.with[Part::Path as usize]],
            with_extension: [self.with[Part::Extension as usize]],
            with_host: [self.with[Part::Host as usize]],
            asks_for_cgi: [self.asks_for_cgi],
            texts_count: [saturated(self.texts.len())],
            cookies_count: [saturated(self.cookies.len())],
            head_bytes_max: [saturated(self.settings.head_bytes_max)],
            fields_max: [saturated(self.settings.fields_max)],
            passes_forwarded: [u32::from(self.settings.passes_forwarded)],
            sample_every: [self.settings.sample_every],
            upstreams: self.upstreams,
        );
        for (place, text) in self.texts.iter().enumerate() {
            let at = offset_of!(request_table, texts) + place * size_of::<request_text>();
            put_text(&mut bytes, at, text);
        }
        for (place, cookie) in self.cookies.iter().enumerate() {
            let at = offset_of!(request_table, cookies) + place * size_of::<request_cookie>();
            put_cookie(&mut bytes, at, cookie);
        }
        bytes
    }
}

/// The kernel takes the first byte for the lowest of eight, whatever the machine is.
fn put_text(bytes: &mut [u8], at: usize, text: &Text) {
    let letters = text.text.as_bytes();
    let is_folded = text.kind != Kind::Path;
    let folds = letters
        .iter()
        .map(|byte| {
            if is_folded && byte.is_ascii_alphabetic() {
                0x20
            } else {
                0
            }
        })
        .collect::<Vec<u8>>();
    let masks = vec![0xff; letters.len()];
    put_words(bytes, at + offset_of!(request_text, words), letters);
    put_words(bytes, at + offset_of!(request_text, masks), &masks);
    put_words(bytes, at + offset_of!(request_text, folds), &folds);
    let length = letters.len() as u32;
    put_u32s(bytes, at + offset_of!(request_text, bytes), &[length]);
    let kind = text.kind as u32;
    put_u32s(bytes, at + offset_of!(request_text, kind), &[kind]);
    put_u32s(bytes, at + offset_of!(request_text, routes), &[text.routes]);
}

fn put_cookie(bytes: &mut [u8], at: usize, cookie: &Named) {
    let name = cookie.name.as_bytes();
    let masks = vec![0xff; name.len()];
    put_words(bytes, at + offset_of!(request_cookie, words), name);
    put_words(bytes, at + offset_of!(request_cookie, masks), &masks);
    let length = name.len() as u32;
    put_u32s(bytes, at + offset_of!(request_cookie, bytes), &[length]);
    let (present, absent) = ([cookie.present], [cookie.absent]);
    put_u32s(bytes, at + offset_of!(request_cookie, present), &present);
    put_u32s(bytes, at + offset_of!(request_cookie, absent), &absent);
}

fn put_words(bytes: &mut [u8], at: usize, text: &[u8]) {
    for (place, part) in text.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        let word = u64::from_le_bytes(word);
        put(bytes, at + 8 * place, &word.to_ne_bytes());
    }
}

fn put_u32s(bytes: &mut [u8], at: usize, numbers: &[u32]) {
    for (place, number) in numbers.iter().enumerate() {
        put(bytes, at + 4 * place, &number.to_ne_bytes());
    }
}
