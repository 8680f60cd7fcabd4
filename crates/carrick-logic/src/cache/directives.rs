//! `Cache-Control` of requests and responses (RFC 9111 section 5.2, RFC 5861, RFC 8246), and `CDN-Cache-Control` (RFC
//! 9213).
//!
//! What can only forbid is recognised in any spelling; what allows must be written as the RFC has it.
use super::fields::{Elements, Fields, delta_seconds};
use super::structured::{self, Item};
use crate::http1::syntax;

/// What a request says to caches. Absent and unintelligible are `None`, but an unintelligible `max-age` is 0, the
/// strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(
    missing_docs,
    reason = "each is the directive of that name in RFC 9111 section 5.2.1 or RFC 5861, in seconds"
)]
pub struct RequestDirectives {
    pub no_cache: bool,
    pub no_store: bool,
    pub no_transform: bool,
    pub only_if_cached: bool,
    pub max_age_s: Option<u32>,
    /// Without a number: [`SECONDS_MAX`](super::SECONDS_MAX).
    pub max_stale_s: Option<u32>,
    pub min_fresh_s: Option<u32>,
    pub stale_if_error_s: Option<u32>,
}

/// How far a directive that may name fields reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The directive is not there.
    #[default]
    Absent,
    /// Only the fields that it names; they are in [`ResponseDirectives::withheld`].
    Fields,
    /// The whole response; also when the names are unintelligible, or too many.
    Response,
}

/// What a response says to this cache. An unintelligible lifetime is 0: "stale" (RFC 9111 section 4.2.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(
    missing_docs,
    reason = "each is the directive of that name in RFC 9111 section 5.2.2, RFC 5861 or RFC 8246, in seconds"
)]
pub struct ResponseDirectives {
    pub no_store: bool,
    pub no_cache: Scope,
    pub private: Scope,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    pub no_transform: bool,
    pub immutable: bool,
    pub max_age_s: Option<u32>,
    pub s_maxage_s: Option<u32>,
    pub stale_while_revalidate_s: Option<u32>,
    pub stale_if_error_s: Option<u32>,
    /// Names of fields, lower-case, that `no-cache="…"` and `private="…"` keep from being stored.
    pub withheld: Vec<Vec<u8>>,
    /// They came in a targeted field (RFC 9213): `Cache-Control` and `Expires` are not to be looked at.
    pub targeted: bool,
}

/// What stands behind a directive's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Argument<'a> {
    Absent,
    Text(&'a [u8]),
    Integer(i64),
    /// White space around `=`, an open quote, or another type than there can be.
    Malformed,
}

impl Argument<'_> {
    fn seconds(self) -> Option<u32> {
        match self {
            Self::Text(text) => delta_seconds(text),
            Self::Integer(number) => u64::try_from(number).ok().map(|number| {
                u32::try_from(number)
                    .map_or(super::SECONDS_MAX, |number| number.min(super::SECONDS_MAX))
            }),
            Self::Absent | Self::Malformed => None,
        }
    }
}

/// Takes `name`, `name=token` and `name="quoted"` apart. RFC 9111 section 5.2: both forms of an argument are accepted.
fn divide(directive: &[u8]) -> (&[u8], Argument<'_>) {
    let Some(equals) = memchr::memchr(b'=', directive) else {
        return (directive, Argument::Absent);
    };
    let (name, argument) = (&directive[..equals], &directive[equals + 1..]);
    let is_spaced =
        name.ends_with(b" ") || name.ends_with(b"\t") || matches!(argument, [b' ' | b'\t', ..]);
    let argument = match argument {
        _ if is_spaced => Argument::Malformed,
        [b'"', inside @ .., b'"'] if !inside.contains(&b'"') && !inside.contains(&b'\\') => {
            Argument::Text(inside)
        }
        [b'"', ..] => Argument::Malformed,
        text => Argument::Text(text),
    };
    (syntax::trim(name), argument)
}

/// The longest name of a directive that is known here is `stale-while-revalidate`.
const NAME_BYTES_MAX: usize = 22;

/// `name` in lower case, written to `room`; empty if it is longer than any that is known. Every hit comes through here,
/// so it does not allocate.
fn lower<'r>(name: &[u8], room: &'r mut [u8; NAME_BYTES_MAX]) -> &'r [u8] {
    let Some(room) = room.get_mut(..name.len()) else {
        return &[];
    };
    room.copy_from_slice(name);
    room.make_ascii_lowercase();
    room
}

/// Sets what is not set yet: of several, the first counts (RFC 9111 section 4.2.1).
fn set<T>(place: &mut Option<T>, value: T) {
    place.get_or_insert(value);
}

impl RequestDirectives {
    /// Takes one more line of `Cache-Control` into account.
    pub(super) fn add(&mut self, value: &[u8]) {
        for directive in Elements::of(value) {
            let (name, argument) = divide(directive);
            match lower(name, &mut [0; NAME_BYTES_MAX]) {
                b"no-cache" => self.no_cache = true,
                b"no-store" => self.no_store = true,
                b"no-transform" => self.no_transform = true,
                b"only-if-cached" => self.only_if_cached = true,
                b"max-age" => set(&mut self.max_age_s, argument.seconds().unwrap_or(0)),
                b"max-stale" => match argument {
                    Argument::Absent => set(&mut self.max_stale_s, super::SECONDS_MAX),
                    _ => self.max_stale_s = self.max_stale_s.or(argument.seconds()),
                },
                b"min-fresh" => self.min_fresh_s = self.min_fresh_s.or(argument.seconds()),
                b"stale-if-error" => {
                    self.stale_if_error_s = self.stale_if_error_s.or(argument.seconds())
                }
                _ => {}
            }
        }
    }
}

impl ResponseDirectives {
    /// Reads the first of the `targeted` fields (lower-case names, RFC 9213 section 2.2) that is valid and not empty,
    /// else all lines of `Cache-Control`. `targeted` is empty for a cache that is nobody's CDN.
    #[must_use]
    pub fn read(fields: Fields<'_>, targeted: &[Vec<u8>]) -> Self {
        if let Some(directives) = targeted
            .iter()
            .find_map(|name| Self::read_targeted(fields, name))
        {
            return directives;
        }
        let mut directives = Self::default();
        for value in fields.values(b"cache-control") {
            for directive in Elements::of(value) {
                let (name, argument) = divide(directive);
                directives.add(lower(name, &mut [0; NAME_BYTES_MAX]), argument);
                let is_plain = match argument {
                    Argument::Absent => true,
                    // What was quoted ends before the directive.
                    Argument::Text(text) => !directive.ends_with(text) || syntax::is_token(text),
                    Argument::Integer(_) | Argument::Malformed => false,
                };
                if !is_plain || !syntax::is_token(name) {
                    directives.add_prohibitions(directive);
                }
            }
        }
        directives
    }

    /// Of what is no directive, such as `private; max-age=60`, that forbids which its author has meant to.
    fn add_prohibitions(&mut self, directive: &[u8]) {
        for word in directive.split(|&byte| !syntax::is_token_byte(byte)) {
            let mut room = [0; NAME_BYTES_MAX];
            if let word @ (b"no-store" | b"no-cache" | b"private") = lower(word, &mut room) {
                self.add(word, Argument::Malformed);
            }
        }
    }

    /// Whether others may have the answer to a request with `Authorization` (RFC 9111 section 3.5).
    pub(super) fn allow_authorized(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage_s.is_some()
    }

    /// RFC 9213 section 2.1: a Dictionary of RFC 9651. A field that is no Dictionary, is empty, or gives a lifetime
    /// that is no Integer, counts as absent. Parameters mean nothing.
    fn read_targeted(fields: Fields<'_>, name_lower: &[u8]) -> Option<Self> {
        if !fields.has(name_lower) {
            return None;
        }
        let lines: Vec<&[u8]> = fields.values(name_lower).collect();
        let text = lines.join(b", ".as_slice());
        let members = structured::dictionary(&text)?;
        let mut directives = Self {
            targeted: true,
            ..Self::default()
        };
        for (name, item) in &members {
            let argument = match item {
                Item::Boolean(true) => Argument::Absent,
                Item::Boolean(false) => continue,
                Item::Integer(number) => Argument::Integer(*number),
                Item::Text(text) => Argument::Text(text),
                Item::Other => Argument::Malformed,
            };
            if is_lifetime(name) && !matches!(argument, Argument::Integer(_)) {
                return None;
            }
            directives.add(name, argument);
        }
        (!members.is_empty()).then_some(directives)
    }

    fn add(&mut self, name_lower: &[u8], argument: Argument<'_>) {
        match name_lower {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache = widened(self.no_cache, argument, &mut self.withheld),
            b"private" => self.private = widened(self.private, argument, &mut self.withheld),
            // What allows must be as the RFC has it: without an argument.
            b"public" => self.public |= argument == Argument::Absent,
            b"immutable" => self.immutable |= argument == Argument::Absent,
            b"must-understand" => self.must_understand = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"no-transform" => self.no_transform = true,
            b"max-age" => set(&mut self.max_age_s, argument.seconds().unwrap_or(0)),
            b"s-maxage" => set(&mut self.s_maxage_s, argument.seconds().unwrap_or(0)),
            b"stale-while-revalidate" => set(
                &mut self.stale_while_revalidate_s,
                argument.seconds().unwrap_or(0),
            ),
            b"stale-if-error" => set(&mut self.stale_if_error_s, argument.seconds().unwrap_or(0)),
            _ => {}
        }
    }
}

fn is_lifetime(name: &[u8]) -> bool {
    matches!(
        name,
        b"max-age" | b"s-maxage" | b"stale-while-revalidate" | b"stale-if-error"
    )
}

/// Most names of fields in `no-cache="…"` and `private="…"` together. Each field of a response is compared with all.
const WITHHELD_MAX: usize = 64;

/// The scope of a directive after one more occurrence; the names of fields go to `withheld`.
fn widened(scope: Scope, argument: Argument<'_>, withheld: &mut Vec<Vec<u8>>) -> Scope {
    let Argument::Text(list) = argument else {
        return Scope::Response;
    };
    let names: Vec<&[u8]> = syntax::elements(list).collect();
    let is_long = withheld.len() + names.len() > WITHHELD_MAX;
    if is_long || names.is_empty() || !names.iter().all(|name| syntax::is_token(name)) {
        return Scope::Response;
    }
    withheld.extend(names.iter().map(|name| name.to_ascii_lowercase()));
    if scope == Scope::Response {
        scope
    } else {
        Scope::Fields
    }
}

#[cfg(test)]
mod tests;
