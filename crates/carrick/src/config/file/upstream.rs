//! `[upstream.NAME]`: groups of servers.
use super::tls::{SERVER_TLS, ServerTls, server_tls};
use crate::config::keys::{Form, REQUIRED};
use crate::config::kinds::{
    DAY, milliseconds, number, one_of, other, required_text, seconds, table_or, table_or_other,
    text_or, time,
};
use crate::config::problem::Problems;
use crate::config::reader::{Section, wrong_kind};
use crate::config::section::{Keys, Written, section};
use crate::config::setting::Setting;
use crate::config::values;
use crate::config::word::words;
use carrick_logic::balance::Algorithm;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

section! {
    /// `[upstream.NAME]`
    #[derive(Debug)]
    pub struct Upstream = "[upstream.NAME]" {
        /// The servers, as names or addresses, IPv6 in brackets; port 80 (with `tls` 443) if left out, except for a `tunnel`, a
        /// `split` or a route with `sni`, which need it
        servers: Setting<Vec<Server>> =
            table_or_other::<Server, _>("a list of `\"host:port\"` and `{ address, weight }`", REQUIRED, servers),
        /// Speak TLS to the servers, and verify them
        tls: Setting<Option<Written<ServerTls>>> = table_or_other::<ServerTls, _>(SERVER_TLS, "`false`", server_tls),
        /// Speak HTTP/2 to the servers: with `tls` as agreed in the handshake, else from the first byte. "auto": HTTP/1.1 with
        /// those that do not agree to it. Requests share connections as streams
        http2: Setting<ServerHttp2> = other("`false`, `true` or `\"auto\"`", "false", server_http2),
        /// How a server is chosen: in turn; the least busy; the less busy of two drawn at random; the same for the same
        /// key
        balance: Algorithm = one_of("round-robin"),
        /// The key for `balance = "hash"`
        hash_on: Setting<HashOn> = other(
            "`path`, `host`, `client`, `header:NAME` or `cookie:NAME`",
            "\"path\"; in a `tunnel`'s upstream \"client\"",
            |table, key, _, problems| {
                let text = table.text(key, problems);
                text.refine("something to hash", problems, |text| hash_on(text))
            },
        ),
        /// Active health checks, besides the passive marking by `failures_max`
        health: Setting<Written<Health>> = table_or("no active checks"),
        /// Begin connections to the servers with a PROXY header; `true` is `"v1"`. Its destination is that of the
        /// client's own PROXY header, else the address at which carrick accepted the client. Such a connection
        /// belongs to one client and is not kept for others
        send_proxy_protocol: Setting<Option<ProxyVersion>> =
            other("`false`, `true`, `\"v1\"` or `\"v2\"`", "false", send_proxy_protocol),
        /// Most idle connections kept per server and worker, those beyond 64 for 5 s at most; 0: none
        keepalive: usize = number(0..=100_000, 1000),
        /// Failures in a row after which a server gets no requests for a while (1 s, doubled each time, up to 60 s);
        /// 0: never
        failures_max: u32 = number(0..=1_000_000, 3),
    }
}

words!(Algorithm {
    "round-robin" => RoundRobin,
    "least-connections" => LeastConnections,
    "two-choices" => TwoChoices,
    "hash" => Hash,
});

/// What `balance = "hash"` hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the configuration's")]
pub enum HashOn {
    Path,
    Host,
    Client,
    Header(String),
    Cookie(String),
}

/// Whether HTTP/2 is spoken to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerHttp2 {
    /// HTTP/1.1 is.
    Never,
    /// With those that agree to it by TLS.
    Auto,
    /// To all.
    Always,
}

/// PROXY protocol versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ProxyVersion {
    V1,
    V2,
}

section! {
    /// One of `servers`.
    #[derive(Debug)]
    pub struct Server = "servers = [{ }]" {
        /// As in the short form
        address: Setting<String> = required_text("`host:port`"),
        /// Its share, relative to the weights of the others
        weight: u32 = number(1..=1000, 1),
    }
}

/// What is said of keys that other programs have.
const HEALTH_ADVICE: &[(&str, &str)] = &[("interval", "did you mean `every`?")];

section! {
    /// `health = { … }`
    #[derive(Debug)]
    pub struct Health = "health = { }", advice = HEALTH_ADVICE {
        /// The path of a GET that must be answered with 2xx or 3xx
        path: Setting<String> = text_or("a path", "a connection is enough"),
        /// Ask by the health checking protocol of gRPC, for the whole server (`true`) or one of its services; only with
        /// `http2`
        grpc: Setting<Option<String>> = other("`false`, `true` or the name of a service", "false", grpc),
        /// The `Host` of the check's request
        host: Setting<String> = text_or("a host name", "the server's address"),
        /// Time between two checks, and the limit on one
        every: Duration = time(milliseconds(100)..=DAY, seconds(5)),
        /// Checks in a row that must fail before the server counts as down
        fall: u32 = number(1..=100, 3),
        /// Checks in a row that must succeed before it counts as up again
        rise: u32 = number(1..=100, 2),
    }
}

fn servers(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<Vec<Server>> {
    let Some(value) = table.raw(key) else {
        return Setting::Absent;
    };
    let mut server = |value| server(table, key, value, problems);
    let servers = match value.get_ref() {
        DeValue::Array(items) => items.iter().map(server).collect(),
        _ => vec![server(value)],
    };
    Setting::Given(Spanned::new(value.span(), servers))
}

fn server(
    table: &Section<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
    problems: &mut Problems,
) -> Server {
    const WHAT: &str = "a list of \"host:port\" and { address, weight }";
    let address = match value.get_ref() {
        DeValue::String(text) => Setting::Given(Spanned::new(value.span(), text.to_string())),
        DeValue::Table(_) => match table.inner(value, Server::TABLE, problems) {
            Some(table) => return Server::read(&table, problems),
            None => Setting::Wrong,
        },
        _ => wrong_kind(value, key, WHAT, problems),
    };
    Server {
        address,
        ..Server::defaults()
    }
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

/// `Some` of an empty name: the whole server.
fn grpc(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<Option<String>> {
    let Some(value) = table.raw(key) else {
        return Setting::Absent;
    };
    let service = match value.get_ref() {
        DeValue::Boolean(false) => None,
        DeValue::Boolean(true) => Some(String::new()),
        DeValue::String(name) => Some(name.to_string()),
        _ => {
            return wrong_kind(
                value,
                key,
                "`false`, `true` or the name of a service",
                problems,
            );
        }
    };
    Setting::Given(Spanned::new(value.span(), service))
}

fn server_http2(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<ServerHttp2> {
    let Some(value) = table.raw(key) else {
        return Setting::Absent;
    };
    let http2 = match value.get_ref() {
        DeValue::Boolean(false) => ServerHttp2::Never,
        DeValue::Boolean(true) => ServerHttp2::Always,
        DeValue::String(text) if text == "auto" => ServerHttp2::Auto,
        _ => return wrong_kind(value, key, "`false`, `true` or \"auto\"", problems),
    };
    Setting::Given(Spanned::new(value.span(), http2))
}

fn send_proxy_protocol(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<Option<ProxyVersion>> {
    let Some(value) = table.raw(key) else {
        return Setting::Absent;
    };
    let version = match value.get_ref() {
        DeValue::Boolean(false) => None,
        DeValue::Boolean(true) => Some(ProxyVersion::V1),
        DeValue::String(text) if text == "v1" => Some(ProxyVersion::V1),
        DeValue::String(text) if text == "v2" => Some(ProxyVersion::V2),
        _ => return wrong_kind(value, key, "`false`, `true`, \"v1\" or \"v2\"", problems),
    };
    Setting::Given(Spanned::new(value.span(), version))
}
