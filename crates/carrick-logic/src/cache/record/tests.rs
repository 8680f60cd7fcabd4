//! Records: what was written is read back, and nothing else is accepted.
use super::*;
use crate::cache::{ContentRange, PackedMeta};
use proptest::prelude::*;

fn some_bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

prop_compose! {
    fn some_meta()(
        (status, times, seconds) in (any::<u16>(), any::<[u32; 3]>(), any::<[u32; 4]>()),
        (from, validator) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        (has_modified, words) in (any::<bool>(), any::<[bool; 4]>()),
    ) -> Meta {
        Meta {
            status,
            response_time: UnixTime(times[0].into()),
            date: UnixTime(times[1].into()),
            last_modified: has_modified.then_some(UnixTime(times[2].into())),
            initial_age_s: seconds[0],
            lifetime_s: seconds[1],
            stale_while_revalidate_s: seconds[2],
            stale_if_error_s: seconds[3],
            lifetime_from: *from.get(&LIFETIMES),
            validator: *validator.get(&VALIDATORS),
            always_validate: words[0],
            client_may_take_stale: words[1],
            immutable: words[2],
            no_transform: words[3],
            part: None,
        }
    }
}

prop_compose! {
    fn some_pieces()(key in some_bytes(40), names in some_bytes(20), values in some_bytes(20), head in some_bytes(80), body in some_bytes(200)) -> [Vec<u8>; 5] {
        [key, names, values, head, body]
    }
}

fn written(
    meta: Meta,
    [key, names, values, head, body]: &[Vec<u8>; 5],
    generation: u64,
) -> Vec<u8> {
    let record = Record {
        variant: Variant::from_parts(names, values),
        meta,
        head,
        body,
    };
    record.write(key, generation).unwrap()
}

proptest! {
    #[test]
    fn what_was_packed_is_unpacked(meta in some_meta(), (start, bytes) in (any::<u32>(), 1..1000_u64)) {
        let start = u64::from(start);
        let part = ContentRange { start, end: start + bytes, total_bytes: None };
        let packed = PackedMeta::of(&meta);
        prop_assert_eq!(&packed.unpack(None), &meta);
        let expected = Meta { part: Some(Box::new(part)), ..meta };
        prop_assert_eq!(packed.unpack(Some(&part)), expected);
        prop_assert_eq!(size_of::<PackedMeta>(), 36);
    }

    #[test]
    fn what_was_written_is_read(meta in some_meta(), pieces in some_pieces(), generation in any::<u64>()) {
        let bytes = written(meta.clone(), &pieces, generation);
        let [key, names, values, head, body] = &pieces;
        let expected = Record { variant: Variant::from_parts(names, values), meta, head, body };
        prop_assert_eq!(
            read_record(&bytes, key, generation),
            Some(Recorded::Response(Box::new(expected)))
        );
        prop_assert_eq!(read_record(&bytes, key, generation.wrapping_add(1)), None);
        let other = [key.as_slice(), b"x"].concat();
        prop_assert_eq!(read_record(&bytes, &other, generation), None);
    }

    /// A changed bit, a truncation, or trailing bytes are detected.
    #[test]
    fn what_was_changed_is_not_read(meta in some_meta(), pieces in some_pieces(), at in any::<prop::sample::Index>(), bit in 0..8, more in some_bytes(8)) {
        let bytes = written(meta, &pieces, 7);
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= 1_u8 << bit;
        prop_assert_eq!(read_record(&changed, &pieces[0], 7), None);
        prop_assert_eq!(read_record(&bytes[..at.index(bytes.len())], &pieces[0], 7), None);
        if !more.is_empty() {
            let longer = [bytes, more].concat();
            prop_assert_eq!(read_record(&longer, &pieces[0], 7), None);
        }
    }

    /// Arbitrary bytes with a valid checksum are read without a panic.
    #[test]
    fn anything_can_be_read(rest in some_bytes(300)) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&CHECKSUM.checksum(&rest).to_be_bytes());
        bytes.extend_from_slice(&rest);
        let _ = read_record(&bytes, b"", 0);
        let _ = read_record(&rest, b"", 0);
    }

    #[test]
    fn the_names_that_responses_vary_with_are_read(key in some_bytes(40), names in some_bytes(20), generation in any::<u64>()) {
        let bytes = write_varies(&key, &names, generation).unwrap();
        let expected = (!names.is_empty()).then_some(Recorded::Varies(&names));
        prop_assert_eq!(read_record(&bytes, &key, generation), expected);
    }
}

#[test]
fn parts_are_not_written() {
    let part = crate::cache::ContentRange {
        start: 0,
        end: 1,
        total_bytes: None,
    };
    let bytes = written_meta(|meta| meta.part = Some(Box::new(part)));
    assert_eq!(bytes, None);
    assert!(written_meta(|_| {}).is_some());
}

fn written_meta(change: impl FnOnce(&mut Meta)) -> Option<Vec<u8>> {
    let mut meta = Meta {
        status: 200,
        response_time: UnixTime(1),
        date: UnixTime(1),
        last_modified: None,
        initial_age_s: 0,
        lifetime_s: 0,
        stale_while_revalidate_s: 0,
        stale_if_error_s: 0,
        lifetime_from: LifetimeFrom::Nothing,
        validator: Validator::None,
        always_validate: false,
        client_may_take_stale: false,
        immutable: false,
        no_transform: false,
        part: None,
    };
    change(&mut meta);
    let record = Record {
        variant: Variant::default(),
        meta,
        head: b"",
        body: b"",
    };
    record.write(b"key", 0)
}
