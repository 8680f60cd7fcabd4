//! `[upstream.NAME]` as it is written.
use super::{inline, required_text};
use crate::config::keys;
use crate::config::plan::{HashOn, ProxyVersion};
use crate::config::problem::Problems;
use crate::config::reader::{Section, wrong_kind};
use crate::config::setting::Setting;
use crate::config::values;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

/// `[upstream.NAME]`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Upstream {
    pub name: Spanned<String>,
    /// Where its header is.
    pub span: Range<usize>,
    pub servers: Setting<Vec<Server>>,
    pub balance: Setting<&'static str>,
    pub hash_on: Setting<HashOn>,
    pub health: Setting<Health>,
    pub send_proxy_protocol: Setting<Option<ProxyVersion>>,
    pub keepalive: u64,
    pub keepalive_given: Option<Range<usize>>,
    pub failures_max: u64,
}

/// One of `servers`.
#[derive(Debug, Clone)]
pub struct Server {
    /// As it is written.
    pub address: Setting<String>,
    /// Its share.
    pub weight: u64,
}

/// `health = { … }`
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the keys")]
pub struct Health {
    pub path: Setting<String>,
    pub host: Setting<String>,
    pub every: Duration,
    pub fall: u64,
    pub rise: u64,
}

impl Upstream {
    pub(super) fn read(
        name: Spanned<String>,
        table: &Section<'_>,
        problems: &mut Problems,
    ) -> Self {
        Self {
            name,
            span: table.span(),
            servers: servers(table, problems),
            balance: table.word("balance", problems),
            hash_on: table.text("hash_on", problems).refine(
                "something to hash",
                problems,
                |text| hash_on(text),
            ),
            health: inline(
                table,
                "health",
                &keys::HEALTH,
                problems,
                |table, problems| Health {
                    path: table.text("path", problems),
                    host: table.text("host", problems),
                    every: table.time("every", problems),
                    fall: table.number("fall", problems),
                    rise: table.number("rise", problems),
                },
            ),
            send_proxy_protocol: send_proxy_protocol(table, problems),
            keepalive: table.number("keepalive", problems),
            keepalive_given: table.key_span("keepalive"),
            failures_max: table.number("failures_max", problems),
        }
    }
}

fn servers(table: &Section<'_>, problems: &mut Problems) -> Setting<Vec<Server>> {
    let Some(value) = table.raw("servers") else {
        return Setting::Absent;
    };
    let servers = match value.get_ref() {
        DeValue::Array(items) => items.iter().map(|item| server(item, problems)).collect(),
        _ => vec![server(value, problems)],
    };
    Setting::Given(Spanned::new(value.span(), servers))
}

fn server(value: &Spanned<DeValue<'_>>, problems: &mut Problems) -> Server {
    const WHAT: &str = "a list of \"host:port\" and { address, weight }";
    let address = match value.get_ref() {
        DeValue::String(text) => Setting::Given(Spanned::new(value.span(), text.to_string())),
        DeValue::Table(_) => {
            return match Section::from_value(value, &keys::SERVER, problems) {
                Some(table) => Server {
                    address: required_text(&table, "address", problems),
                    weight: table.number("weight", problems),
                },
                None => Server {
                    address: Setting::Wrong,
                    weight: 1,
                },
            };
        }
        _ => wrong_kind(value, "servers", WHAT, problems),
    };
    Server { address, weight: 1 }
}

fn hash_on(text: &str) -> Result<HashOn, String> {
    let named = |name: &str| {
        if values::is_token(name) {
            Ok(name.to_owned())
        } else {
            Err("the name behind the colon is missing or not a name".to_owned())
        }
    };
    match text.split_once(':') {
        None if text == "path" => Ok(HashOn::Path),
        None if text == "host" => Ok(HashOn::Host),
        None if text == "client" => Ok(HashOn::Client),
        Some(("header", name)) => Ok(HashOn::Header(named(name)?.to_ascii_lowercase())),
        Some(("cookie", name)) => Ok(HashOn::Cookie(named(name)?)),
        _ => Err(
            "it can be \"path\", \"host\", \"client\", \"header:NAME\" or \"cookie:NAME\""
                .to_owned(),
        ),
    }
}

fn send_proxy_protocol(
    table: &Section<'_>,
    problems: &mut Problems,
) -> Setting<Option<ProxyVersion>> {
    const KEY: &str = "send_proxy_protocol";
    let Some(value) = table.raw(KEY) else {
        return Setting::Absent;
    };
    let version = match value.get_ref() {
        DeValue::Boolean(false) => None,
        DeValue::Boolean(true) => Some(ProxyVersion::V1),
        DeValue::String(text) if text == "v1" => Some(ProxyVersion::V1),
        DeValue::String(text) if text == "v2" => Some(ProxyVersion::V2),
        _ => return wrong_kind(value, KEY, "`false`, `true`, \"v1\" or \"v2\"", problems),
    };
    Setting::Given(Spanned::new(value.span(), version))
}
