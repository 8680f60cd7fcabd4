//! Every row of `complete.toml` has an effect: changing it changes the plan as the row says.
use super::{examples, parse_right, shown};
use std::collections::BTreeSet;

/// A row as in the file (without its comment), the changed row, and the text that appears in the plan.
const ROWS: &[(&str, &str, &str)] = &[
    (
        r#"listen = "127.0.0.1:3129""#,
        r#"listen = """#,
        "admin: None",
    ),
    (r#"engine = "auto""#, r#"engine = "copy""#, "engine: Copy"),
    ("count = 0", "count = 7", "workers: 7,"),
    (
        "connections = 100000",
        "connections = 99",
        "connections: 99,",
    ),
    (
        r#"request_head = "64 KB""#,
        r#"request_head = "8 KiB""#,
        "request_head: 8192,",
    ),
    (r#"head = "10s""#, r#"head = "11s""#, "head: 11s"),
    (r#"idle = "60s""#, r#"idle = "1m1s""#, "idle: 61s"),
    (
        r#"connect = "5s""#,
        r#"connect = "250ms""#,
        "connect: 250ms",
    ),
    (
        r#"tunnel_idle = "1h""#,
        r#"tunnel_idle = "2h""#,
        "tunnel_idle: 7200s",
    ),
    (
        r#"access = "stdout""#,
        r#"access = "access.log""#,
        "config/access.log",
    ),
    (
        r#"format = "combined""#,
        r#"format = "json""#,
        "format: Json",
    ),
    (
        r#"memory = "256 MB""#,
        r#"memory = "1 GB""#,
        "memory_bytes: 1073741824,",
    ),
    ("objects = 1000000", "objects = 99", "objects: 99,"),
    (
        r#"object_max = "32 MB""#,
        r#"object_max = "1 MB""#,
        "object_bytes_max: 1048576,",
    ),
    (
        r#"default_ttl = "0s""#,
        r#"default_ttl = "7s""#,
        "default_ttl_s: 7,",
    ),
    (
        r#"negative_ttl = "0s""#,
        r#"negative_ttl = "8s""#,
        "negative_ttl_s: 8,",
    ),
    (
        "heuristic_percent = 10",
        "heuristic_percent = 20",
        "heuristic_percent: 20,",
    ),
    (
        r#"heuristic_max = "1day""#,
        r#"heuristic_max = "9s""#,
        "heuristic_max_s: 9,",
    ),
    (
        r#"stale_while_revalidate = "0s""#,
        r#"stale_while_revalidate = "30s""#,
        "stale_while_revalidate_s: 30,",
    ),
    (
        r#"stale_if_error = "0s""#,
        r#"stale_if_error = "1h""#,
        "stale_if_error_s: 3600,",
    ),
    (
        "share_set_cookie = false",
        "share_set_cookie = true",
        "share_set_cookie: true,",
    ),
    (
        r#"targeted = "CDN-Cache-Control""#,
        "targeted = []",
        "targeted: [],",
    ),
    (
        "respect_client_no_cache = true",
        "respect_client_no_cache = false",
        "heed_client_reload: false,",
    ),
    ("ranges_max = 16", "ranges_max = 1", "ranges_max: 1,"),
    (
        r#"disk = { path = "/var/cache/carrick", size = "100 GB", objects = 1000000, object_max = "12.5 GB" }"#,
        r#"disk = { path = "/var/cache/carrick", size = "100 GB", objects = 7 }"#,
        "objects: 7,",
    ),
    (
        r#"quick_abort = { left = "1 MB", percent = 90 }"#,
        r#"quick_abort = { left = "2 MB", percent = 91 }"#,
        "percent_min: 91,",
    ),
    ("status = true", "status = false", "status: false,"),
    (
        r#"peers = { members = ["10.0.0.1:3128", "10.0.0.2:3128"], self = "10.0.0.1:3128", connect = "200ms", answer = "1s" }"#,
        r#"peers = { members = ["10.0.0.1:3128", "10.0.0.2:3128"], self = "10.0.0.2:3128", connect = "300ms", answer = "2s" }"#,
        "answer: 2s,",
    ),
    (r#"interval = "2s""#, r#"interval = "3s""#, "interval: 3s,"),
    (r#"default = "downloads""#, "", "pace: None,"),
    (
        r#"ceiling = "100 MB""#,
        r#"ceiling = "200 MB""#,
        "209715200,",
    ),
    (r#"parent = "line""#, "", ""),
    (r#"rate = "20 MB""#, r#"rate = "30 MB""#, "31457280,"),
    (
        r#"policy = "proportional""#,
        r#"policy = "conservative""#,
        "policy: Conservative,",
    ),
    (
        r#"hold_max = "100ms""#,
        r#"hold_max = "200ms""#,
        "hold_max: 200ms,",
    ),
    (r#"parent = "line""#, "", "parent: None,"),
    (r#"policy = "deadline""#, "", ""),
    (r#"target = "2ms""#, r#"target = "3ms""#, "target: 3ms,"),
    (
        r#"network_ceiling = "10 MB""#,
        r#"network_ceiling = "20 MB""#,
        "ceiling: 20971520,",
    ),
    (
        "network_prefix_v4 = 32",
        "network_prefix_v4 = 24",
        "prefix_v4: 24,",
    ),
    (
        "network_prefix_v6 = 64",
        "network_prefix_v6 = 48",
        "prefix_v6: 48,",
    ),
    (
        r#"splice_ceiling = "5 MB""#,
        r#"splice_ceiling = "6 MB""#,
        "6291456,",
    ),
    ("priority = 200", "priority = 7", "priority: 7,"),
    (
        r#"weight = "rtt""#,
        r#"weight = "window""#,
        "weight: Window,",
    ),
    (r#"pace = """#, r#"pace = "tunnels""#, ""),
    (r#"pace = "tunnels""#, r#"pace = "line""#, ""),
    ("cache = true", "cache = false", "cache: None,"),
    (
        r#"default_ttl = "10m""#,
        r#"default_ttl = "11m""#,
        "default_ttl_s: 660,",
    ),
    (
        r#"cache_key = { query = ["size"], headers = "X-Tenant" }"#,
        r#"cache_key = { query = "none", headers = "X-Tenant" }"#,
        "query: None,",
    ),
    (
        r#"cache_bypass = [{ cookie = "preview" }, { path = "/images/live/" }]"#,
        r#"cache_bypass = [{ cookie = "draft" }, { path = "/images/live/" }]"#,
        r#""draft""#,
    ),
    (
        "prefetch = false",
        "prefetch = true",
        "worker_at_once: 128,",
    ),
    (
        r#"prefetch = { hosts = "any", objects = 32, object_max = "500 KB", page_max = "5 MB", look = "100 KB", at_once = 4, worker_at_once = 100 }"#,
        r#"prefetch = { hosts = "same", objects = 33 }"#,
        "objects: 33,",
    ),
    (
        r#"cache_bypass = { host = "*.local.example" }"#,
        r#"cache_bypass = { host = "other.example" }"#,
        r#""other.example""#,
    ),
    (
        r#"listen = "0.0.0.0:8080""#,
        r#"listen = "[::1]:8081""#,
        "address: [::1]:8081",
    ),
    (r#"mode = "switch""#, "", ""),
    (
        "proxy_protocol = false",
        "proxy_protocol = true",
        "proxy_protocol: true",
    ),
    (
        r#"host = "*.example.org""#,
        r#"host = "www.example.org""#,
        r#""www.example.org""#,
    ),
    (
        r#"path = "/images/""#,
        r#"path = "/pictures/""#,
        r#""/pictures/""#,
    ),
    (
        r#"extension = ["gif", "jpg", "png"]"#,
        r#"extension = "WebP""#,
        r#""webp""#,
    ),
    (
        r#"cookie = "!session""#,
        r#"cookie = "session""#,
        "present: true",
    ),
    (
        r#"header = { name = "x-beta", value = "1" }"#,
        r#"header = { name = "X-Gamma", value = "2" }"#,
        r#""x-gamma""#,
    ),
    (
        r#"method = ["GET", "HEAD"]"#,
        r#"method = "PURGE""#,
        r#""PURGE""#,
    ),
    (r#"upstream = "images""#, r#"upstream = "tls-b""#, ""),
    (r#"engine = "pipe""#, r#"engine = "copy""#, "engine: Copy"),
    ("cgi = true", "cgi = false", "false,"),
    (r#"upstream = "dynamic""#, r#"upstream = "tls-a""#, ""),
    (r#"upstream = "pages""#, r#"upstream = "dynamic""#, ""),
    (
        r#"listen = "127.0.0.1:3128""#,
        r#"listen = "127.0.0.2:3128""#,
        "address: 127.0.0.2:3128",
    ),
    (r#"mode = "forward""#, "", ""),
    (
        r#"allow = ["127.0.0.0/8", "10.0.0.0/8"]"#,
        r#"allow = "192.0.2.7""#,
        "192.0.2.7/32",
    ),
    (
        "connect_ports = [443]",
        "connect_ports = [443, 8443]",
        "8443,",
    ),
    (
        r#"deny_to = ["inner", "*.secret.example"]"#,
        r#"deny_to = ["10.9.0.0/16", "*.hidden.example"]"#,
        r#""hidden.example""#,
    ),
    (r#"users = "users.htpasswd""#, "", "users: None"),
    (
        r#"parent = { proxy = "10.0.0.9:3128", for = ["*.corp.example"] }"#,
        r#"parent = { proxy = "proxy.example", for = "www.corp.example" }"#,
        r#"host: "proxy.example""#,
    ),
    (
        r#"listen = "0.0.0.0:8443""#,
        r#"listen = "[2001:db8::1]:8443""#,
        "address: [2001:db8::1]:8443",
    ),
    (r#"mode = "tunnel""#, "", ""),
    (
        r#"sni = "a.example.org""#,
        r#"sni = "b.example.org""#,
        r#""b.example.org""#,
    ),
    (r#"upstream = "tls-a""#, r#"upstream = "images""#, ""),
    (r#"upstream = "tls-b""#, r#"upstream = "images""#, ""),
    (
        r#"servers = ["10.0.0.11:80", { address = "10.0.0.12:80", weight = 2 }]"#,
        r#"servers = ["10.0.0.11:80", { address = "10.0.0.12:80", weight = 3 }]"#,
        "weight: 3,",
    ),
    (
        r#"balance = "least-connections""#,
        r#"balance = "two-choices""#,
        "balance: TwoChoices",
    ),
    (
        r#"hash_on = "path""#,
        r#"hash_on = "cookie:Session""#,
        r#""Session""#,
    ),
    (
        r#"health = { path = "/healthz", every = "2s" }"#,
        r#"health = { path = "/up", every = "3s" }"#,
        "every: 3s",
    ),
    (
        "send_proxy_protocol = false",
        "send_proxy_protocol = true",
        "V1,",
    ),
    ("keepalive = 1000", "keepalive = 65", "keepalive: 65"),
    (
        r#"servers = ["10.0.0.21:80"]"#,
        r#"servers = ["10.0.0.22"]"#,
        "10.0.0.22:80",
    ),
    (
        r#"servers = ["10.0.0.31:80", "[2001:db8::31]:80"]"#,
        r#"servers = ["[2001:db8::32]"]"#,
        "[2001:db8::32]:80",
    ),
    (
        r#"servers = ["10.0.0.41:443"]"#,
        r#"servers = ["tls-a.example:443"]"#,
        r#"host: "tls-a.example""#,
    ),
    (
        r#"servers = ["10.0.0.42:443"]"#,
        r#"servers = "10.0.0.43:443""#,
        "10.0.0.43:443",
    ),
];

#[test]
fn every_row_of_the_complete_example_has_an_effect() {
    let text = std::fs::read_to_string(examples().join("complete.toml")).expect("the file");
    let before = shown(&parse_right(&text));
    let lines: Vec<&str> = text.lines().collect();
    let mut changed = BTreeSet::new();
    for (row, other, effect) in ROWS {
        let index = lines
            .iter()
            .enumerate()
            .position(|(index, line)| !changed.contains(&index) && code(line) == *row)
            .unwrap_or_else(|| panic!("there is no row {row}"));
        changed.insert(index);
        let mut lines = lines.clone();
        lines[index] = other;
        match super::parse(&lines.join("\n")) {
            Ok(loaded) => {
                let after = shown(&loaded);
                assert_ne!(before, after, "{row} has no effect");
                assert!(
                    after.matches(effect).count() > before.matches(effect).count()
                        || effect.is_empty(),
                    "{other} does not cause {effect}"
                );
            }
            // A listener needs its mode, a rate its parent, and a target its policy.
            Err(_) => assert!(
                ["mode", "parent = \"line\"", "policy = \"deadline\""]
                    .iter()
                    .any(|start| row.starts_with(start)),
                "{other} is refused"
            ),
        }
    }
    for (index, line) in lines.iter().enumerate() {
        let is_row = !code(line).is_empty() && !code(line).starts_with('[');
        assert!(
            !is_row || changed.contains(&index) || code(line).starts_with("upstream = \"pages\""),
            "line {} is untested: {line}",
            index + 1
        );
    }
}

/// A line without its comment; no string in the file has a `#`.
fn code(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}
