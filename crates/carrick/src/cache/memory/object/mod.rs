//! A stored response, with its body.
mod body;

pub use body::{Body, BodyProgress, BodyReader, BodyState, HEAP_BYTES_MAX, Piece};
pub(super) use body::{PIECE_BYTES, Storage, joined};

use super::accounting::Memory;

use crate::cache::disk::{NewHead, Response};
use crate::cache::index::Item;
use crate::cache::key::Key;
use crate::cache::ledger::Ledger;
use crate::cache::purge::Pattern;
use carrick_logic::cache::{ContentRange, Fields, Meta, PackedMeta, Variant, tags};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

/// What an object takes besides its key, head, variant and body: itself, its entries in the index and in the list of evicted objects,
/// and the allocator's overhead. A test checks it.
pub const OVERHEAD_BYTES: u64 = 200;

/// What an object takes in addition if its body is not inside: the body's description, and the allocator's overhead.
pub(super) const APART_BYTES: u64 = 160;

/// Bodies of up to so many bytes are inside their objects once they are whole, unless there is a disk.
pub(super) const INSIDE_BYTES_MAX: usize = 4096;

/// Hits of an object that are counted for eviction, at most.
const FREQUENCY_MAX: u8 = 3;

static NO_VARIANT: LazyLock<Variant> = LazyLock::new(Variant::default);

/// A stored response: decisions, head and body. Only its counters change. A new head for the same body makes a new object
/// ([`Store::replace`](super::Store::replace)).
#[derive(Debug)]
pub struct Object {
    meta: PackedMeta,
    key_bytes: u32,
    /// Bytes of `text` before the body.
    head_end: u32,
    hits: AtomicU32,
    key_hash: u64,
    /// Key, the address of its origin, head, and the body if it is inside.
    text: Box<[u8]>,
    rare: Option<Box<Rare>>,
    place: BodyPlace,
    origin_bytes: u8,
    frequency: AtomicU8,
    /// Whether only readers hold it.
    is_loose: AtomicBool,
    has_tags: bool,
}

/// What few objects have.
#[derive(Debug)]
struct Rare {
    variant: Variant,
    part: Option<ContentRange>,
}

/// Where an object's body is.
#[derive(Debug, Clone)]
pub(super) enum BodyPlace {
    Apart(Arc<Body>),
    /// In the object's `text`.
    Inside(Arc<Memory>),
}

impl Object {
    /// An object, for which the ledger has taken [`charge_of`](Self::charge_of). `inside` is the body if it is inside, else empty.
    /// `None` if key and head are longer than 4 GB.
    pub(super) fn new(
        key: Key<'_>,
        variant: &Variant,
        meta: Meta,
        (head, origin): (&[u8], Option<IpAddr>),
        (place, inside): (BodyPlace, &[u8]),
    ) -> Option<Self> {
        let mut room = [0; 16];
        let origin = written(origin, &mut room);
        let head_end = key.bytes().len() + origin.len() + head.len();
        let is_usual = variant.names().is_empty() && meta.part.is_none();
        Some(Self {
            meta: PackedMeta::of(&meta),
            key_bytes: u32::try_from(key.bytes().len()).ok()?,
            head_end: u32::try_from(head_end).ok()?,
            hits: AtomicU32::new(0),
            key_hash: key.hash(),
            text: [key.bytes(), origin, head, inside].concat().into(),
            rare: (!is_usual).then(|| {
                Box::new(Rare {
                    variant: variant.clone(),
                    part: meta.part(),
                })
            }),
            place,
            // At most 16.
            origin_bytes: origin.len() as u8,
            frequency: AtomicU8::new(0),
            is_loose: AtomicBool::new(false),
            has_tags: !tags(Fields::of_text(head)).is_empty(),
        })
    }

    /// Bytes that an object is charged with, without a body that is apart. `inside`: the length of its body if it is inside.
    pub(super) fn charge_of(
        key: Key<'_>,
        variant: &Variant,
        (head, origin): (&[u8], Option<IpAddr>),
        inside: Option<usize>,
    ) -> u64 {
        let of_origin = written(origin, &mut [0; 16]).len();
        let text = key.bytes().len() + of_origin + head.len() + inside.unwrap_or(0);
        charge(text, variant, inside.is_some())
    }

    /// The decisions that were made when it was stored.
    #[must_use]
    pub fn meta(&self) -> Meta {
        let part = self.rare.as_deref().and_then(|rare| rare.part.as_ref());
        self.meta.unpack(part)
    }

    /// Which bytes of the representation it has, if it is a part.
    #[must_use]
    pub fn part(&self) -> Option<ContentRange> {
        self.rare.as_deref()?.part
    }

    /// The field lines, as `write_stored_fields` writes them.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.text[self.key_bytes as usize + usize::from(self.origin_bytes)..self.head_end as usize]
    }

    /// The field lines, parsed.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        Fields::of_text(self.head())
    }

    /// The requests that it answers.
    #[must_use]
    pub fn variant(&self) -> &Variant {
        (self.rare.as_deref()).map_or(&NO_VARIANT, |rare| &rare.variant)
    }

    /// Whether it is also on the disk, or will be soon.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        (self.apart()).is_some_and(|body| body.kept().is_some_and(|entry| entry.is_kept()))
    }

    /// The body, which may still be filled. One that is inside gets a description of its own.
    #[must_use]
    pub fn body(self: &Arc<Self>) -> Arc<Body> {
        match &self.place {
            BodyPlace::Apart(body) => Arc::clone(body),
            BodyPlace::Inside(memory) => {
                let bytes = self.inside().len() as u64;
                let storage = Storage::Inside(Arc::clone(self));
                Arc::new(Body::loaded(Arc::clone(memory), bytes, 0, storage))
            }
        }
    }

    /// The body, unless it is inside.
    pub(super) fn apart(&self) -> Option<&Arc<Body>> {
        match &self.place {
            BodyPlace::Apart(body) => Some(body),
            BodyPlace::Inside(_) => None,
        }
    }

    /// The body's bytes if it is inside, else none.
    pub(super) fn inside(&self) -> &[u8] {
        &self.text[self.head_end as usize..]
    }

    pub(super) fn place(&self) -> &BodyPlace {
        &self.place
    }

    /// How far the body is.
    #[must_use]
    pub fn progress(&self) -> BodyProgress {
        match self.apart() {
            Some(body) => body.progress(),
            None => BodyProgress {
                bytes: self.inside().len() as u64,
                state: BodyState::Whole,
            },
        }
    }

    /// Whether all bytes of the body are there.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.progress().state == BodyState::Whole
    }

    /// Whether the body's bytes are only in a file of the disk's.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.apart().is_some_and(|body| body.is_file())
    }

    /// Whether anything reads the body. Only for one that is being filled, or made of pieces.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.apart().is_some_and(|body| {
            // Where another has taken its place, that one holds the body, too.
            let successor = body
                .object()
                .filter(|newest| !std::ptr::eq(&**newest, self));
            body.is_read(usize::from(successor.is_some()))
        })
    }

    /// The pieces that the body is made of; none if it has all bytes itself.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        self.apart().map_or(&[], |body| body.pieces())
    }

    /// The key under which it is stored.
    #[must_use]
    pub fn key(&self) -> Key<'_> {
        Key::hashed(&self.text[..self.key_bytes as usize], self.key_hash)
    }

    /// How often it was found, about: threads that find it at the same time may count as one.
    #[must_use]
    pub fn hits(&self) -> u32 {
        self.hits.load(Relaxed)
    }

    /// Whether it has this tag (`Surrogate-Key`, `Cache-Tag`).
    #[must_use]
    pub fn has_tag(&self, tag: &[u8]) -> bool {
        self.has_tags && tags(self.fields()).contains(&tag)
    }

    /// Whether a purge of this pattern is about it.
    #[must_use]
    pub fn matches(&self, which: &Pattern) -> bool {
        which.matches(self.key().bytes(), |tag| self.has_tag(tag))
    }

    /// The address of the server that sent it, if a rule about addresses applies to it.
    #[must_use]
    pub fn origin(&self) -> Option<IpAddr> {
        let start = self.key_bytes as usize;
        let bytes = &self.text[start..start + usize::from(self.origin_bytes)];
        let v4 = || Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?));
        v4().or_else(|| Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)))
    }

    /// What the disk stores of it, if its body has this length.
    pub(super) fn for_disk(&self, body_bytes: u64) -> Response<'_> {
        Response {
            key: self.key(),
            variant: self.variant(),
            meta: self.meta(),
            fields: self.head(),
            origin: self.origin(),
            body_bytes,
        }
    }

    /// A copy of its head for the disk.
    pub(super) fn new_head(&self) -> NewHead {
        NewHead {
            meta: self.meta(),
            origin: self.origin(),
            fields: self.head().into(),
        }
    }

    /// Continues counting from `hits`.
    pub(super) fn set_hits(&mut self, hits: u32) {
        *self.hits.get_mut() = hits;
    }

    /// Counts a hit, with plain stores.
    pub(super) fn note_hit(&self) {
        let frequency = self.frequency.load(Relaxed);
        if frequency < FREQUENCY_MAX {
            self.frequency.store(frequency + 1, Relaxed);
        }
        self.hits
            .store(self.hits.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Bytes that it takes, including its body.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.charge() + self.apart().map_or(0, |body| body.charged_bytes())
    }

    /// What [`charge_of`](Self::charge_of) was.
    fn charge(&self) -> u64 {
        charge(self.text.len(), self.variant(), self.apart().is_none())
    }

    /// Counts it as held by readers only, and with `with_body` its body as well.
    pub(super) fn loosen(&self, with_body: bool) {
        if !self.is_loose.swap(true, Relaxed) {
            self.ledger().loosen(self.charge());
        }
        if with_body && let Some(body) = self.apart() {
            body.loosen();
        }
    }

    fn ledger(&self) -> &Ledger {
        match &self.place {
            BodyPlace::Apart(body) => body.ledger(),
            BodyPlace::Inside(memory) => &memory.ledger,
        }
    }
}

fn charge(text: usize, variant: &Variant, is_inside: bool) -> u64 {
    let of_variant = match variant.parts() {
        ([], _) => 0,
        (names, values) => size_of::<Rare>() + names.len() + values.len(),
    };
    let of_body = if is_inside { 0 } else { APART_BYTES };
    OVERHEAD_BYTES + of_body + (text + of_variant) as u64
}

impl Item for Object {
    fn key(&self) -> Key<'_> {
        self.key()
    }

    fn variant(&self) -> &Variant {
        self.variant()
    }

    fn charged_bytes(&self) -> u64 {
        self.stored_bytes()
    }

    fn is_under_way(&self) -> bool {
        self.progress().state == BodyState::Filling
    }

    fn successor(self: &Arc<Self>) -> Option<Arc<Self>> {
        self.apart()?.moved(self)
    }

    fn frequency(&self) -> u8 {
        self.frequency.load(Relaxed)
    }

    fn set_frequency(&self, frequency: u8) {
        self.frequency.store(frequency, Relaxed);
    }
}

/// An address as bytes.
fn written(address: Option<IpAddr>, room: &mut [u8; 16]) -> &[u8] {
    match address {
        None => &[],
        Some(IpAddr::V4(address)) => {
            room[..4].copy_from_slice(&address.octets());
            &room[..4]
        }
        Some(IpAddr::V6(address)) => {
            *room = address.octets();
            room
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let (ledger, bytes) = (self.ledger(), self.charge());
        if self.is_loose.load(Relaxed) {
            ledger.forget_loose(bytes);
        } else {
            ledger.give_back(bytes);
        }
    }
}
