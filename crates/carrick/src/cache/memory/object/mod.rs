//! A stored response, with its body.
mod body;

pub use body::{Body, BodyProgress, BodyReader, BodyState, HEAP_BYTES_MAX, Piece};
pub(super) use body::{PIECE_BYTES, Storage, joined};

use crate::cache::disk::{NewHead, Response};
use crate::cache::index::Item;
use crate::cache::key::Key;
use crate::cache::ledger::Charge;
use crate::cache::purge::Pattern;
use carrick_logic::cache::{Fields, Meta, Variant, tags};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

/// What an object takes besides its key, head, variant and body: itself, its body's description, its entries in the index and in the
/// list of evicted objects, and the allocator's overhead. A test checks it.
pub const OVERHEAD_BYTES: u64 = 300;

/// Hits of an object that are counted for eviction, at most.
const FREQUENCY_MAX: u8 = 3;

static NO_VARIANT: LazyLock<Variant> = LazyLock::new(Variant::default);

/// A stored response: decisions, head and body. Only its counters change. A new head for the same body makes a new object
/// ([`Store::replace`](super::Store::replace)).
#[derive(Debug)]
pub struct Object {
    meta: Meta,
    key_hash: u64,
    /// Key, the address of its origin, and head.
    text: Box<[u8]>,
    key_bytes: u32,
    origin_bytes: u8,
    hits: AtomicU32,
    variant: Option<Box<Variant>>,
    body: Arc<Body>,
    charge: Charge,
    frequency: AtomicU8,
    has_tags: bool,
}

impl Object {
    /// An object, for which the ledger has taken [`charge_of`](Self::charge_of). `None` if the key is longer than 4 GB.
    pub(super) fn new(
        key: Key<'_>,
        variant: &Variant,
        meta: Meta,
        (head, origin): (&[u8], Option<IpAddr>),
        body: Arc<Body>,
    ) -> Option<Self> {
        let key_bytes = u32::try_from(key.bytes().len()).ok()?;
        let charge = Self::charge_of(key, variant, (head, origin));
        let mut room = [0; 16];
        let origin = written(origin, &mut room);
        let variant = (!variant.names().is_empty()).then(|| Box::new(variant.clone()));
        Some(Self {
            meta,
            key_hash: key.hash(),
            text: [key.bytes(), origin, head].concat().into(),
            key_bytes,
            // At most 16.
            origin_bytes: origin.len() as u8,
            hits: AtomicU32::new(0),
            charge: Charge::new(charge),
            variant,
            body,
            frequency: AtomicU8::new(0),
            has_tags: !tags(Fields::of_text(head)).is_empty(),
        })
    }

    /// Bytes that an object is charged with, without its body.
    pub(super) fn charge_of(
        key: Key<'_>,
        variant: &Variant,
        (head, origin): (&[u8], Option<IpAddr>),
    ) -> u64 {
        let of_variant = match variant.parts() {
            ([], _) => 0,
            (names, values) => size_of::<Variant>() + names.len() + values.len(),
        };
        let of_origin = written(origin, &mut [0; 16]).len();
        OVERHEAD_BYTES + (key.bytes().len() + of_origin + head.len() + of_variant) as u64
    }

    /// The decisions that were made when it was stored.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The field lines, as `write_stored_fields` writes them.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.text[self.key_bytes as usize + usize::from(self.origin_bytes)..]
    }

    /// The field lines, parsed.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        Fields::of_text(self.head())
    }

    /// The requests that it answers.
    #[must_use]
    pub fn variant(&self) -> &Variant {
        self.variant.as_deref().unwrap_or(&NO_VARIANT)
    }

    /// Whether it is also on the disk, or will be soon.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.body
            .kept()
            .as_ref()
            .is_some_and(|entry| entry.is_kept())
    }

    /// The body, which may still be filled.
    #[must_use]
    pub fn body(&self) -> &Arc<Body> {
        &self.body
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
            meta: &self.meta,
            fields: self.head(),
            origin: self.origin(),
            body_bytes,
        }
    }

    /// A copy of its head for the disk.
    pub(super) fn new_head(&self) -> NewHead {
        NewHead {
            meta: self.meta.clone(),
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
        self.charge.bytes() + self.body.charged_bytes()
    }

    /// Counts it as held by readers only, and with `with_body` its body as well.
    pub(super) fn loosen(&self, with_body: bool) {
        let ledger = self.body.ledger();
        self.charge.loosen(ledger);
        if with_body {
            self.body.loosen();
        }
    }
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
        self.body.progress().state == BodyState::Filling
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
        self.charge.settle(self.body.ledger());
    }
}
