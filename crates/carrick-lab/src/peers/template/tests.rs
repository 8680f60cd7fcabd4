//! Tests of the templates' values.

use super::*;

#[test]
fn every_place_gets_its_value() {
    assert_eq!(
        render("a {{x}} b {{y}} {{x}}", &[("x", "1"), ("y", "2")]).unwrap(),
        "a 1 b 2 1"
    );
}

#[test]
fn a_name_without_value_is_an_error() {
    let error = render("listen {{proxy}};", &[("origin", "x")]).unwrap_err();
    assert!(error.to_string().contains("`proxy`"), "{error}");
}
