//! The tables of all keys, in Markdown.
use super::{Form, Key, Preset, REQUIRED, Table};
use crate::config::values::{show_size, show_time};
use std::fmt::Write;

/// Most keys of a table that are all named where the table stands as a value.
const NAMED_MAX: usize = 7;

impl Table {
    /// The keys of this table, a row for each.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::from("| key | value | default | meaning |\n|---|---|---|---|\n");
        for key in self.keys {
            let (value, default) = key.form.value_and_default();
            let Key { name, about, .. } = key;
            let _ = writeln!(
                text,
                "| `{name}` | {value} | {default} | {} |",
                about.trim()
            );
        }
        text
    }

    /// How it stands where it is a value: by its header, or with its keys.
    fn in_words(&self) -> String {
        if !self.is_inline() {
            return format!("`{}`", self.title);
        }
        let names: Vec<_> = self.keys.iter().map(|key| key.name).collect();
        match names.len() {
            0..=NAMED_MAX => format!("`{{ {} }}`", names.join(", ")),
            _ => format!("`{{ {}, … }}`", names[0]),
        }
    }
}

impl Form {
    fn value_and_default(&self) -> (String, String) {
        match *self {
            Self::Text { what, default } => {
                (what.to_owned(), default.show(|text| format!("\"{text}\"")))
            }
            Self::Other { what, default } => (what.to_owned(), prose_or_code(default)),
            Self::Table {
                table,
                what,
                default,
            } => {
                let what = match what {
                    "" => table.in_words(),
                    what => what.to_owned(),
                };
                (what, prose_or_code(default))
            }
            Self::Texts { what, default } => (
                format!("{what}: a list, or one string"),
                prose_or_code(default),
            ),
            Self::OneOf { words, default } => {
                let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
                let is_word = !default.contains(' ') && default != REQUIRED;
                let default = match is_word {
                    true => format!("`\"{default}\"`"),
                    false => default.to_owned(),
                };
                (words.join(", "), default)
            }
            Self::Switch { default } => (
                "`true` or `false`".to_owned(),
                default.show(|value| value.to_string()),
            ),
            Self::Number {
                what,
                min,
                max,
                default,
            } => (
                format!("{what}, {min} to {max}"),
                default.show(|value| value.to_string()),
            ),
            Self::Size {
                min,
                max: u64::MAX,
                default,
            } => (
                format!("size, at least `{}`", show_size(min)),
                default.show(show_size),
            ),
            Self::Size { min, max, default } => (
                format!("size, `{}` to `{}`", show_size(min), show_size(max)),
                default.show(show_size),
            ),
            Self::Rate { min, max, default } => {
                (format!("rate, `{min}` to `{max}`"), prose_or_code(default))
            }
            Self::Time { min, max, default } => (
                format!("time, `{}` to `{}`", show_time(min), show_time(max)),
                default.show(show_time),
            ),
        }
    }
}

impl<T> Preset<T> {
    fn show(self, show: impl Fn(T) -> String) -> String {
        match self {
            Self::Value(value) => format!("`{}`", show(value)),
            Self::Words(words) => prose_or_code(words),
        }
    }
}

/// Defaults that begin like a value of TOML are values, others are words.
fn prose_or_code(default: &str) -> String {
    let is_value = default.starts_with(['"', '[']) && !default.contains(';')
        || ["true", "false"].contains(&default);
    if is_value {
        format!("`{default}`")
    } else {
        default.to_owned()
    }
}
