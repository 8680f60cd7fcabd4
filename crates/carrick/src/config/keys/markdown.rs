//! The tables of all keys, in Markdown.
use super::{Form, Key, REQUIRED, TABLES, Table};
use crate::config::values::{show_size, show_time};
use std::fmt::Write;

/// All tables, each below its title.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::new();
    for table in TABLES {
        let _ = write!(text, "## `{}`\n\n{}\n", table.title, table.markdown());
    }
    text
}

impl Table {
    /// The keys of this table, a row for each.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = String::from("| key | value | default | meaning |\n|---|---|---|---|\n");
        for key in self.keys {
            let (value, default) = key.value_and_default();
            let _ = writeln!(
                text,
                "| `{}` | {value} | {default} | {} |",
                key.name, key.about
            );
        }
        text
    }
}

impl Key {
    fn value_and_default(&self) -> (String, String) {
        let code = |text: &str| format!("`{text}`");
        match self.form {
            Form::Text { what, default } | Form::Other { what, default } => {
                (what.to_owned(), prose_or_code(default))
            }
            Form::Texts { what, default } => (
                format!("{what}: a list, or one string"),
                prose_or_code(default),
            ),
            Form::OneOf { words, default } => {
                let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
                let is_word = !default.contains(' ') && default != REQUIRED;
                (
                    words.join(", "),
                    if is_word {
                        format!("`\"{default}\"`")
                    } else {
                        default.to_owned()
                    },
                )
            }
            Form::Switch { default } => {
                ("`true` or `false`".to_owned(), code(&default.to_string()))
            }
            Form::Number { min, max, default } => (
                format!("number, {min} to {max}"),
                code(&default.to_string()),
            ),
            Form::Size { min, max, default } => (
                format!(
                    "size, {} to {}",
                    code(&show_size(min)),
                    code(&show_size(max))
                ),
                code(&show_size(default)),
            ),
            Form::Time { min, max, default } => (
                format!(
                    "time, {} to {}",
                    code(&show_time(min)),
                    code(&show_time(max))
                ),
                code(&show_time(default)),
            ),
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
