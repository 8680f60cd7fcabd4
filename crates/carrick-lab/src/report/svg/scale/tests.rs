//! Tests of axes and their ticks.

use super::*;

fn labels(scale: &Scale, wanted: f64) -> Vec<String> {
    scale
        .ticks(wanted)
        .into_iter()
        .map(|tick| tick.label)
        .collect()
}

#[test]
fn steps_are_nice() {
    assert_eq!(nice_step(100.0, 4.0), 25.0);
    assert_eq!(nice_step(123_000.0, 4.0), 50_000.0);
    assert_eq!(nice_step(0.0, 4.0), 0.0);
    assert_eq!(nice_step(f64::INFINITY, 4.0), 0.0);
}

#[test]
fn values_begin_at_zero_and_end_at_a_tick() {
    let scale = Scale::values(&[12.0, 87.0], 5.0);
    assert_eq!(labels(&scale, 5.0), ["0", "20", "40", "60", "80", "100"]);
    assert_eq!(scale.place(0.0), 0.0);
    assert_eq!(scale.place(50.0), 0.5);
    assert_eq!(scale.begins_above_zero(5.0), None);
}

#[test]
fn values_close_together_are_drawn_large_and_the_axis_says_so() {
    let scale = Scale::values(&[1000.1, 1000.2], 5.0);
    assert_eq!(scale.begins_above_zero(5.0).as_deref(), Some("1000.10"));
    assert!(scale.place(1000.2) - scale.place(1000.1) > 0.7);
    let labels = labels(&scale, 5.0);
    let mut unique = labels.clone();
    unique.dedup();
    assert_eq!(labels, unique, "two ticks look alike");
}

#[test]
fn negative_equal_and_missing_values_have_an_axis() {
    let scale = Scale::values(&[-30.0, 20.0], 5.0);
    assert_eq!(labels(&scale, 5.0), ["−30", "−20", "−10", "0", "10", "20"]);
    assert!((scale.base() - 0.6).abs() < 1e-9);
    let same = Scale::values(&[5.0, 5.0], 5.0);
    assert!((same.place(5.0) - 1.0).abs() < 1e-9 && same.place(0.0) == 0.0);
    for values in [vec![], vec![0.0], vec![f64::NAN]] {
        let scale = Scale::values(&values, 5.0);
        assert!(scale.ticks(5.0).len() >= 2, "{values:?}");
        assert!(scale.place(0.0).is_finite());
    }
}

#[test]
fn what_was_varied_need_not_begin_at_zero() {
    assert_eq!(
        labels(&Scale::varied(&[1.0, 100.0]), 5.0),
        ["0", "20", "40", "60", "80", "100"]
    );
    assert_eq!(
        labels(&Scale::varied(&[60.0, 100.0]), 5.0),
        ["60", "70", "80", "90", "100"]
    );
    let one = Scale::varied(&[7.0]);
    assert_eq!(one.place(7.0), 0.5);
}

#[test]
fn logarithmic_ticks_are_decades_or_between_them() {
    let wide = Scale::log(&[1.0, 1e6], true).unwrap();
    assert_eq!(
        labels(&wide, 6.0),
        ["1", "10", "100", "1k", "10k", "100k", "1M"]
    );
    let narrow = Scale::log(&[10.0, 100.0], true).unwrap();
    assert_eq!(labels(&narrow, 5.0), ["10", "20", "50", "100"]);
    assert!((narrow.place(10_f64.powf(1.5)) - 0.5).abs() < 1e-9);
    let huge = Scale::log(&[1e-9, 1e9], true).unwrap();
    assert!(huge.ticks(6.0).len() <= 10);
    let within_a_decade = Scale::log(&[30.0, 40.0], true).unwrap();
    assert!(within_a_decade.ticks(5.0).len() >= 2);
}

#[test]
fn zero_on_a_logarithmic_axis_has_a_place_of_its_own() {
    let scale = Scale::log(&[0.0, 1.0, 100.0], true).unwrap();
    assert_eq!(scale.place(0.0), 0.0);
    assert!((scale.place(1.0) - ABOVE_ZERO).abs() < 1e-9);
    assert_eq!(labels(&scale, 5.0)[0], "0");
    assert!(scale.break_place().is_some());
}

#[test]
fn there_is_no_logarithmic_axis_for_negative_values() {
    assert_eq!(Scale::log(&[-1.0, 10.0], true), None);
    assert_eq!(Scale::log(&[0.0], true), None);
    assert_eq!(Scale::log(&[], true), None);
}
