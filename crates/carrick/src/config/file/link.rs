//! `[link.NAME]` as it is written.
use super::required_text;
use crate::config::problem::Problems;
use crate::config::reader::Section;
use crate::config::setting::Setting;
use std::ops::Range;
use toml::Spanned;

/// `[link.NAME]`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Link {
    pub name: Spanned<String>,
    pub peer: Setting<String>,
    pub connections: u64,
    pub ahead: u64,
    /// Where `ahead` has its name, if it is given.
    pub ahead_given: Option<Range<usize>>,
    pub profile: Setting<String>,
    pub fallback: Setting<&'static str>,
}

impl Link {
    pub(super) fn read(
        name: Spanned<String>,
        table: &Section<'_>,
        problems: &mut Problems,
    ) -> Self {
        Self {
            name,
            peer: required_text(table, "peer", problems),
            connections: table.number("connections", problems),
            ahead: table.number("ahead", problems),
            ahead_given: table.key_span("ahead"),
            profile: table.text("profile", problems),
            fallback: table.word("fallback", problems),
        }
    }
}
