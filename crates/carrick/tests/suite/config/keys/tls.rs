//! Keys of TLS, and of the way to it.
use crate::config::parse_right;

const TLS: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8443\"\nmode = \"switch\"\nroute = [{ upstream = \"u\" }]\ntls = { certificate = \"example.pem\" }\n";
const CERTIFICATE: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:8443\"\nmode = \"switch\"\nroute = [{ upstream = \"u\" }]\n[listener.tls]\n";
const PLAIN: &str = "[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n";

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
    (
        "tls = { }",
        "ocsp",
        CERTIFICATE,
        "certificate = \"example.pem\"\nocsp = \"../crates/carrick/tests/suite/config/keys/ocsp.der\"",
    ),
];

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
