//! Names in the directory, and malformed messages.

use crate::engine::tc::hooks::Direction;
use crate::engine::tc::hooks::pins::{PinEntry, Record};
use crate::netlink::{attribute, attributes, split};
use proptest::prelude::*;

#[test]
fn names_in_the_folder_are_read_as_they_are_written() {
    for (name, interface, direction, filter) in [
        ("hook-3-ingress", 3, Direction::Ingress, None),
        ("hook-12-egress", 12, Direction::Egress, None),
        (
            "hook-3-egress-ca228000-4026531840",
            3,
            Direction::Egress,
            Some(Record {
                handle: 0xca22_8000,
                namespace: 4_026_531_840,
            }),
        ),
    ] {
        let entry = PinEntry {
            interface,
            direction,
            filter,
        };
        assert_eq!(PinEntry::parse(name), Some(entry.clone()));
        assert_eq!(entry.name(), name);
    }
    for foreign in [
        "hook-new",
        "hook-3",
        "hook-03-ingress",
        "hook-3-ingress-",
        "hook-3-ingress-CA228000-1",
        "hook-3-ingress-ca228000",
        "hook-3-ingress-ca228000-1-2",
        "hook--1-ingress",
        "flows",
        "",
    ] {
        assert_eq!(PinEntry::parse(foreign), None, "{foreign}");
    }
}

#[test]
fn attributes_are_found_behind_others_of_odd_lengths() {
    // Five bytes of type 1, padded; then four of type 2, with a flag in the type.
    let bytes = [
        9_u16.to_ne_bytes().as_slice(),
        &1_u16.to_ne_bytes(),
        b"hello\0\0\0",
        &8_u16.to_ne_bytes(),
        &0x8002_u16.to_ne_bytes(),
        b"four",
    ]
    .concat();
    assert_eq!(attribute(&bytes, 1), Some(b"hello".as_slice()));
    assert_eq!(attribute(&bytes, 2), Some(b"four".as_slice()));
    assert_eq!(attribute(&bytes, 3), None);
    assert_eq!(
        attributes(&bytes[..19]).count(),
        1,
        "the last one is cut off"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_go_on_for_ever(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(attributes(&bytes).count() <= bytes.len());
        prop_assert!(split(&bytes).count() <= bytes.len());
    }
}
