//! `intercept = { … }` as it is written.
use super::{Section, Setting, integer, wrong_kind};
use crate::config::plan::PortRange;
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
    pub ports: Setting<Vec<PortRange>>,
    pub except_ports: Setting<Vec<PortRange>>,
    pub interfaces: Setting<Vec<Spanned<String>>>,
    pub from: Setting<Vec<Spanned<String>>>,
    pub to: Setting<Vec<Spanned<String>>>,
    pub except: Setting<Vec<Spanned<String>>>,
    pub local: bool,
    pub mark: Setting<u32>,
    pub table: Setting<u32>,
}

/// Lower tables are the kernel's own, or those that people have given names to (`rt_tables`).
const TABLE_MIN: u32 = 256;

impl Intercept {
    pub(super) fn read(table: &Section<'_>, problems: &mut Problems) -> Self {
        Self {
            span: table.span(),
            ports: ports(table, problems),
            except_ports: except_ports(table, problems),
            interfaces: table.texts("interfaces", problems),
            from: table.texts("from", problems),
            to: table.texts("to", problems),
            except: table.texts("except", problems),
            local: table.switch("local", problems),
            mark: number(table, "mark", 1, problems),
            table: number(table, "table", TABLE_MIN, problems),
        }
    }
}

fn ports(table: &Section<'_>, problems: &mut Problems) -> Setting<Vec<PortRange>> {
    const KEY: &str = "ports";
    let Some(value) = table.raw(KEY) else {
        problems
            .error(table.span(), "`ports` is missing here", "")
            .help("name the ports that clients connect to, such as `ports = [80]`");
        return Setting::Wrong;
    };
    match value.get_ref() {
        DeValue::String(text) if text == "all" => {
            Setting::Given(Spanned::new(value.span(), vec![PortRange::ALL]))
        }
        DeValue::Array(items) if items.is_empty() => {
            problems
                .error(value.span(), "nothing would be intercepted", "")
                .help("name the ports that clients connect to, such as `ports = [80]`");
            Setting::Wrong
        }
        DeValue::Array(items) => ranges(value.span(), items.iter(), problems),
        _ => wrong_kind(
            value,
            KEY,
            "a list of ports, such as [80], or \"all\"",
            problems,
        ),
    }
}

fn except_ports(table: &Section<'_>, problems: &mut Problems) -> Setting<Vec<PortRange>> {
    const KEY: &str = "except_ports";
    let Some(value) = table.raw(KEY) else {
        return Setting::Absent;
    };
    match value.get_ref() {
        DeValue::Array(items) => ranges(value.span(), items.iter(), problems),
        _ => wrong_kind(value, KEY, "a list of ports, such as [22]", problems),
    }
}

/// Ports and ranges of ports.
fn ranges<'v>(
    span: Range<usize>,
    items: impl ExactSizeIterator<Item = &'v Spanned<DeValue<'v>>>,
    problems: &mut Problems,
) -> Setting<Vec<PortRange>> {
    let count = items.len();
    let mut ranges = Vec::with_capacity(count);
    for item in items {
        match range(item.get_ref()) {
            Some(range) => ranges.push(range),
            None => {
                problems
                    .error(
                        item.span(),
                        "this is not a port",
                        "a number from 1 to 65535",
                    )
                    .help("a range is written \"1000-2000\"");
            }
        }
    }
    if ranges.len() < count {
        return Setting::Wrong;
    }
    Setting::Given(Spanned::new(span, ranges))
}

fn range(value: &DeValue<'_>) -> Option<PortRange> {
    let port = |number: Option<u16>| number.filter(|port| *port > 0);
    let DeValue::String(text) = value else {
        let number = integer(value)?;
        return port(u16::try_from(number).ok()).map(PortRange::from);
    };
    let (first, last) = text.split_once('-')?;
    let (first, last) = (port(first.parse().ok())?, port(last.parse().ok())?);
    (first <= last).then_some(PortRange { first, last })
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
