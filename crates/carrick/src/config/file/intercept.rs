//! `intercept = { … }`
use crate::config::keys::{Form, NONE, REQUIRED};
use crate::config::kinds::{Texts, number_or, other, switch, texts};
use crate::config::problem::Problems;
use crate::config::reader::{Section, integer, wrong_kind};
use crate::config::section::section;
use crate::config::setting::Setting;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::DeValue;

/// Lower tables are the kernel's own, or those that people have given names to (`rt_tables`).
const TABLE_MIN: u64 = 256;

const NUMBER: &str = "100000 and the listener's port";

section! {
    /// `intercept = { … }`
    #[derive(Debug)]
    pub struct Intercept = "intercept = { }" {
        /// Ports of the servers that clients connect to; `"all"` does not include the listener's own
        ports: Setting<Vec<PortRange>> =
            other("a list of ports and of ranges such as `\"1000-2000\"`; or `\"all\"`", REQUIRED, ports),
        /// Ports among `ports` that are not intercepted
        except_ports: Setting<Vec<PortRange>> = other("a list of ports and ranges", NONE, except_ports),
        /// The interfaces at which clients' packets arrive
        interfaces: Setting<Texts> = texts("names; `eth*` matches all that begin with `eth`", "all"),
        /// Clients that are intercepted; others are routed as if there were no proxy
        from: Setting<Texts> = texts("networks or addresses", "all"),
        /// Destinations that are intercepted
        to: Setting<Texts> = texts("networks or addresses", "all but this machine's own"),
        /// Addresses of clients and destinations that are not intercepted
        except: Setting<Texts> = texts("networks or addresses", NONE),
        /// Connections of this machine's own programs are intercepted as well, but carrick's are not; `interfaces`
        /// and `from` do not apply to them. Requires CAP_NET_RAW, and keeps it
        local: bool = switch(false),
        /// The mark of intercepted packets in this machine, which no other program may use
        mark: Setting<u32> = number_or("number", 1..=u32::MAX as u64, NUMBER),
        /// The routing table that such packets are looked up in, which no other program may use
        table: Setting<u32> = number_or("number", TABLE_MIN..=u32::MAX as u64, NUMBER),
    }
}

/// Ports from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRange {
    /// The lowest, at least 1.
    pub first: u16,
    /// The highest, at least `first`.
    pub last: u16,
}

impl PortRange {
    /// Every port.
    pub const ALL: Self = Self {
        first: 1,
        last: u16::MAX,
    };

    /// Whether a port is one of them.
    #[must_use]
    pub fn has(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl From<u16> for PortRange {
    fn from(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }
}

impl fmt::Display for PortRange {
    /// As nft and the configuration write it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(out, "{}", self.first)
        } else {
            write!(out, "{}-{}", self.first, self.last)
        }
    }
}

fn ports(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<Vec<PortRange>> {
    const HELP: &str = "name the ports that clients connect to, such as `ports = [80]`";
    let Some(value) = table.raw(key) else {
        return table.required(key, Setting::Absent, HELP, problems);
    };
    match value.get_ref() {
        DeValue::String(text) if text == "all" => {
            Setting::Given(Spanned::new(value.span(), vec![PortRange::ALL]))
        }
        DeValue::Array(items) if items.is_empty() => {
            problems
                .error(value.span(), "nothing would be intercepted")
                .help(HELP);
            Setting::Wrong
        }
        DeValue::Array(items) => ranges(value.span(), items.iter(), problems),
        _ => wrong_kind(
            value,
            key,
            "a list of ports, such as [80], or \"all\"",
            problems,
        ),
    }
}

fn except_ports(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<Vec<PortRange>> {
    let Some(value) = table.raw(key) else {
        return Setting::Absent;
    };
    match value.get_ref() {
        DeValue::Array(items) => ranges(value.span(), items.iter(), problems),
        _ => wrong_kind(value, key, "a list of ports, such as [22]", problems),
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
                    .error(item.span(), "this is not a port")
                    .label("a number from 1 to 65535")
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
