//! What parameters and their values are called.

use crate::experiment::value::Value;
use crate::report::svg::number;

/// A unit at the end of a name, and how it is written.
const UNITS: &[(&str, &str)] = &[
    ("_bytes", "bytes"),
    ("_kbit_per_second", "kbit/s"),
    ("_mbit_per_second", "Mbit/s"),
    ("_per_second", "/s"),
    ("_percent", "%"),
    ("_seconds", "s"),
    ("_ms", "ms"),
    ("_us", "µs"),
];

const KIB: f64 = 1024.0;

/// A name as words, without its unit: `round_trip_ms` is `round trip`.
#[must_use]
pub fn spoken(name: &str) -> String {
    split(name).0.replace('_', " ")
}

/// A parameter with its value, as in a legend: `round trip 80 ms`.
#[must_use]
pub fn parameter_value(name: &str, value: &Value) -> String {
    match (value, split(name)) {
        (Value::Word(word), _) => word.clone(),
        (Value::Number(number), (_, "bytes")) => bytes(*number),
        (Value::Number(number), (words, "")) => {
            // `clients 20` reads better the other way around.
            let words = words.replace('_', " ");
            if words.ends_with('s') {
                format!("{} {words}", number::exact(*number))
            } else {
                format!("{words} {}", number::exact(*number))
            }
        }
        (Value::Number(number), (words, unit)) => {
            format!(
                "{} {} {unit}",
                words.replace('_', " "),
                number::exact(*number)
            )
        }
    }
}

/// A value alone, divided as its axis wants it.
#[must_use]
pub fn value_text(value: &Value, divide_by: f64) -> String {
    match value {
        Value::Word(word) => word.clone(),
        Value::Number(number) => number::exact(number / divide_by),
    }
}

fn split(name: &str) -> (&str, &'static str) {
    UNITS
        .iter()
        .find_map(|(ending, unit)| Some((name.strip_suffix(ending)?, *unit)))
        .filter(|(words, _)| !words.is_empty())
        .unwrap_or((name, ""))
}

fn bytes(number: f64) -> String {
    match number {
        number if number >= KIB * KIB && number % (KIB * KIB) == 0.0 => {
            format!("{} MB", number::exact(number / KIB / KIB))
        }
        number if number >= KIB && number % KIB == 0.0 => {
            format!("{} KB", number::exact(number / KIB))
        }
        number => format!("{} bytes", number::exact(number)),
    }
}
