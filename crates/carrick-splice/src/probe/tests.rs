//! The probe.

use super::*;

#[test]
fn this_machine_has_everything() {
    for feature in probe() {
        assert!(feature.usable.is_ok(), "{feature:?}");
    }
}

#[test]
fn a_wrong_byte_is_noticed() {
    let mut bytes = sample();
    verify(&bytes).unwrap();
    bytes[SAMPLE_BYTES / 2] ^= 1;
    verify(&bytes).unwrap_err();
    verify(&sample()[1..]).unwrap_err();
}
