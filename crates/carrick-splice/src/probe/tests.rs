//! The probe.

use super::*;

#[test]
fn this_machine_has_everything() {
    for feature in probe() {
        match feature.usable {
            // A module, or a kernel without it.
            Err(why) if feature.name == "engine ktls" || why.contains("needs Linux") => {
                carrick_test::lacks!("{}: {why}", feature.name);
            }
            usable => assert!(usable.is_ok(), "{}: {usable:?}", feature.name),
        }
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
