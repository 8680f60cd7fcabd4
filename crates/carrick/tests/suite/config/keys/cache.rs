//! Rows for the keys of the cache.

pub const CACHE: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n[cache]\n";
const FORWARD_CACHE: &str =
    "[cache]\n[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n";
const SWITCH_CACHE: &str = "[cache]\n[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\ncache = true\n";
const CACHE_PEERS: &str =
    "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n[cache]\n[cache.peers]\n";
const CACHE_PEERS_OF: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n[cache]\n[cache.peers]\nmembers = [\"10.0.0.1\", \"10.0.0.2\"]\n";
const SHARED: &str =
    "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n[cache]\n[cache.shared]\n";
const SHARED_AT: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n[cache]\n[cache.shared]\nservers = \"10.0.0.1\"\n";

/// A table, one of its keys, the text before it, and the line with the key.
pub const KEYS: &[(&str, &str, &str, &str)] = &[
    ("[cache]", "memory", CACHE, "memory = \"1 GB\""),
    ("[cache]", "objects", CACHE, "objects = 10"),
    ("[cache]", "object_max", CACHE, "object_max = \"1 MB\""),
    (
        "[cache]",
        "disk",
        CACHE,
        "disk = { path = \"/var/cache/carrick\", size = \"1 GB\" }",
    ),
    (
        "disk = { }",
        "path",
        CACHE,
        "[cache.disk]\nsize = \"1 GB\"\npath = \"/srv/cache\"",
    ),
    (
        "disk = { }",
        "size",
        CACHE,
        "[cache.disk]\npath = \"/srv/cache\"\nsize = \"2 GB\"",
    ),
    (
        "disk = { }",
        "objects",
        CACHE,
        "[cache.disk]\npath = \"/srv/cache\"\nsize = \"1 GB\"\nobjects = 10",
    ),
    (
        "disk = { }",
        "object_max",
        CACHE,
        "[cache.disk]\npath = \"/srv/cache\"\nsize = \"1 GB\"\nobject_max = \"1 MB\"",
    ),
    ("[cache]", "default_ttl", CACHE, "default_ttl = \"1m\""),
    ("[cache]", "negative_ttl", CACHE, "negative_ttl = \"1s\""),
    (
        "[cache]",
        "heuristic_percent",
        CACHE,
        "heuristic_percent = 20",
    ),
    ("[cache]", "heuristic_max", CACHE, "heuristic_max = \"1h\""),
    (
        "[cache]",
        "stale_while_revalidate",
        CACHE,
        "stale_while_revalidate = \"1m\"",
    ),
    (
        "[cache]",
        "stale_if_error",
        CACHE,
        "stale_if_error = \"1h\"",
    ),
    (
        "[cache]",
        "share_set_cookie",
        CACHE,
        "share_set_cookie = true",
    ),
    (
        "[cache]",
        "targeted",
        CACHE,
        "targeted = \"CDN-Cache-Control\"",
    ),
    (
        "[cache]",
        "respect_client_no_cache",
        CACHE,
        "respect_client_no_cache = false",
    ),
    ("[cache]", "ranges_max", CACHE, "ranges_max = 1"),
    (
        "[cache]",
        "quick_abort",
        CACHE,
        "quick_abort = { left = 0 }",
    ),
    ("[cache]", "status", CACHE, "status = false"),
    (
        "quick_abort = { }",
        "left",
        CACHE,
        "[cache.quick_abort]\nleft = 1",
    ),
    (
        "quick_abort = { }",
        "percent",
        CACHE,
        "[cache.quick_abort]\npercent = 0",
    ),
    ("[[listener]]", "cache", FORWARD_CACHE, "cache = false"),
    (
        "[[listener]]",
        "default_ttl",
        FORWARD_CACHE,
        "default_ttl = \"1m\"",
    ),
    (
        "[[listener]]",
        "cache_key",
        FORWARD_CACHE,
        "cache_key = { query = \"none\" }",
    ),
    (
        "[[listener]]",
        "cache_bypass",
        FORWARD_CACHE,
        "cache_bypass = { path = \"/a\" }",
    ),
    (
        "[[listener.route]]",
        "cache",
        "[cache]\n[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n[[listener.route]]\n",
        "upstream = \"u\"\ncache = true",
    ),
    (
        "[[listener.route]]",
        "default_ttl",
        SWITCH_CACHE,
        "default_ttl = \"1m\"",
    ),
    (
        "[[listener.route]]",
        "cache_key",
        SWITCH_CACHE,
        "cache_key = { headers = \"X-Tenant\" }",
    ),
    (
        "[[listener.route]]",
        "cache_bypass",
        SWITCH_CACHE,
        "cache_bypass = [{ cookie = \"c\" }, { cgi = true }]",
    ),
    ("[[listener]]", "prefetch", FORWARD_CACHE, "prefetch = true"),
    (
        "[[listener.route]]",
        "prefetch",
        SWITCH_CACHE,
        "prefetch = { }",
    ),
    (
        "prefetch = { }",
        "hosts",
        SWITCH_CACHE,
        "[listener.route.prefetch]\nhosts = \"any\"",
    ),
    (
        "prefetch = { }",
        "objects",
        SWITCH_CACHE,
        "[listener.route.prefetch]\nobjects = 7",
    ),
    (
        "prefetch = { }",
        "object_max",
        SWITCH_CACHE,
        "[listener.route.prefetch]\nobject_max = \"2 KB\"",
    ),
    (
        "prefetch = { }",
        "page_max",
        SWITCH_CACHE,
        "[listener.route.prefetch]\npage_max = \"2 KB\"",
    ),
    (
        "prefetch = { }",
        "look",
        SWITCH_CACHE,
        "[listener.route.prefetch]\nlook = \"2 KB\"",
    ),
    (
        "prefetch = { }",
        "at_once",
        SWITCH_CACHE,
        "[listener.route.prefetch]\nat_once = 7",
    ),
    (
        "prefetch = { }",
        "worker_at_once",
        SWITCH_CACHE,
        "[listener.route.prefetch]\nworker_at_once = 7",
    ),
    (
        "cache_key = { }",
        "query",
        SWITCH_CACHE,
        "[listener.route.cache_key]\nquery = [\"a\"]",
    ),
    (
        "cache_key = { }",
        "headers",
        SWITCH_CACHE,
        "[listener.route.cache_key]\nheaders = \"X-Tenant\"",
    ),
    (
        "cache_bypass = [{ }]",
        "host",
        SWITCH_CACHE,
        "[[listener.route.cache_bypass]]\npath = \"/b\"\nhost = \"a.example\"",
    ),
    (
        "cache_bypass = [{ }]",
        "path",
        SWITCH_CACHE,
        "[[listener.route.cache_bypass]]\ncgi = true\npath = \"/a\"",
    ),
    (
        "cache_bypass = [{ }]",
        "extension",
        SWITCH_CACHE,
        "[[listener.route.cache_bypass]]\npath = \"/b\"\nextension = \"php\"",
    ),
    (
        "cache_bypass = [{ }]",
        "cookie",
        SWITCH_CACHE,
        "[[listener.route.cache_bypass]]\npath = \"/b\"\ncookie = \"c\"",
    ),
    (
        "cache_bypass = [{ }]",
        "header",
        SWITCH_CACHE,
        "[[listener.route.cache_bypass]]\npath = \"/b\"\nheader = { name = \"a\", value = \"\" }",
    ),
    (
        "cache_bypass = [{ }]",
        "cgi",
        SWITCH_CACHE,
        "[[listener.route.cache_bypass]]\npath = \"/b\"\ncgi = true",
    ),
    (
        "[cache]",
        "peers",
        CACHE,
        "peers = { members = \"10.0.0.1\" }",
    ),
    (
        "peers = { }",
        "members",
        CACHE_PEERS,
        "members = [\"10.0.0.1\", \"10.0.0.2:8080\"]",
    ),
    (
        "peers = { }",
        "self",
        CACHE_PEERS_OF,
        "self = \"10.0.0.1:3128\"",
    ),
    ("peers = { }", "connect", CACHE_PEERS_OF, "connect = \"1s\""),
    ("peers = { }", "answer", CACHE_PEERS_OF, "answer = \"2s\""),
];

/// The same for keys that require the feature `shared-cache`.
pub const OF_SECOND_LEVEL: &[(&str, &str, &str, &str)] = &[
    (
        "[cache]",
        "shared",
        CACHE,
        "shared = { servers = \"10.0.0.1\" }",
    ),
    ("shared = { }", "servers", SHARED, "servers = \"10.0.0.1\""),
    ("shared = { }", "cluster", SHARED_AT, "cluster = true"),
    ("shared = { }", "prefix", SHARED_AT, "prefix = \"other\""),
    ("shared = { }", "timeout", SHARED_AT, "timeout = \"1s\""),
    (
        "shared = { }",
        "object_max",
        SHARED_AT,
        "object_max = \"2 MB\"",
    ),
    (
        "shared = { }",
        "password_file",
        SHARED_AT,
        "password_file = \"users.htpasswd\"",
    ),
    (
        "shared = { }",
        "user",
        SHARED_AT,
        "password_file = \"users.htpasswd\"\nuser = \"carrick\"",
    ),
];
