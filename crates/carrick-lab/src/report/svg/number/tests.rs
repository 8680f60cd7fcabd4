//! Tests of how numbers are written.

use super::*;

#[test]
fn short_numbers() {
    for (value, expected) in [
        (0.0, "0"),
        (0.034, "0.034"),
        (0.000_012, "1.2e-5"),
        (3.456, "3.46"),
        (41.0, "41"),
        (318.4, "318"),
        (500.0, "500"),
        (2400.0, "2.4k"),
        (60_000.0, "60k"),
        (123_456.0, "123k"),
        (12_345_678.0, "12.3M"),
        (5e9, "5G"),
        (-41.0, "−41"),
        (f64::NAN, "?"),
    ] {
        assert_eq!(short(value), expected);
    }
}

#[test]
fn ticks_of_one_axis_have_one_unit_and_no_more_decimals_than_the_step_needs() {
    assert_eq!(tick(0.0, 20_000.0, 100_000.0), "0");
    assert_eq!(tick(20_000.0, 20_000.0, 100_000.0), "20k");
    assert_eq!(tick(2500.0, 500.0, 3000.0), "2500");
    assert_eq!(tick(0.25, 0.25, 1.0), "0.25");
    assert_eq!(tick(1000.1, 0.05, 1000.2), "1000.10");
    assert_eq!(tick(10_000.1, 0.1, 10_000.4), "10\u{202f}000.1");
    assert_eq!(tick(-5.0, 5.0, 10.0), "−5");
    assert_eq!(tick(1e-17, 0.1, 0.3), "0");
}

#[test]
fn a_mean_is_as_exact_as_its_interval() {
    assert_eq!(with_half_width(33.123, Some(0.42)), "33.12 ± 0.42");
    assert_eq!(
        with_half_width(123_456.0, Some(789.0)),
        "123\u{202f}456 ± 789"
    );
    assert_eq!(with_half_width(33.123_456, None), "33.12");
    assert_eq!(with_half_width(33.0, Some(f64::INFINITY)), "33");
    assert_eq!(with_half_width(-0.5, Some(0.12)), "−0.50 ± 0.12");
    assert_eq!(exact(1_234_567.8), "1\u{202f}234\u{202f}568");
    assert_eq!(exact(0.000_123_456), "0.0001235");
}
