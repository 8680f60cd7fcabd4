//! Numbers at the edges of their units.
use super::*;

#[test]
fn bytes_have_binary_units_and_few_columns() {
    for (number, shown) in [
        (0.0, "0"),
        (0.4, "0"),
        (1023.0, "1023"),
        (1023.6, "1.0K"),
        (1024.0, "1.0K"),
        (1536.0, "1.5K"),
        (102_400.0, "100K"),
        (1_048_575.0, "1.0M"),
        (10.0 * 1_048_576.0, "10.0M"),
        (18_446_744_073_709_551_615.0, "16.0E"),
    ] {
        assert_eq!(bytes(number), shown, "{number}");
    }
    for exponent in 0..64 {
        for part in [0.999, 1.0, 1.4, 1.999] {
            let shown = bytes(2_f64.powi(exponent) * part);
            assert!(shown.len() <= 6, "{shown}");
        }
    }
}

#[test]
fn counts_are_exact_while_they_are_small() {
    for (number, shown) in [
        (0.0, "0"),
        (0.04, "0.0"),
        (0.5, "0.5"),
        (99.94, "99.9"),
        (99.96, "100"),
        (999.4, "999"),
        (999.6, "1.0k"),
        (1500.0, "1.5k"),
        (2_500_000.0, "2.5M"),
    ] {
        assert_eq!(count(number), shown, "{number}");
    }
}

#[test]
fn times_fit() {
    for (seconds, shown) in [
        (0, "0s"),
        (59, "59s"),
        (60, "1m00"),
        (3599, "59m59"),
        (3600, "1h00"),
        (86_399, "23h59"),
        (86_400, "1d00h"),
        (99 * 86_400 + 3600, "99d01h"),
        (100 * 86_400, "100d"),
    ] {
        assert_eq!(age(Duration::from_secs(seconds)), shown);
    }
    for (time, shown) in [
        (0, "0us"),
        (999, "999us"),
        (1500, "1.5ms"),
        (2_000_000, "2.0s"),
    ] {
        assert_eq!(microseconds(time), shown);
    }
    assert_eq!(percent(0.123), "12.3%");
}
