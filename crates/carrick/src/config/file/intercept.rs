//! `intercept = { … }` as it is written.
use super::{Section, Setting, integer, ports, wrong_kind};
use crate::config::problem::Problems;
use std::ops::Range;
use toml::Spanned;
use toml::de::DeValue;

/// `intercept = { … }`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Intercept {
    /// Where it is.
    pub span: Range<usize>,
    pub ports: Setting<Vec<u16>>,
    pub interfaces: Setting<Vec<Spanned<String>>>,
    pub from: Setting<Vec<Spanned<String>>>,
    pub to: Setting<Vec<Spanned<String>>>,
    pub except: Setting<Vec<Spanned<String>>>,
    pub mark: Setting<u32>,
    pub table: Setting<u32>,
}

/// Lower tables are the kernel's own, or those that people have given names to (`rt_tables`).
const TABLE_MIN: u32 = 256;

impl Intercept {
    pub(super) fn read(table: &Section<'_>, problems: &mut Problems) -> Self {
        Self {
            span: table.span(),
            ports: list_of_ports(table, problems),
            interfaces: table.texts("interfaces", problems),
            from: table.texts("from", problems),
            to: table.texts("to", problems),
            except: table.texts("except", problems),
            mark: number(table, "mark", 1, problems),
            table: number(table, "table", TABLE_MIN, problems),
        }
    }
}

fn list_of_ports(table: &Section<'_>, problems: &mut Problems) -> Setting<Vec<u16>> {
    const KEY: &str = "ports";
    let Some(value) = table.raw(KEY) else {
        problems
            .error(table.span(), "`ports` is missing here", "")
            .help("name the ports that clients connect to, such as `ports = [80]`");
        return Setting::Wrong;
    };
    match value.get_ref() {
        DeValue::Array(items) if items.is_empty() => {
            problems
                .error(value.span(), "nothing would be intercepted", "")
                .help("name the ports that clients connect to, such as `ports = [80]`");
            Setting::Wrong
        }
        DeValue::Array(items) => match ports(items.iter(), problems) {
            Some(ports) => Setting::Given(Spanned::new(value.span(), ports)),
            None => Setting::Wrong,
        },
        _ => wrong_kind(value, KEY, "a list of ports, such as [80]", problems),
    }
}

fn number(table: &Section<'_>, key: &str, min: u32, problems: &mut Problems) -> Setting<u32> {
    let Some(value) = table.raw(key) else {
        return Setting::Absent;
    };
    let Some(number) = integer(value.get_ref()) else {
        return wrong_kind(value, key, "a whole number", problems);
    };
    match u32::try_from(number) {
        Ok(number) if number >= min => Setting::Given(Spanned::new(value.span(), number)),
        _ => {
            problems.error(
                value.span(),
                format!("this cannot be the `{key}`"),
                format!("a number from {min} to {}", u32::MAX),
            );
            Setting::Wrong
        }
    }
}
