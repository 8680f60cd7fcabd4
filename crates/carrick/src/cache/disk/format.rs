//! The format of files: two slots for heads, then the body.
//!
//! ```text
//! 0                head, even revisions      the file's name says how long a slot is (512 bytes to 1 MB)
//! slot             head, odd revisions
//! 2 * slot         body, to the end of the file
//! ```
//!
//! A new head overwrites the older one: if that is interrupted, the other remains. Numbers are little-endian.
use carrick_logic::cache::{LifetimeFrom, Meta, UnixTime, Validator, Variant};
use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;
use twox_hash::XxHash3_64;

/// The first bytes of a head; the last one is the version.
const MAGIC: [u8; 8] = *b"carrick\x01";

/// A page of the file system.
const PAGE_BYTES: u64 = 4096;

/// The smallest slot, in bytes.
const SLOT_BYTES_MIN: u64 = 512;

/// The largest class: slots of 1 MB.
pub(super) const CLASS_MAX: u8 = 11;

/// Bytes of a head without its texts, including the checksum at its end.
const FIXED_BYTES: usize = 8 + 8 + 8 + 8 + ORIGIN_BYTES + 4 * 4 + META_BYTES + SUM_BYTES;

/// An IPv6 address, or an IPv4-mapped one (RFC 4291 section 2.5.5.2); zeros: none.
const ORIGIN_BYTES: usize = 16;

const META_BYTES: usize = 2 + 5 + 8 + 4 + 4 + 8 + 9 + 4 + 4;

const SUM_BYTES: usize = 8;

/// The length of a slot.
pub(super) fn slot_bytes(class: u8) -> u64 {
    SLOT_BYTES_MIN << class.min(CLASS_MAX)
}

/// Where the body begins.
pub(super) fn body_start(class: u8) -> u64 {
    2 * slot_bytes(class)
}

/// Bytes that a file takes on the disk, in whole pages.
pub(super) fn file_bytes(class: u8, body_bytes: u64) -> u64 {
    let bytes = body_start(class).saturating_add(body_bytes);
    bytes.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES)
}

/// The class whose slots have room for a head of this length, and some more; `None`: it is too long.
pub(super) fn class_for(head_bytes: usize) -> Option<u8> {
    let wanted = head_bytes as u64 + head_bytes as u64 / 8;
    (0..=CLASS_MAX).find(|&class| slot_bytes(class) >= wanted)
}

/// A checksum of bytes that come in pieces: XXH3, 64 bits. It finds damage by media and crashes. It is no protection against programs
/// that can write to the folder.
#[derive(Clone, Default)]
pub(super) struct Sum(XxHash3_64);

impl fmt::Debug for Sum {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}", self.value())
    }
}

impl Sum {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.finish()
    }

    fn of(bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot(bytes)
    }
}

/// The head of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// Counts the heads that were written for this body.
    pub(super) revision: u64,
    pub(super) body_bytes: u64,
    pub(super) body_sum: u64,
    /// The address of the server that sent it, if a rule about addresses applies to it.
    pub(super) origin: Option<IpAddr>,
    pub(super) meta: Meta,
    pub(super) key: Box<[u8]>,
    pub(super) variant: Variant,
    /// The field lines.
    pub(super) fields: Box<[u8]>,
}

impl Head {
    /// How long it is in a file.
    pub(super) fn bytes_of(key: &[u8], variant: &Variant, fields: &[u8]) -> usize {
        let (names, values) = variant.parts();
        FIXED_BYTES + key.len() + names.len() + values.len() + fields.len()
    }

    /// Encodes it. Parts (206) are not written to files.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (names, values) = self.variant.parts();
        let texts = [&self.key, names, values, &self.fields];
        let mut out =
            Vec::with_capacity(FIXED_BYTES + texts.iter().map(|text| text.len()).sum::<usize>());
        out.extend_from_slice(&MAGIC);
        for number in [self.revision, self.body_bytes, self.body_sum] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&match self.origin {
            None => [0; ORIGIN_BYTES],
            Some(IpAddr::V4(address)) => address.to_ipv6_mapped().octets(),
            Some(IpAddr::V6(address)) => address.octets(),
        });
        for text in texts {
            // Longer texts do not fit into any slot, and were refused before.
            let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&bytes.to_le_bytes());
        }
        encode_meta(&mut out, &self.meta);
        for text in texts {
            out.extend_from_slice(text);
        }
        let sum = Sum::of(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes the head at the beginning of `bytes`; `None`: there is none, or it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&MAGIC)?;
        let [revision, body_bytes, body_sum] = take_numbers(&mut rest)?;
        let origin: [u8; ORIGIN_BYTES] = take(&mut rest)?;
        let origin = (origin != [0; ORIGIN_BYTES]).then(|| IpAddr::from(origin).to_canonical());
        let mut lengths = [0; 4];
        for length in &mut lengths {
            *length = u32::from_le_bytes(take(&mut rest)?) as usize;
        }
        let meta = decode_meta(&mut rest)?;
        let mut text = |length: usize| {
            let (text, behind) = rest.split_at_checked(length)?;
            rest = behind;
            Some(text)
        };
        let [key, names, values, fields] = [
            text(lengths[0])?,
            text(lengths[1])?,
            text(lengths[2])?,
            text(lengths[3])?,
        ];
        let covered = bytes.len() - rest.len();
        let sum = u64::from_le_bytes(take(&mut rest)?);
        (sum == Sum::of(bytes.get(..covered)?)).then(|| Self {
            revision,
            body_bytes,
            body_sum,
            origin,
            meta,
            key: key.into(),
            variant: Variant::from_parts(names, values),
            fields: fields.into(),
        })
    }

    /// The newer of the heads in the two slots of `class`, as far as `bytes` has them.
    pub(super) fn newest(bytes: &[u8], class: u8) -> Option<Self> {
        let slot = usize::try_from(slot_bytes(class)).ok()?;
        let first = Self::decode(bytes.get(..slot).unwrap_or(bytes));
        let second = bytes
            .get(slot..)
            .and_then(|rest| Self::decode(rest.get(..slot).unwrap_or(rest)));
        match (first, second) {
            (Some(first), Some(second)) if second.revision > first.revision => Some(second),
            (Some(first), _) => Some(first),
            (None, second) => second,
        }
    }

    /// The offset of a head of this revision.
    pub(super) fn offset(revision: u64, class: u8) -> u64 {
        (revision % 2) * slot_bytes(class)
    }
}

fn encode_meta(out: &mut Vec<u8>, meta: &Meta) {
    out.extend_from_slice(&meta.status.to_le_bytes());
    let flags = [
        meta.always_validate,
        meta.client_may_take_stale,
        meta.immutable,
        meta.no_transform,
        meta.last_modified.is_some(),
    ];
    let flags = (0..).zip(flags).map(|(bit, flag)| u8::from(flag) << bit);
    out.push(flags.sum());
    out.push(match meta.lifetime_from {
        LifetimeFrom::SMaxage => 0,
        LifetimeFrom::MaxAge => 1,
        LifetimeFrom::Expires => 2,
        LifetimeFrom::Heuristic => 3,
        LifetimeFrom::Configuration => 4,
        LifetimeFrom::Nothing => 5,
    });
    out.push(match meta.validator {
        Validator::StrongTag => 0,
        Validator::WeakTag => 1,
        Validator::StrongDate => 2,
        Validator::WeakDate => 3,
        Validator::None => 4,
    });
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&meta.response_time.0.to_le_bytes());
    out.extend_from_slice(&meta.initial_age_s.to_le_bytes());
    out.extend_from_slice(&meta.lifetime_s.to_le_bytes());
    out.extend_from_slice(&meta.date.0.to_le_bytes());
    out.push(0);
    out.extend_from_slice(&meta.last_modified.map_or(0, |time| time.0).to_le_bytes());
    out.extend_from_slice(&meta.stale_while_revalidate_s.to_le_bytes());
    out.extend_from_slice(&meta.stale_if_error_s.to_le_bytes());
}

fn decode_meta(rest: &mut &[u8]) -> Option<Meta> {
    let status = u16::from_le_bytes(take(rest)?);
    let [flags, lifetime_from, validator, _, _] = take(rest)?;
    let flag = |bit: u8| flags >> bit & 1 == 1;
    let response_time = UnixTime(u64::from_le_bytes(take(rest)?));
    let initial_age_s = u32::from_le_bytes(take(rest)?);
    let lifetime_s = u32::from_le_bytes(take(rest)?);
    let date = UnixTime(u64::from_le_bytes(take(rest)?));
    let [_] = take(rest)?;
    let last_modified = UnixTime(u64::from_le_bytes(take(rest)?));
    Some(Meta {
        status,
        response_time,
        initial_age_s,
        lifetime_s,
        lifetime_from: match lifetime_from {
            0 => LifetimeFrom::SMaxage,
            1 => LifetimeFrom::MaxAge,
            2 => LifetimeFrom::Expires,
            3 => LifetimeFrom::Heuristic,
            4 => LifetimeFrom::Configuration,
            5 => LifetimeFrom::Nothing,
            _ => return None,
        },
        date,
        last_modified: flag(4).then_some(last_modified),
        validator: match validator {
            0 => Validator::StrongTag,
            1 => Validator::WeakTag,
            2 => Validator::StrongDate,
            3 => Validator::WeakDate,
            4 => Validator::None,
            _ => return None,
        },
        always_validate: flag(0),
        client_may_take_stale: flag(1),
        stale_while_revalidate_s: u32::from_le_bytes(take(rest)?),
        stale_if_error_s: u32::from_le_bytes(take(rest)?),
        immutable: flag(2),
        no_transform: flag(3),
        part: None,
    })
}

fn take<const BYTES: usize>(rest: &mut &[u8]) -> Option<[u8; BYTES]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

fn take_numbers<const COUNT: usize>(rest: &mut &[u8]) -> Option<[u64; COUNT]> {
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        *number = u64::from_le_bytes(take(rest)?);
    }
    Some(numbers)
}
