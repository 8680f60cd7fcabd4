//! `[pace]` and its classes as they are written.
use super::keys_given;
use crate::config::keys;
use crate::config::keys::pace::{RATE_BYTES_MAX, RATE_BYTES_MIN, TARGET_MAX, TARGET_MIN};
use crate::config::problem::Problems;
use crate::config::reader::Section;
use crate::config::setting::Setting;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;

/// `[pace]`, with defaults.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Pace {
    /// Where its header is.
    pub span: Range<usize>,
    pub interval: Duration,
    pub default: Setting<String>,
    /// In the order of the file.
    pub classes: Vec<PaceClass>,
}

/// `[pace.classes.NAME]`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct PaceClass {
    pub name: Spanned<String>,
    /// Where each key that is given has its name.
    pub keys_given: Vec<(&'static str, Range<usize>)>,
    pub policy: Setting<&'static str>,
    pub target: Setting<Duration>,
    pub rate: Setting<u64>,
    pub ceiling: Setting<u64>,
    pub network_ceiling: Setting<u64>,
    pub network_prefix_v4: u64,
    pub network_prefix_v6: u64,
    pub splice_ceiling: Setting<u64>,
    pub parent: Setting<String>,
    pub priority: u64,
    pub weight: Setting<&'static str>,
    pub hold_max: Duration,
}

impl Pace {
    pub(super) fn read(table: &Section<'_>, problems: &mut Problems) -> Self {
        Self {
            span: table.span(),
            interval: table.time("interval", problems),
            default: table.text("default", problems),
            classes: table
                .named_tables("classes", &keys::PACE_CLASS, problems)
                .into_iter()
                .map(|(name, table)| PaceClass::read(name, &table, problems))
                .collect(),
        }
    }
}

impl PaceClass {
    fn read(name: Spanned<String>, table: &Section<'_>, problems: &mut Problems) -> Self {
        let mut rate = |key| table.rate_within(key, RATE_BYTES_MIN, RATE_BYTES_MAX, problems);
        let (own, ceiling) = (rate("rate"), rate("ceiling"));
        let (network, splice) = (rate("network_ceiling"), rate("splice_ceiling"));
        Self {
            name,
            keys_given: keys_given(table, &keys::PACE_CLASS),
            policy: table.word("policy", problems),
            target: table.time_within("target", TARGET_MIN, TARGET_MAX, problems),
            rate: own,
            ceiling,
            network_ceiling: network,
            network_prefix_v4: table.number("network_prefix_v4", problems),
            network_prefix_v6: table.number("network_prefix_v6", problems),
            splice_ceiling: splice,
            parent: table.text("parent", problems),
            priority: table.number("priority", problems),
            weight: table.word("weight", problems),
            hold_max: table.time("hold_max", problems),
        }
    }
}
