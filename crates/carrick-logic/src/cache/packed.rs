//! Decisions about a stored response, in half the memory: caches keep millions.
use super::meta::{LifetimeFrom, Meta, Validator};
use super::record::{LIFETIMES, VALIDATORS, place_of};
use super::{ContentRange, UnixTime};

/// A [`Meta`] without its part, in 36 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedMeta {
    seconds: [u32; 4],
    /// When it came, `Date` and `Last-Modified`, of 40 bits each: 34,000 years.
    moments: [[u8; 5]; 3],
    /// Validator and words.
    bits: u8,
    /// The rest of the words, and where the lifetime comes from.
    more_bits: u8,
    status: [u8; 2],
}

const MOMENT_MAX: u64 = (1 << 40) - 1;

impl PackedMeta {
    /// Packs `meta`, except for its part. Moments after the year 36000 are taken for the last one.
    #[must_use]
    pub fn of(meta: &Meta) -> Self {
        let moment = |moment: UnixTime| {
            let [_, _, _, rest @ ..] = moment.0.min(MOMENT_MAX).to_be_bytes();
            rest
        };
        Self {
            seconds: [
                meta.initial_age_s,
                meta.lifetime_s,
                meta.stale_while_revalidate_s,
                meta.stale_if_error_s,
            ],
            moments: [
                moment(meta.response_time),
                moment(meta.date),
                moment(meta.last_modified.unwrap_or_default()),
            ],
            bits: place_of(&VALIDATORS, meta.validator)
                | u8::from(meta.always_validate) << 3
                | u8::from(meta.client_may_take_stale) << 4
                | u8::from(meta.immutable) << 5
                | u8::from(meta.no_transform) << 6,
            more_bits: place_of(&LIFETIMES, meta.lifetime_from)
                | u8::from(meta.last_modified.is_some()) << 3,
            status: meta.status.to_be_bytes(),
        }
    }

    /// What was packed, with this part.
    #[must_use]
    pub fn unpack(&self, part: Option<&ContentRange>) -> Meta {
        let [
            initial_age_s,
            lifetime_s,
            stale_while_revalidate_s,
            stale_if_error_s,
        ] = self.seconds;
        let [response_time, date, modified] = self
            .moments
            .map(|[a, b, c, d, e]| UnixTime(u64::from_be_bytes([0, 0, 0, a, b, c, d, e])));
        let has = |bit: u8| self.bits & 1 << bit != 0;
        let at = |bits: u8| usize::from(bits & 7);
        Meta {
            status: u16::from_be_bytes(self.status),
            response_time,
            initial_age_s,
            lifetime_s,
            lifetime_from: (LIFETIMES.get(at(self.more_bits)).copied())
                .unwrap_or(LifetimeFrom::Nothing),
            date,
            last_modified: (self.more_bits & 8 != 0).then_some(modified),
            validator: (VALIDATORS.get(at(self.bits)).copied()).unwrap_or(Validator::None),
            always_validate: has(3),
            client_may_take_stale: has(4),
            stale_while_revalidate_s,
            stale_if_error_s,
            immutable: has(5),
            no_transform: has(6),
            part: part.map(|part| Box::new(*part)),
        }
    }
}
