//! Tests of placeholders.

use super::*;

fn point() -> Point {
    Point::from([
        (String::from("clients"), Value::Number(20.0)),
        (String::from("loss"), Value::Word(String::from("two"))),
    ])
}

#[test]
fn arithmetic_goes_from_left_to_right() {
    for (expression, value) in [
        ("$clients", 20.0),
        ("$clients + 40", 60.0),
        ("$clients + 40 / 6", 10.0),
        ("2 * $clients - 1", 39.0),
    ] {
        assert_eq!(number(expression, &point()).unwrap(), value, "{expression}");
    }
}

#[test]
fn mistakes_say_what_would_be_right() {
    for (expression, part) in [
        ("$client", "no parameter `client`, only: clients, loss"),
        ("$clients ** 2", "`**` is none of + - * /"),
        ("$clients +", "ends with an operator"),
        ("$loss + 1", "cannot be computed with"),
        ("$clients + many", "`many` is neither a number nor"),
        ("$loss", "the word `two`, not a number"),
    ] {
        let said = format!("{:#}", number(expression, &point()).unwrap_err());
        assert!(said.contains(part), "{expression}: {said}");
    }
}

#[test]
fn tables_are_filled_in_and_whole_numbers_stay_whole() {
    let table: toml::Value = toml::from_str(
        r#"
        clients = "$clients"
        share = "$clients / 40"
        text = "modem-$loss-a"
        list = ["$loss", 1]
        "#,
    )
    .unwrap();
    let filled = substitute(&table, &point()).unwrap();
    assert_eq!(filled["clients"], toml::Value::Integer(20));
    assert_eq!(filled["share"], toml::Value::Float(0.5));
    assert_eq!(filled["text"].as_str(), Some("modem-two-a"));
    assert_eq!(filled["list"][0].as_str(), Some("two"));
}

#[test]
fn what_is_laid_over_replaces_leaves_only() {
    let below: toml::Table = toml::from_str("[a]\nx = 1\ny = 2").unwrap();
    let above: toml::Table = toml::from_str("[a]\ny = 3").unwrap();
    let merged = overlay(&below, &above);
    assert_eq!(merged["a"]["x"].as_integer(), Some(1));
    assert_eq!(merged["a"]["y"].as_integer(), Some(3));
}
