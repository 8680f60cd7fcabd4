//! A stored response as bytes, for a store that other processes share: with a version, a checksum and its own key, so that
//! whatever else is found in its place is known to be something else.
//!
//! ```text
//! "carrick" version=1 | CRC-32C of all that follows | generation: 8 | kind: 1
//! lengths, 4 each: key, names, values, head, body | kind 1: decisions: 48 | key names values head body
//! ```
//!
//! Numbers are big-endian. A response that varies has a record of kind 0 beside its own, which has the names that its
//! `Vary` has, and nothing else.
#[cfg(test)]
mod tests;

use super::meta::{LifetimeFrom, Meta, Validator};
use super::{UnixTime, Variant};
use crate::cursor::Cursor;
use crc::{CRC_32_ISCSI, Crc};

/// What every record begins with; the last byte is the version.
const MAGIC: [u8; 8] = *b"carrick\x01";

/// Bytes before what the checksum is of.
const CHECKED_FROM: usize = MAGIC.len() + 4;

const CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// A stored response, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is the answer to.
    pub variant: Variant,
    /// The decisions. Those about a part are not kept: a record is of a whole response.
    pub meta: Meta,
    /// As [`write_stored_fields`](super::write_stored_fields) wrote it.
    pub head: &'a [u8],
    /// All of it.
    pub body: &'a [u8],
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded<'a> {
    /// Responses vary with these fields: names as [`Variant::names`] has them, not empty.
    Varies(&'a [u8]),
    /// This response.
    Response(Box<Record<'a>>),
}

impl Record<'_> {
    /// The bytes for what is stored under `key`. `generation` is whatever is the same for all that was not purged. `None`:
    /// a piece is longer than 4 GiB, or the response is a part.
    #[must_use]
    pub fn write(&self, key: &[u8], generation: u64) -> Option<Vec<u8>> {
        if self.meta.part().is_some() {
            return None;
        }
        let (names, values) = self.variant.parts();
        let pieces = [key, names, values, self.head, self.body];
        let mut out = begin(generation, 1, pieces)?;
        write_meta(&mut out, &self.meta);
        Some(finish(out, pieces))
    }
}

/// The bytes that say with which fields responses under `key` vary. `None`: a piece is too long.
#[must_use]
pub fn write_varies(key: &[u8], names: &[u8], generation: u64) -> Option<Vec<u8>> {
    let pieces = [key, names, b"", b"", b""];
    Some(finish(begin(generation, 0, pieces)?, pieces))
}

/// What these bytes say of `key`, if they are a record of it and of this generation.
#[must_use]
pub fn read_record<'a>(bytes: &'a [u8], key: &[u8], generation: u64) -> Option<Recorded<'a>> {
    let (before, checked) = bytes.split_at_checked(CHECKED_FROM)?;
    let mut cursor = Cursor::new(before);
    let is_ours = cursor.take_array()? == MAGIC;
    let checksum = cursor.take_array()?;
    if !is_ours || checksum != CHECKSUM.checksum(checked).to_be_bytes() {
        return None;
    }
    let mut cursor = Cursor::new(checked);
    if cursor.take_array()? != generation.to_be_bytes() {
        return None;
    }
    let kind = cursor.take_u8()?;
    let mut lengths = [0; 5];
    for length in &mut lengths {
        *length = usize::try_from(take_u32(&mut cursor)?).ok()?;
    }
    let meta = match kind {
        0 => None,
        1 => Some(read_meta(&mut cursor)?),
        _ => return None,
    };
    let mut pieces = [b"".as_slice(); 5];
    for (piece, length) in pieces.iter_mut().zip(lengths) {
        *piece = cursor.take(length)?;
    }
    let [of, names, values, head, body] = pieces;
    if of != key || !cursor.is_empty() {
        return None;
    }
    match meta {
        None if names.is_empty() => None,
        None => Some(Recorded::Varies(names)),
        Some(meta) => Some(Recorded::Response(Box::new(Record {
            variant: Variant::from_parts(names, values),
            meta,
            head,
            body,
        }))),
    }
}

/// All up to the lengths; the checksum is left open.
fn begin(generation: u64, kind: u8, pieces: [&[u8]; 5]) -> Option<Vec<u8>> {
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut out = Vec::with_capacity(CHECKED_FROM + 128 + bytes);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&generation.to_be_bytes());
    out.push(kind);
    for piece in pieces {
        let length = u32::try_from(piece.len()).ok()?;
        out.extend_from_slice(&length.to_be_bytes());
    }
    Some(out)
}

fn finish(mut out: Vec<u8>, pieces: [&[u8]; 5]) -> Vec<u8> {
    for piece in pieces {
        out.extend_from_slice(piece);
    }
    let checksum = CHECKSUM.checksum(out.get(CHECKED_FROM..).unwrap_or_default());
    if let Some(place) = out.get_mut(MAGIC.len()..CHECKED_FROM) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
    out
}

fn write_meta(out: &mut Vec<u8>, meta: &Meta) {
    out.extend_from_slice(&meta.status.to_be_bytes());
    for moment in [
        Some(meta.response_time),
        Some(meta.date),
        meta.last_modified,
    ] {
        // No moment that is reckoned with is the last one.
        let seconds = moment.map_or(u64::MAX, |moment| moment.0);
        out.extend_from_slice(&seconds.to_be_bytes());
    }
    for seconds in [
        meta.initial_age_s,
        meta.lifetime_s,
        meta.stale_while_revalidate_s,
        meta.stale_if_error_s,
    ] {
        out.extend_from_slice(&seconds.to_be_bytes());
    }
    out.push(place_of(&LIFETIMES, meta.lifetime_from));
    out.push(place_of(&VALIDATORS, meta.validator));
    for word in [
        meta.always_validate,
        meta.client_may_take_stale,
        meta.immutable,
        meta.no_transform,
    ] {
        out.push(u8::from(word));
    }
}

fn read_meta(cursor: &mut Cursor<'_>) -> Option<Meta> {
    let status = cursor.take_u16()?;
    let (response_time, date) = (take_moment(cursor)??, take_moment(cursor)??);
    let last_modified = take_moment(cursor)?;
    let (initial_age_s, lifetime_s) = (take_u32(cursor)?, take_u32(cursor)?);
    let (stale_while_revalidate_s, stale_if_error_s) = (take_u32(cursor)?, take_u32(cursor)?);
    Some(Meta {
        status,
        response_time,
        date,
        last_modified,
        initial_age_s,
        lifetime_s,
        stale_while_revalidate_s,
        stale_if_error_s,
        lifetime_from: *LIFETIMES.get(usize::from(cursor.take_u8()?))?,
        validator: *VALIDATORS.get(usize::from(cursor.take_u8()?))?,
        always_validate: take_word(cursor)?,
        client_may_take_stale: take_word(cursor)?,
        immutable: take_word(cursor)?,
        no_transform: take_word(cursor)?,
        part: None,
    })
}

/// Their places here are what is written: new ones go to the end. [`PackedMeta`](super::PackedMeta) has three bits for them.
pub(super) const LIFETIMES: [LifetimeFrom; 6] = [
    LifetimeFrom::SMaxage,
    LifetimeFrom::MaxAge,
    LifetimeFrom::Expires,
    LifetimeFrom::Heuristic,
    LifetimeFrom::Configuration,
    LifetimeFrom::Nothing,
];

/// As [`LIFETIMES`].
pub(super) const VALIDATORS: [Validator; 5] = [
    Validator::StrongTag,
    Validator::WeakTag,
    Validator::StrongDate,
    Validator::WeakDate,
    Validator::None,
];

/// The place of one that is there.
pub(super) fn place_of<T: PartialEq>(all: &[T], one: T) -> u8 {
    let place = all.iter().position(|known| *known == one);
    place
        .and_then(|place| u8::try_from(place).ok())
        .unwrap_or(u8::MAX)
}

/// `Some(None)`: it says that there is none.
fn take_moment(cursor: &mut Cursor<'_>) -> Option<Option<UnixTime>> {
    let seconds = u64::from_be_bytes(cursor.take_array()?);
    Some((seconds != u64::MAX).then_some(UnixTime(seconds)))
}

fn take_u32(cursor: &mut Cursor<'_>) -> Option<u32> {
    cursor.take_array().map(u32::from_be_bytes)
}

fn take_word(cursor: &mut Cursor<'_>) -> Option<bool> {
    match cursor.take_u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}
