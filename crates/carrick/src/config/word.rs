//! Keys that take one of some words, each of which means a value of a type.

/// The type of a key that takes one of some words.
pub trait Word: Copy + PartialEq + 'static {
    /// The words.
    const WORDS: &'static [&'static str];
    /// What they mean, in the same order.
    const VALUES: &'static [Self];

    /// What a word means.
    fn meant_by(word: &str) -> Option<Self> {
        let index = Self::WORDS.iter().position(|one| *one == word)?;
        Self::VALUES.get(index).copied()
    }

    /// The word for it.
    fn word(self) -> &'static str {
        let index = Self::VALUES.iter().position(|one| *one == self);
        index.map_or("", |index| Self::WORDS[index])
    }
}

/// Declares what the words of a key mean, in the order of the reference.
macro_rules! words {
    ($type:ty { $($word:literal => $value:ident),+ $(,)? }) => {
        impl $crate::config::word::Word for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];
            const VALUES: &'static [Self] = &[$(Self::$value),+];
        }
    };
}

pub(super) use words;
