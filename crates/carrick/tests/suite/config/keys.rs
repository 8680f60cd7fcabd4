//! Every declared key has an effect: without its line the plan differs, or there is none.
mod acme;
mod cache;
mod link;
mod pace;
mod tcp_profiles;
mod tls;

use super::{parse, parse_right, shown};
use carrick::config::tables;
use std::collections::BTreeSet;

const FORWARD: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n";
const TRANSPARENT: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\ntransparent = true\n[listener.intercept]\n";
const SPLIT: &str =
    "[[listener]]\nlisten = \"127.0.0.1:3130\"\nmode = \"split\"\nintercept = { ports = [80] }\n";
const SWITCH: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\n";
const UPSTREAM: &str = "[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n[upstream.u]\n";

/// A table, one of its keys, the text before it, and the line with the key.
const KEYS: &[(&str, &str, &str, &str)] = &[
    (
        "[admin]",
        "listen",
        FORWARD,
        "[admin]\nlisten = \"127.0.0.1:1\"",
    ),
    ("[splice]", "engine", FORWARD, "[splice]\nengine = \"pipe\""),
    ("[workers]", "count", FORWARD, "[workers]\ncount = 77"),
    ("[process]", "user", FORWARD, "[process]\nuser = \"nobody\""),
    ("[process]", "pins", FORWARD, "[process]\npins = \"\""),
    ("[process]", "ktls", FORWARD, "[process]\nktls = \"off\""),
    (
        "[process]",
        "packet",
        FORWARD,
        "[process]\npacket = \"named\"",
    ),
    (
        "[process]",
        "sandbox",
        FORWARD,
        "[process]\nsandbox = \"off\"",
    ),
    (
        "[process]",
        "group",
        FORWARD,
        "[process]\nuser = \"nobody\"\ngroup = \"0\"",
    ),
    (
        "[limits]",
        "connections",
        FORWARD,
        "[limits]\nconnections = 7",
    ),
    (
        "[limits]",
        "connections_per_client",
        FORWARD,
        "[limits]\nconnections_per_client = 7",
    ),
    (
        "[limits]",
        "request_head",
        FORWARD,
        "[limits]\nrequest_head = 4096",
    ),
    ("[limits]", "headers", FORWARD, "[limits]\nheaders = 50"),
    (
        "[limits]",
        "rate_min",
        FORWARD,
        "[limits]\nrate_min = \"1 KB\"",
    ),
    ("[limits]", "attempts", FORWARD, "[limits]\nattempts = 1"),
    ("[limits]", "log_queue", FORWARD, "[limits]\nlog_queue = 10"),
    ("[limits]", "dns_cache", FORWARD, "[limits]\ndns_cache = 10"),
    ("[limits]", "pipes", FORWARD, "[limits]\npipes = 10"),
    ("[limits]", "splices", FORWARD, "[limits]\nsplices = 10"),
    ("[limits]", "unsent", FORWARD, "[limits]\nunsent = \"1 MB\""),
    ("[limits]", "unread", FORWARD, "[limits]\nunread = \"1 MB\""),
    (
        "[limits]",
        "stalled",
        FORWARD,
        "[limits]\nstalled = \"1 MB\"",
    ),
    ("[timeouts]", "head", FORWARD, "[timeouts]\nhead = \"1s\""),
    ("[timeouts]", "idle", FORWARD, "[timeouts]\nidle = \"1s\""),
    (
        "[timeouts]",
        "connect",
        FORWARD,
        "[timeouts]\nconnect = \"1s\"",
    ),
    (
        "[timeouts]",
        "tunnel_idle",
        FORWARD,
        "[timeouts]\ntunnel_idle = \"1s\"",
    ),
    ("[timeouts]", "drain", FORWARD, "[timeouts]\ndrain = \"0s\""),
    ("[log]", "access", FORWARD, "[log]\naccess = \"stderr\""),
    ("[log]", "format", FORWARD, "[log]\nformat = \"json\""),
    (
        "[[listener]]",
        "listen",
        "[[listener]]\nmode = \"forward\"\n",
        "listen = \"127.0.0.1:1\"",
    ),
    (
        "[[listener]]",
        "mode",
        "[[listener]]\nlisten = \"127.0.0.1:1\"\n",
        "mode = \"forward\"",
    ),
    (
        "[[listener]]",
        "proxy_protocol",
        FORWARD,
        "allow = \"::1\"\nproxy_protocol = true",
    ),
    (
        "[[listener]]",
        "transparent",
        FORWARD,
        "intercept = { ports = [80] }\ntransparent = true",
    ),
    (
        "[[listener]]",
        "intercept",
        FORWARD,
        "transparent = true\nintercept = { ports = [80] }",
    ),
    (
        "[[listener]]",
        "keep_client_address",
        FORWARD,
        "transparent = true\nintercept = { ports = [80] }\nkeep_client_address = true",
    ),
    (
        "[[listener]]",
        "handshake",
        SPLIT,
        "handshake = \"at-once\"",
    ),
    ("[[listener]]", "split", SPLIT, "split = \"never\""),
    ("[[listener]]", "control_group", SPLIT, "control_group = 1"),
    (
        "[[listener.route]]",
        "split",
        SPLIT,
        "[[listener.route]]\nsni = \"a.example\"\nto = \"original\"\nsplit = \"never\"",
    ),
    (
        "intercept = { }",
        "except_ports",
        TRANSPARENT,
        "ports = \"all\"\nexcept_ports = [22]",
    ),
    (
        "intercept = { }",
        "ports",
        TRANSPARENT,
        "mark = 1\nports = [80]",
    ),
    (
        "intercept = { }",
        "interfaces",
        TRANSPARENT,
        "ports = [80]\ninterfaces = \"lo\"",
    ),
    (
        "intercept = { }",
        "from",
        TRANSPARENT,
        "ports = [80]\nfrom = \"10.0.0.0/8\"",
    ),
    (
        "intercept = { }",
        "to",
        TRANSPARENT,
        "ports = [80]\nto = \"10.0.0.0/8\"",
    ),
    (
        "intercept = { }",
        "except",
        TRANSPARENT,
        "ports = [80]\nexcept = \"10.0.0.0/8\"",
    ),
    (
        "intercept = { }",
        "local",
        TRANSPARENT,
        "ports = [80]\nlocal = true",
    ),
    (
        "intercept = { }",
        "mark",
        TRANSPARENT,
        "ports = [80]\nmark = 1",
    ),
    (
        "intercept = { }",
        "table",
        TRANSPARENT,
        "ports = [80]\ntable = 1000",
    ),
    (
        "[[listener.route]]",
        "to",
        "[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\ntransparent = true\nintercept = { ports = [80] }\n[[listener.route]]\n",
        "path = \"/a\"\nto = \"original\"",
    ),
    ("[[listener]]", "engine", FORWARD, "engine = \"copy\""),
    ("[[listener]]", "allow", FORWARD, "allow = [\"::1\"]"),
    ("[[listener]]", "forwarded", FORWARD, "forwarded = \"off\""),
    (
        "[[listener]]",
        "trusted_proxies",
        FORWARD,
        "allow = \"::1\"\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]",
    ),
    (
        "[[listener]]",
        "trusted_field",
        FORWARD,
        "allow = \"::1\"\ntrusted_proxies = \"::1\"\ntrusted_field = \"forwarded\"",
    ),
    (
        "[[listener]]",
        "underscores",
        FORWARD,
        "underscores = \"refuse\"",
    ),
    ("[[listener]]", "via", FORWARD, "via = \"requests\""),
    ("[[listener]]", "via_name", FORWARD, "via_name = \"gate\""),
    (
        "[[listener]]",
        "connect_ports",
        FORWARD,
        "connect_ports = \"none\"",
    ),
    (
        "[[listener]]",
        "deny_to",
        FORWARD,
        "deny_to = \"a.example\"",
    ),
    (
        "[[listener]]",
        "users",
        FORWARD,
        "users = \"users.htpasswd\"",
    ),
    (
        "[[listener]]",
        "parent",
        FORWARD,
        "parent = { proxy = \"a.example\" }",
    ),
    ("[[listener]]", "route", SWITCH, "upstream = \"u\""),
    (
        "parent = { }",
        "proxy",
        FORWARD,
        "[listener.parent]\nfor = \"a.example\"\nproxy = \"b.example\"",
    ),
    (
        "parent = { }",
        "for",
        FORWARD,
        "[listener.parent]\nproxy = \"b.example\"\nfor = \"a.example\"",
    ),
    ("[[listener.route]]", "upstream", SWITCH, "upstream = \"u\""),
    (
        "[[listener.route]]",
        "host",
        SWITCH,
        "upstream = \"u\"\nhost = \"a.example\"",
    ),
    (
        "[[listener.route]]",
        "path",
        SWITCH,
        "upstream = \"u\"\npath = \"/a\"",
    ),
    (
        "[[listener.route]]",
        "extension",
        SWITCH,
        "upstream = \"u\"\nextension = \"gif\"",
    ),
    (
        "[[listener.route]]",
        "cookie",
        SWITCH,
        "upstream = \"u\"\ncookie = \"c\"",
    ),
    (
        "[[listener.route]]",
        "header",
        SWITCH,
        "upstream = \"u\"\nheader = { name = \"a\", value = \"\" }",
    ),
    (
        "[[listener.route]]",
        "method",
        SWITCH,
        "upstream = \"u\"\nmethod = \"PUT\"",
    ),
    (
        "[[listener.route]]",
        "cgi",
        SWITCH,
        "upstream = \"u\"\ncgi = false",
    ),
    (
        "[[listener.route]]",
        "engine",
        SWITCH,
        "upstream = \"u\"\nengine = \"pipe\"",
    ),
    (
        "[[listener.route]]",
        "requests",
        "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\nforwarded = \"off\"\nvia = \"\"\n[[listener.route]]\n",
        "upstream = \"u\"\nengine = \"packet\"\nrequests = \"kernel\"",
    ),
    (
        "[[listener.route]]",
        "responses",
        SWITCH,
        "upstream = \"u\"\nengine = \"packet\"\nresponses = \"read\"",
    ),
    (
        "[[listener.route]]",
        "sni",
        "[upstream.u]\nservers = [\"10.0.0.1:1\"]\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"tunnel\"\n[[listener.route]]\n",
        "upstream = \"u\"\nsni = \"a.example\"",
    ),
    (
        "header = { }",
        "name",
        SWITCH,
        "upstream = \"u\"\n[listener.route.header]\nvalue = \"v\"\nname = \"n\"",
    ),
    (
        "header = { }",
        "value",
        SWITCH,
        "upstream = \"u\"\n[listener.route.header]\nname = \"n\"\nvalue = \"v\"",
    ),
    (
        "[upstream.NAME]",
        "servers",
        UPSTREAM,
        "servers = [\"10.0.0.1\"]",
    ),
    (
        "[upstream.NAME]",
        "balance",
        UPSTREAM,
        "servers = \"10.0.0.1\"\nbalance = \"hash\"",
    ),
    (
        "[upstream.NAME]",
        "hash_on",
        UPSTREAM,
        "servers = \"10.0.0.1\"\nbalance = \"hash\"\nhash_on = \"header:X-User\"",
    ),
    (
        "[upstream.NAME]",
        "health",
        UPSTREAM,
        "servers = \"10.0.0.1\"\nhealth = {}",
    ),
    (
        "[upstream.NAME]",
        "http2",
        UPSTREAM,
        "servers = \"10.0.0.1\"\nhttp2 = true",
    ),
    (
        "[upstream.NAME]",
        "send_proxy_protocol",
        UPSTREAM,
        "servers = \"10.0.0.1\"\nsend_proxy_protocol = \"v2\"",
    ),
    (
        "[upstream.NAME]",
        "keepalive",
        UPSTREAM,
        "servers = \"10.0.0.1\"\nkeepalive = 0",
    ),
    (
        "[upstream.NAME]",
        "failures_max",
        UPSTREAM,
        "servers = \"10.0.0.1\"\nfailures_max = 0",
    ),
    (
        "servers = [{ }]",
        "address",
        UPSTREAM,
        "[[upstream.u.servers]]\nweight = 2\naddress = \"a.example\"",
    ),
    (
        "servers = [{ }]",
        "weight",
        UPSTREAM,
        "[[upstream.u.servers]]\naddress = \"a.example\"\nweight = 2",
    ),
    (
        "health = { }",
        "path",
        UPSTREAM,
        "servers = \"10.0.0.1\"\n[upstream.u.health]\npath = \"/\"",
    ),
    (
        "health = { }",
        "grpc",
        UPSTREAM,
        "servers = \"10.0.0.1\"\nhttp2 = true\n[upstream.u.health]\ngrpc = true",
    ),
    (
        "health = { }",
        "host",
        UPSTREAM,
        "servers = \"10.0.0.1\"\n[upstream.u.health]\npath = \"/\"\nhost = \"h.example\"",
    ),
    (
        "health = { }",
        "every",
        UPSTREAM,
        "servers = \"10.0.0.1\"\n[upstream.u.health]\nevery = \"1s\"",
    ),
    (
        "health = { }",
        "fall",
        UPSTREAM,
        "servers = \"10.0.0.1\"\n[upstream.u.health]\nfall = 1",
    ),
    (
        "health = { }",
        "rise",
        UPSTREAM,
        "servers = \"10.0.0.1\"\n[upstream.u.health]\nrise = 1",
    ),
];

#[test]
fn every_key_has_an_effect() {
    let mut tried = BTreeSet::new();
    for (table, key, beginning, lines) in (KEYS.iter())
        .chain(cache::KEYS)
        .chain(pace::KEYS)
        .chain(tcp_profiles::KEYS)
        .chain(link::KEYS)
        .chain(tls::KEYS)
        .chain(acme::KEYS)
        .chain(shared_cache())
    {
        let with = format!("{beginning}{lines}\n");
        let last_line = lines.lines().last().expect("a line");
        assert!(
            last_line.starts_with(key) || *key == "route",
            "{table} {key}"
        );
        let without = format!(
            "{beginning}{}\n",
            lines.strip_suffix(last_line).expect("the last line")
        );
        let loaded = parse_right(&with);
        if let Ok(other) = parse(&without) {
            assert_ne!(shown(&loaded), shown(&other), "{table} {key} has no effect");
        }
        tried.insert((*table, *key));
    }
    let declared: BTreeSet<_> = tables()
        .into_iter()
        .filter(|table| table.title != "the file")
        .flat_map(|table| table.keys.iter().map(|key| (table.title, key.name)))
        .collect();
    tried.extend((cache::OF_SECOND_LEVEL.iter()).map(|(table, key, _, _)| (*table, *key)));
    assert_eq!(tried, declared);
}

/// The keys of the shared cache, if this carrick supports it; otherwise checks that they are refused.
fn shared_cache() -> &'static [(&'static str, &'static str, &'static str, &'static str)] {
    if cfg!(feature = "shared-cache") {
        cache::OF_SECOND_LEVEL
    } else {
        &[]
    }
}

#[test]
#[cfg(not(feature = "shared-cache"))]
fn a_shared_cache_that_is_not_built_in_is_refused() {
    for (_, _, beginning, lines) in cache::OF_SECOND_LEVEL {
        let rejected = parse(&format!("{beginning}{lines}\n")).expect_err("it is not built in");
        let problem = &rejected.problems[0];
        assert!(
            problem.message.contains("built without a shared cache"),
            "{rejected}"
        );
        let help = problem.help.as_deref().unwrap_or_default();
        assert!(help.contains("--features shared-cache"), "{help}");
    }
}

#[test]
fn an_unknown_key_is_refused_in_every_table() {
    for (table, key, beginning, lines) in (KEYS
        .iter()
        .chain(cache::KEYS)
        .chain(pace::KEYS)
        .chain(tcp_profiles::KEYS)
        .chain(link::KEYS)
        .chain(tls::KEYS)
        .chain(acme::KEYS))
    .chain(cache::OF_SECOND_LEVEL)
    {
        if *key == "route" {
            continue;
        }
        let wrong = format!("{beginning}{lines}\n{key}z = 1\n");
        let rejected = parse(&wrong).expect_err("an unknown key");
        let problem = rejected.problems.iter().find(|problem| {
            problem
                .message
                .contains(&format!("`{key}z` is not a key of {table}"))
        });
        let help = problem.and_then(|problem| problem.help.as_deref());
        assert!(
            help.is_some_and(|help| help.contains(&format!("did you mean `{key}`?"))),
            "{table} {key}: {rejected}"
        );
    }
}

/// RFC 9213, 3.1: the field is for caches that work for the server.
#[test]
fn cdn_cache_control_is_for_routes_to_upstreams_unless_the_file_says_otherwise() {
    use carrick::config::plan::Mode;
    let targeted = |text: &str| {
        let loaded = parse_right(text);
        let policy = match &loaded.plan.listeners[0].mode {
            Mode::Forward(forward) => forward.cache.as_ref().map(|cache| cache.policy.clone()),
            Mode::Switch(routes) => routes[0].cache.as_ref().map(|cache| cache.policy.clone()),
            mode => panic!("{mode:?}"),
        };
        policy.expect("a cache").targeted
    };
    let switch = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\ncache = true\n[cache]\n";
    let (none, cdn) = (Vec::<Vec<u8>>::new(), vec![b"cdn-cache-control".to_vec()]);
    assert_eq!(targeted(switch), cdn);
    assert_eq!(targeted(cache::CACHE), none);
    assert_eq!(targeted(&format!("{switch}targeted = []")), none);
    let given = format!("{}targeted = \"CDN-Cache-Control\"", cache::CACHE);
    assert_eq!(targeted(&given), cdn);
}

#[test]
fn what_is_left_out_has_its_documented_default() {
    let loaded = parse_right(FORWARD);
    let built_in = carrick::config::plan::Plan::built_in();
    assert_eq!(loaded.plan.limits, built_in.limits);
    assert_eq!(loaded.plan.timeouts, built_in.timeouts);
    assert_eq!(loaded.plan.log, built_in.log);
    assert_eq!(loaded.plan.admin, built_in.admin);
    assert_eq!(loaded.plan.workers, built_in.workers);
    assert_eq!(loaded.plan.pins, built_in.pins);
    assert_eq!(loaded.plan.packet, built_in.packet);
    assert_eq!(loaded.plan.pace, built_in.pace);
    assert_eq!(
        parse_right("[pace]\ndefault = \"c\"\n[pace.classes.c]\n[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"").plan.pace.classes,
        [carrick_splice::ClassSettings::new("c")]
    );
    assert_eq!(loaded.plan.cache, None);
    assert_eq!(
        built_in.cache,
        Some(carrick::config::plan::CachePlan::default())
    );
    assert_eq!(
        parse_right(cache::CACHE).plan.cache,
        Some(carrick::config::plan::CachePlan::default())
    );
    assert_eq!(loaded.plan.listeners[0].access.connect_ports, [443]);
}
