//! What is said of a key wherever it is declared: its form, its limits, its default and what it is for. Read by the loader, by the
//! messages about unknown keys, and by the tables in the documentation.
mod advice;
mod markdown;

use std::time::Duration;

/// A table of the file and the keys that it may have.
#[derive(Debug)]
pub struct Table {
    /// How the file writes it, such as `[limits]`.
    pub title: &'static str,
    /// Its keys, in the order of the documentation.
    pub keys: &'static [Key],
    /// Keys of other programs and other versions, and what to write here.
    pub advice: &'static [(&'static str, &'static str)],
}

/// A key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its value looks like, with limits and default.
    pub form: Form,
    /// What it is for: a sentence in Markdown, without a final dot.
    pub about: &'static str,
    /// The modes of listeners in which it means something; empty: it is no matter of modes.
    pub modes: &'static [&'static str],
}

/// The form of a value.
#[derive(Debug, Clone, Copy)]
#[expect(
    missing_docs,
    reason = "limits and defaults, in the unit that the form names"
)]
pub enum Form {
    /// A string of a kind that `what` names.
    Text {
        what: &'static str,
        default: Preset<&'static str>,
    },
    /// One of these words.
    OneOf {
        words: &'static [&'static str],
        default: &'static str,
    },
    /// `true` or `false`.
    Switch { default: Preset<bool> },
    /// A whole number; `what` is "number", or says of what.
    Number {
        what: &'static str,
        min: u64,
        max: u64,
        default: Preset<u64>,
    },
    /// Bytes: a number, or a string such as "64 KB".
    Size {
        min: u64,
        max: u64,
        default: Preset<u64>,
    },
    /// Bytes per second: a number, or a string such as "10 MB/s".
    Rate {
        min: u64,
        max: u64,
        default: &'static str,
    },
    /// A string such as "10s".
    Time {
        min: Duration,
        max: Duration,
        default: Preset<Duration>,
    },
    /// A list of strings; a single string stands for a list of one.
    Texts {
        what: &'static str,
        default: &'static str,
    },
    /// A table or several, in words unless `what` is empty.
    Table {
        table: &'static Table,
        what: &'static str,
        default: &'static str,
    },
    /// Anything else, in words.
    Other {
        what: &'static str,
        default: &'static str,
    },
}

/// What holds where a key is not given.
#[derive(Debug, Clone, Copy)]
pub enum Preset<T> {
    /// This value.
    Value(T),
    /// What these words say.
    Words(&'static str),
}

/// "None": the key may be left out, and then nothing of the kind happens.
pub const NONE: &str = "none";
/// The key must be given.
pub const REQUIRED: &str = "required";

impl Table {
    /// The key of that name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The modes of listeners in which a key means something; empty: it is no matter of modes.
    #[must_use]
    pub fn modes(&self, name: &str) -> &'static [&'static str] {
        self.key(name).map_or(&[], |key| key.modes)
    }

    /// This table and those in it, each once: first the keys' own tables, in the order of the documentation.
    #[must_use]
    pub fn all(&'static self) -> Vec<&'static Self> {
        let mut tables = vec![self];
        for key in self.keys {
            let Form::Table { table, .. } = key.form else {
                continue;
            };
            for inner in table.all() {
                if !tables.iter().any(|known| known.title == inner.title) {
                    tables.push(inner);
                }
            }
        }
        tables
    }
}

/// Two lists of keys in one.
pub const fn join<const N: usize>(first: &[Key], second: &[Key]) -> [Key; N] {
    let nothing = Key {
        name: "",
        form: Form::Other {
            what: "",
            default: "",
        },
        about: "",
        modes: &[],
    };
    let mut joined = [nothing; N];
    let mut index = 0;
    while index < N {
        joined[index] = if index < first.len() {
            first[index]
        } else {
            second[index - first.len()]
        };
        index += 1;
    }
    joined
}
