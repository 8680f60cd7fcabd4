//! `[[listener]]`: what is listened on, and to do what.
use super::tls::{SERVER_TLS, ServerTls, server_tls, tls};
use super::{
    BLIND, CacheUse, Certificate, ClientCertificate, HTTP, Intercept, ListenerTls, Route,
    TcpProfileRule,
};
use crate::config::keys::{Form, NONE, REQUIRED};
use crate::config::kinds::{
    Texts, number, one_of, one_of_or, other, required_text, switch, switch_or, table_list,
    table_or, table_or_other, tables, text, text_or, texts,
};
use crate::config::problem::Problems;
use crate::config::reader::{Section, integer, wrong_kind};
use crate::config::section::{Written, section};
use crate::config::setting::Setting;
use crate::config::tls::Minimum;
use crate::config::word::words;
use carrick_logic::http1::{Forwarded, OddNames, StatedIn};
use carrick_splice::Choice;
use toml::Spanned;
use toml::de::DeValue;

/// Every mode.
const EVERY: &[&str] = &["forward", "switch", "tunnel", "split", "link"];
/// Every mode but the far end of a link.
const SERVING: &[&str] = &["forward", "switch", "tunnel", "split"];
/// Where clients name their destination.
const NAMED: &[&str] = &["forward", "link"];
const FORWARD: &[&str] = &["forward"];
const SWITCH: &[&str] = &["switch"];
/// Where there are routes.
const ROUTED: &[&str] = &["switch", "tunnel", "split"];
const SPLIT: &[&str] = &["split"];

section! {
    /// `[[listener]]`
    #[derive(Debug)]
    pub struct Listener = "[[listener]]" {
        /// The address to listen on, such as `"0.0.0.0:8080"`, `"[::]:8080"` (IPv4, too) or `"127.0.0.1:3128"`
        listen in EVERY: Setting<String> = text_or("an address and port", REQUIRED),
        /// The job: forward proxy, layer-7 switch, TCP relay, splitter of TCP connections, or the far end of a
        /// `[link.NAME]`
        mode in EVERY: Setting<Job> = one_of_or(REQUIRED),
        /// Clients speak TLS, and get the certificate that has the server name they ask for; else the first. `"acme"`: one
        /// for each `host` of the routes, from the authority of `[acme]`. Only for `forward` and `switch`
        tls in HTTP: Setting<ListenerTls> =
            table_or_other::<Certificate, _>("a list of certificates, one of them, or `\"acme\"`", NONE, tls),
        /// The oldest version of TLS that clients may speak
        tls_minimum in HTTP: Setting<Minimum> = one_of_or("1.2"),
        /// A PEM file with the authorities that issue clients' certificates. Only with `tls`
        client_ca in HTTP: Setting<String> = text_or("a path", "clients are not asked for certificates"),
        /// A file with a revocation list (CRL) of each of these authorities: PEM, or one list in DER. Only with `client_ca`
        client_crl in HTTP: Setting<String> = text_or("a path", "revocation is not checked"),
        /// Whether clients without a certificate are refused. Only with `client_ca`
        client_certificate in HTTP: Setting<ClientCertificate> = one_of_or("required"),
        /// Clients may speak HTTP/2: with `tls` those that offer it, without it those that begin so. Only for `forward` and
        /// `switch`
        http2 in HTTP: bool = switch(true),
        /// Responses get `Strict-Transport-Security`, unless the server sends it: browsers then use HTTPS only, for
        /// this time, or as a whole value says (`"max-age=31536000; includeSubDomains"`). Only with `tls`, for
        /// `switch`
        hsts in SWITCH: Setting<String> = text_or("a time, or a value", NONE),
        /// Requests are redirected to `https://` at port 443, or at this port, except those that came to a trusted
        /// proxy by HTTPS. Needs no routes, and means nothing with `tls`. Only for `switch`
        redirect_to_https in SWITCH: Setting<u16> = other("`true` or a port", "`false`", redirect_port),
        /// Connections must begin with a PROXY v1 or v2 header, and the client's address is taken from it; whoever can
        /// connect can claim any address, so let only your balancers in
        proxy_protocol in SERVING: bool = switch(false),
        /// Clients do not know of the proxy: their connections to others, as `intercept` says, come in here, and go to
        /// their original destination unless a route says otherwise. Requires CAP_NET_ADMIN
        transparent in SERVING: Setting<bool> = switch_or("`false`; split: `true`"),
        /// What is intercepted. Only with `transparent`
        intercept in SERVING: Setting<Written<Intercept>> = table_or("required with `transparent`"),
        /// Servers see the client's address, not carrick's; their answers must pass this machine. Only with
        /// `transparent`, and for `link`. Requires CAP_NET_RAW, and keeps it
        keep_client_address in EVERY: Setting<bool> = switch_or("`false`; split, if it is transparent: `true`"),
        /// When the client's SYN is answered: `server-first`, when the server has accepted, so that a client whose server
        /// refuses is refused as well; `at-once`, when it comes, which saves a round trip. Only for `tunnel` and `split`,
        /// with `transparent`
        handshake in BLIND: Setting<Answering> = one_of_or(
            "split, if it is transparent and no route has `sni` or `upstream`, and nothing a `link`: server-first; else at-once",
        ),
        /// Whether connections are split: `adaptive`, where that is quicker, as it is learned for each pair of networks;
        /// `always`; `never`: both halves are joined, and the packet engine forwards their packets. Only for `split`
        split in SPLIT: Splitting = one_of("adaptive"),
        /// Per cent of connections that are joined end to end although they would be split, to measure against them what
        /// splitting gains. Only for `split`
        control_group in SPLIT: u8 = number(0..=100, 0),
        /// Overrides `[splice]` for this listener
        engine in EVERY: Setting<Choice> = one_of_or("that of [splice]"),
        /// Clients that may use the listener; a forward proxy beyond loopback, or with `proxy_protocol` or
        /// `trusted_proxies`, needs this or `users`, a `link` needs it in any case
        allow in EVERY: Setting<Texts> = texts("networks or addresses", "all"),
        /// What the upstream is told about the client: `X-Forwarded-For`, `-Proto` and `-Host`, or `Forwarded` (RFC
        /// 7239); `off` removes all of them, `unchanged` adds nothing, and passes on what clients sent, or with
        /// `trusted_proxies` what these sent. Not for `tunnel` and `split`
        forwarded in HTTP: Setting<Forwarded> =
            one_of_or("switch: x-forwarded; forward, and with `transparent`: unchanged"),
        /// Proxies in front of this one whose statements about clients are believed: their `Forwarded`,
        /// `X-Forwarded-…`, `X-Real-IP` and similar fields are kept and extended, and the client's address for
        /// `allow`, `connections_per_client`, `hash_on`, pacing and the access log is the last one in `trusted_field`
        /// that is not one of these proxies. Such fields of all others are removed. Only for `forward` and `switch`
        trusted_proxies in HTTP: Setting<Texts> = texts("networks or addresses", NONE),
        /// The field in which `trusted_proxies` name the client. If it is present, the other form is removed
        trusted_field in HTTP: Setting<StatedIn> =
            one_of_or("forwarded with `forwarded = \"forwarded\"`, else x-forwarded-for"),
        /// Request headers whose names have `_`, or anything else but letters, digits and hyphens, which CGI and
        /// similar interfaces mistake for other headers (`X_Forwarded_For`): `drop` removes them, as nginx does;
        /// `refuse` answers 400; `pass` lets them through. Trailers likewise. Not for `tunnel` and `split`
        underscores in HTTP: OddNames = one_of("drop"),
        /// Where `Via` is added (RFC 9110 section 7.6.3). `requests`: to requests, as is demanded of a gateway; `both`: to
        /// responses as well, which a switch then forwards in the process; `""`: nowhere, and servers of upstreams and
        /// parents get `CDN-Loop` instead. Not for `tunnel` and `split`
        via in HTTP: Setting<ViaIn> = one_of_or("switch: requests; forward: both"),
        /// The name in `Via` and `CDN-Loop`: one word, or a host with or without port. Not for `tunnel` and `split`
        via_name in HTTP: Spanned<String> = text("a name", "carrick"),
        /// Where requests go. Only for `switch`, `tunnel` and `split`
        routes as "route" in ROUTED: Vec<Written<Route>> = tables("", "required, but not with `transparent` or `redirect_to_https`"),
        /// Ports that `CONNECT` may name; plain HTTP goes to any port. Only for `forward`
        connect_ports in FORWARD: ConnectPorts =
            other("a list of ports, `\"all\"` or `\"none\"`", "[443]", connect_ports),
        /// Destinations that are refused; addresses are checked after name resolution. Only for `forward`, for
        /// `link`, and with `transparent`, there for connections to original destinations
        deny_to in NAMED: Setting<Texts> = texts(
            "networks, addresses, name patterns or `\"inner\"`",
            "forward on loopback, without `proxy_protocol` and `trusted_proxies`: none; else `\"inner\"`, the list of inner networks",
        ),
        /// An htpasswd file: basic authentication against it. Only for `forward`
        users in FORWARD: Setting<String> = text_or("a path", "no authentication"),
        /// Another proxy that requests go through. Only for `forward`
        parent in FORWARD: Setting<Written<Parent>> = table_or(NONE),
        /// The `[link.NAME]` for connections to original destinations, except those with `split = "never"`. Only for
        /// `tunnel` and `split`
        link in BLIND: Setting<String> = text_or("a name", NONE),
        /// The `[tcp_profile.NAME]` of connections from clients and to servers: that of the first rule whose
        /// conditions hold
        tcp_profiles in EVERY: Setting<Vec<Written<TcpProfileRule>>> = table_list("a list of rules, or one of them"),
        /// The `[pace.classes.NAME]` for traffic relayed for this listener's clients
        pace in EVERY: Setting<String> = text_or("a class's name, or `\"\"` for none", "the `default` of `[pace]`");
        ..cache: CacheUse
    }
}

impl Listener {
    /// The word for its job, if it has one.
    #[must_use]
    pub fn job(&self) -> Option<Job> {
        self.mode.given().map(|job| *job.get_ref())
    }

    /// Whether its clients do not know of the proxy.
    #[must_use]
    pub fn is_transparent(&self) -> bool {
        given(&self.transparent).unwrap_or(self.job() == Some(Job::Split))
    }

    /// Whether servers see the client's address.
    #[must_use]
    pub fn keeps_client_address(&self) -> bool {
        let is_split = self.job() == Some(Job::Split);
        given(&self.keep_client_address).unwrap_or(is_split && self.is_transparent())
    }
}

fn given(switch: &Setting<bool>) -> Option<bool> {
    switch.given().map(|is_on| *is_on.get_ref())
}

/// `mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the configuration's")]
pub enum Job {
    Forward,
    Switch,
    Tunnel,
    Split,
    Link,
}

words!(Job {
    "forward" => Forward,
    "switch" => Switch,
    "tunnel" => Tunnel,
    "split" => Split,
    "link" => Link,
});

/// `handshake`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// When the server has accepted.
    ServerFirst,
    /// When it comes.
    AtOnce,
}

words!(Answering { "server-first" => ServerFirst, "at-once" => AtOnce });

/// Whether a connection is split: acknowledged, stored and sent again here, each half by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Splitting {
    /// If that is likely to be quicker.
    #[default]
    Adaptive,
    /// It is.
    Always,
    /// It is not: both halves are joined, and their packets forwarded.
    Never,
}

words!(Splitting { "adaptive" => Adaptive, "always" => Always, "never" => Never });

words!(Forwarded {
    "x-forwarded" => XForwarded,
    "forwarded" => Standard,
    "off" => Remove,
    "unchanged" => Unchanged,
});

/// `via`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViaIn {
    /// In requests.
    Requests,
    /// In requests and responses.
    Both,
    /// Neither.
    Nothing,
}

words!(ViaIn { "requests" => Requests, "both" => Both, "" => Nothing });

words!(StatedIn { "x-forwarded-for" => XForwardedFor, "forwarded" => Forwarded });

words!(OddNames { "drop" => Drop, "refuse" => Refuse, "pass" => Pass });

/// `connect_ports`
#[derive(Debug, Clone)]
pub enum ConnectPorts {
    /// `"all"`
    All,
    /// `"none"`, or an empty list.
    None,
    /// These.
    These(Vec<u16>),
}

section! {
    /// `parent = { … }`
    #[derive(Debug)]
    pub struct Parent = "parent = { }" {
        /// The other proxy
        proxy: Setting<String> = required_text("`host:port`; port 3128 if left out"),
        /// Speak TLS to it, and verify it
        tls: Setting<Option<Written<ServerTls>>> = table_or_other::<ServerTls, _>(SERVER_TLS, "`false`", server_tls),
        /// Destinations that go through it; the others are connected to directly
        destinations as "for": Setting<Texts> = texts("name patterns", "all"),
    }
}

fn redirect_port(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<u16> {
    const HTTPS: u16 = 443;
    let Some(value) = table.raw(key) else {
        return Setting::Absent;
    };
    let port = match value.get_ref() {
        DeValue::Boolean(false) => return Setting::Absent,
        DeValue::Boolean(true) => Some(HTTPS),
        other => integer(other).and_then(|port| u16::try_from(port).ok()),
    };
    match port.filter(|port| *port > 0) {
        Some(port) => Setting::Given(Spanned::new(value.span(), port)),
        None => wrong_kind(
            value,
            key,
            "`true`, `false` or a port from 1 to 65535",
            problems,
        ),
    }
}

fn connect_ports(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> ConnectPorts {
    const WHAT: &str = "a list of ports, \"all\" or \"none\"";
    let default = || ConnectPorts::These(vec![443]);
    let Some(value) = table.raw(key) else {
        return default();
    };
    match value.get_ref() {
        DeValue::String(text) if text == "all" => ConnectPorts::All,
        DeValue::String(text) if text == "none" => ConnectPorts::None,
        DeValue::Array(items) if items.is_empty() => ConnectPorts::None,
        DeValue::Array(items) => {
            ports(items.iter(), problems).map_or_else(default, ConnectPorts::These)
        }
        _ => wrong_kind(value, key, WHAT, problems).or(default()),
    }
}

/// A list of ports; `None` if one of them is none.
fn ports<'v>(
    items: impl ExactSizeIterator<Item = &'v Spanned<DeValue<'v>>>,
    problems: &mut Problems,
) -> Option<Vec<u16>> {
    let count = items.len();
    let mut ports = Vec::with_capacity(count);
    for item in items {
        match integer(item.get_ref()).and_then(|port| u16::try_from(port).ok()) {
            Some(port) if port > 0 => ports.push(port),
            _ => {
                problems
                    .error(item.span(), "this is not a port")
                    .label("a number from 1 to 65535");
            }
        }
    }
    (ports.len() == count).then_some(ports)
}
