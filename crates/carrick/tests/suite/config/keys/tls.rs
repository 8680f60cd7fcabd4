//! Keys of TLS, and of the way to it.
use crate::config::parse_right;

const TLS: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8443\"\nmode = \"switch\"\nroute = [{ upstream = \"u\" }]\ntls = { certificate = \"example.pem\" }\n";
const CERTIFICATE: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8443\"\nmode = \"switch\"\nroute = [{ upstream = \"u\" }]\n[listener.tls]\n";
const PLAIN: &str = "[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n";

const UPSTREAM_WITH_SERVER: &str = "[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\nroute = [{ upstream = \"u\" }]\n[upstream.u]\nservers = [\"10.0.0.1\"]\n";
const TO_SERVERS: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\nroute = [{ upstream = \"u\" }]\n[upstream.u.tls]\n";
const PARENT: &str =
    "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n[listener.parent]\n";

/// A table, one of its keys, the text before it, and the line with the key.
pub(super) const KEYS: &[(&str, &str, &str, &str)] = &[
    (
        "[[listener]]",
        "tls",
        "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n",
        "tls = { certificate = \"example.pem\" }",
    ),
    ("[[listener]]", "tls_minimum", TLS, "tls_minimum = \"1.3\""),
    (
        "[[listener]]",
        "client_ca",
        TLS,
        "client_ca = \"example.pem\"",
    ),
    (
        "[[listener]]",
        "client_crl",
        TLS,
        "client_ca = \"example.pem\"\nclient_crl = \"../crates/carrick/tests/suite/config/keys/crl.pem\"",
    ),
    (
        "[[listener]]",
        "client_certificate",
        TLS,
        "client_ca = \"example.pem\"\nclient_certificate = \"optional\"",
    ),
    ("[[listener]]", "http2", TLS, "http2 = false"),
    ("[[listener]]", "hsts", TLS, "hsts = \"1day\""),
    (
        "[[listener]]",
        "redirect_to_https",
        PLAIN,
        "redirect_to_https = 8443",
    ),
    (
        "tls = { }",
        "certificate",
        CERTIFICATE,
        "certificate = \"example.pem\"",
    ),
    (
        "tls = { }",
        "key",
        CERTIFICATE,
        "certificate = \"example.pem\"\nkey = \"../config/example.pem\"",
    ),
    ("tls = { }", "acme", CERTIFICATE, "acme = \"a.example.org\""),
    (
        "tls = { }",
        "ocsp",
        CERTIFICATE,
        "certificate = \"example.pem\"\nocsp = \"../crates/carrick/tests/suite/config/keys/ocsp.der\"",
    ),
    (
        "[upstream.NAME]",
        "tls",
        UPSTREAM_WITH_SERVER,
        "tls = { insecure = true }",
    ),
    (
        "parent = { }",
        "tls",
        PARENT,
        "proxy = \"10.0.0.1\"\ntls = { ca = \"example.pem\" }",
    ),
    (
        "tls = { } of servers",
        "ca",
        TO_SERVERS,
        "ca = \"example.pem\"",
    ),
    (
        "tls = { } of servers",
        "crl",
        TO_SERVERS,
        "ca = \"example.pem\"\ncrl = \"../crates/carrick/tests/suite/config/keys/crl.pem\"",
    ),
    (
        "tls = { } of servers",
        "server_name",
        TO_SERVERS,
        "ca = \"example.pem\"\nserver_name = \"a.example\"",
    ),
    (
        "tls = { } of servers",
        "certificate",
        TO_SERVERS,
        "ca = \"example.pem\"\ncertificate = \"example.pem\"",
    ),
    (
        "tls = { } of servers",
        "key",
        TO_SERVERS,
        "ca = \"example.pem\"\ncertificate = \"example.pem\"\nkey = \"../config/example.pem\"",
    ),
    (
        "tls = { } of servers",
        "minimum",
        TO_SERVERS,
        "ca = \"example.pem\"\nminimum = \"1.3\"",
    ),
    (
        "tls = { } of servers",
        "insecure",
        TO_SERVERS,
        "insecure = true",
    ),
];

#[test]
fn servers_of_tls_have_its_port_and_are_copied_to() {
    let loaded = parse_right(&format!("{TO_SERVERS}ca = \"example.pem\""));
    assert_eq!(loaded.problems.len(), 0, "{:?}", loaded.problems);
    let plan = loaded.plan;
    assert_eq!(
        plan.upstreams[0].servers[0].address.to_string(),
        "10.0.0.1:443"
    );
    let route = &plan.listeners[0].mode.routes()[0];
    assert_eq!(route.engine, carrick_splice::Choice::Copy);
    let why = route.not_in_kernel.as_deref().unwrap_or_default();
    assert!(why.contains("encrypts for the servers"), "{why}");
    let named = TO_SERVERS.replace(
        "upstream = \"u\" }",
        "upstream = \"u\", engine = \"packet\" }",
    );
    let loaded = parse_right(&format!("{named}ca = \"example.pem\""));
    assert_eq!(loaded.problems.len(), 1, "{:?}", loaded.problems);
}

#[test]
fn an_engine_that_never_has_the_connections_is_a_warning() {
    let warnings = |lines: &str| {
        let loaded = parse_right(&format!("{TLS}{lines}"));
        loaded.problems.len()
    };
    let without = warnings("");
    for engine in ["packet", "pipe", "socket"] {
        assert_eq!(warnings(&format!("engine = \"{engine}\"")), without + 1);
    }
    assert_eq!(warnings("engine = \"copy\""), without);
}
