//! A table of the file and its keys, each declared once: what reads it, its limits, its default, and its row of the reference.
use super::keys::{Form, Table};
use super::problem::{Problems, Source};
use super::reader::Section;
use std::ops::{Deref, Range};
use std::sync::Arc;
use toml::Spanned;

/// Reads the value of a key, which has this form.
pub type Read<T> = fn(&Section<'_>, &'static str, Form, &mut Problems) -> T;

/// How a key's value is read and described.
pub struct Kind<T: 'static> {
    /// For the reference; the reader has its limits and its default from there.
    pub form: Form,
    /// Reads it.
    pub read: Read<T>,
}

impl<T> Kind<T> {
    /// Reads the value of `key`.
    pub fn read(&self, key: &'static str, table: &Section<'_>, problems: &mut Problems) -> T {
        (self.read)(table, key, self.form, problems)
    }
}

/// What `section!` makes of a declaration.
pub trait Keys: Sized + 'static {
    /// The declared keys.
    const TABLE: &'static Table;

    /// Reads them; whatever does not fit is reported.
    fn read(table: &Section<'_>, problems: &mut Problems) -> Self;

    /// What a table with nothing in it says.
    #[must_use]
    fn defaults() -> Self {
        let nowhere = Arc::new(Source {
            name: String::new(),
            text: String::new(),
            is_secret: false,
        });
        let nothing = Section::empty(Self::TABLE, 0..0);
        Self::read(&nothing, &mut Problems::new(nowhere))
    }
}

/// A table as it is written, with its places.
#[derive(Debug)]
pub struct Written<T> {
    /// Of `[upstream.NAME]` and the like the name; of others it is empty.
    pub name: Spanned<String>,
    /// Where its header is, or the whole of an inline table.
    pub span: Range<usize>,
    /// Whether nothing is in it.
    pub is_empty: bool,
    /// Where each key that is given has its name.
    pub keys_given: Vec<(&'static str, Range<usize>)>,
    /// Where each of these has its value.
    values_given: Vec<Range<usize>>,
    /// What the keys say.
    pub values: T,
}

impl<T: Keys> Written<T> {
    /// Reads a table.
    pub fn of(table: &Section<'_>, problems: &mut Problems) -> Self {
        Self::named(Spanned::new(0..0, String::new()), table, problems)
    }

    /// Reads a table with a name of the user's choice.
    pub fn named(name: Spanned<String>, table: &Section<'_>, problems: &mut Problems) -> Self {
        let places = T::TABLE.keys.iter().filter_map(|key| {
            let (at, value) = table.places(key.name)?;
            Some(((key.name, at), value))
        });
        let (keys_given, values_given) = places.unzip();
        Self {
            name,
            span: table.span(),
            is_empty: table.is_empty(),
            keys_given,
            values_given,
            values: T::read(table, problems),
        }
    }
}

impl<T> Written<T> {
    /// Where a key has its name, if it is given.
    pub fn key(&self, name: &str) -> Option<Range<usize>> {
        let mut given = self.keys_given.iter();
        let (_, span) = given.find(|(key, _)| *key == name)?;
        Some(span.clone())
    }

    /// Where a key has its value, if it is given.
    pub fn value(&self, name: &str) -> Option<Range<usize>> {
        let index = self.keys_given.iter().position(|(key, _)| *key == name)?;
        self.values_given.get(index).cloned()
    }
}

impl<T> Deref for Written<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.values
    }
}

/// Declares a table: `/// meaning`, `key: Type = kind,` for each key, with a kind of `kinds`. A key that is no name in Rust is written
/// `field as "key"`, and one that means something in some modes of listeners only `key in MODES`. `..field: Table` at the end adds the keys of another table, for those that several share.
macro_rules! section {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident = $title:literal $(, advice = $advice:ident)? {
            $(
                $(#[doc = $about:literal])+
                $field:ident $(as $key:literal)? $(in $modes:ident)? : $type:ty = $kind:expr
            ),* $(,)?
            $(; .. $group:ident : $shared:ty)?
        }
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $(
                $(#[doc = $about])+
                pub $field: $type,
            )*
            $(
                /// What others say as well.
                pub $group: $crate::config::section::Written<$shared>,
            )?
        }

        impl $crate::config::section::Keys for $name {
            const TABLE: &'static $crate::config::keys::Table = &$crate::config::keys::Table {
                title: $title,
                keys: {
                    use $crate::config::keys::{Key, join};
                    const OWN: &[Key] = &[$(
                        Key {
                            name: $crate::config::section::key_name!($field $($key)?),
                            form: {
                                const KIND: $crate::config::section::Kind<$type> = $kind;
                                KIND.form
                            },
                            about: concat!($($about),+),
                            modes: $crate::config::section::first!($($modes,)? &[]),
                        }
                    ),*];
                    const SHARED: &[Key] = $crate::config::section::shared_keys!($($shared)?);
                    const ALL: [Key; OWN.len() + SHARED.len()] = join(OWN, SHARED);
                    &ALL
                },
                advice: $crate::config::section::first!($($advice,)? &[]),
            };

            fn read(
                table: &$crate::config::reader::Section<'_>,
                problems: &mut $crate::config::problem::Problems,
            ) -> Self {
                Self {
                    $($field: {
                        const KIND: $crate::config::section::Kind<$type> = $kind;
                        KIND.read($crate::config::section::key_name!($field $($key)?), table, problems)
                    },)*
                    $($group: $crate::config::section::Written::of(table, problems),)?
                }
            }
        }
    };
}

macro_rules! key_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

macro_rules! shared_keys {
    () => {
        &[]
    };
    ($shared:ty) => {
        <$shared as $crate::config::section::Keys>::TABLE.keys
    };
}

macro_rules! first {
    ($first:expr $(, $other:expr)*) => {
        $first
    };
}

pub(super) use {first, key_name, section, shared_keys};
