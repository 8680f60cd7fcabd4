//! Tests of core lists and masks.

use super::*;

#[test]
fn masks_are_grouped_by_32_bits() {
    assert_eq!(rps_mask(0), "1");
    assert_eq!(rps_mask(5), "20");
    assert_eq!(rps_mask(31), "80000000");
    assert_eq!(rps_mask(33), "2,00000000");
    assert_eq!(rps_mask(64), "1,00000000,00000000");
}

#[test]
fn a_pair_needs_two_different_cores_of_the_machine() {
    for wrong in ["", "0", "0,0", "a,b", "0,100000"] {
        assert!(CorePair::parse(wrong).is_err(), "{wrong}");
    }
}
