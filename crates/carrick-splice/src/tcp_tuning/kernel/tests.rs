//! Requests to the programs.

use super::*;

#[test]
fn times_are_passed_in_ticks_rounded_up() {
    let (ms, tick) = (Duration::from_millis, Duration::from_millis(4));
    assert_eq!(ticks(Duration::ZERO, tick), 0);
    assert_eq!(ticks(ms(1), tick), 1);
    assert_eq!(ticks(ms(4), tick), 1);
    assert_eq!(ticks(ms(5), tick), 2);
    assert_eq!(ticks(ms(3000), tick), 750);
    // The kernel ticks 100 to 1000 times per second.
    assert!(
        (ms(1)..=ms(10)).contains(&super::tick()),
        "{:?}",
        super::tick()
    );
}

#[test]
fn a_request_has_the_key_and_a_name_that_ends() {
    let kernel = Kernel::without_programs();
    let long = Request::CongestionControl("a_name_that_is_too_long");
    let bytes = kernel.encode([1, 2], long);
    assert_eq!(bytes[..8], 1_u64.to_ne_bytes());
    assert_eq!(bytes[8..16], 2_u64.to_ne_bytes());
    let name = &bytes[offset_of!(tcp_request, name)..];
    assert_eq!(name, b"a_name_that_is_\0");
}
