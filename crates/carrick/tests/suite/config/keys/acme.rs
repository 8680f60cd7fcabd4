//! Keys of certificates by ACME.

const ACME: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\nroute = [{ upstream = \"u\" }]\ntls = { acme = \"a.example.org\" }\n[[listener]]\nlisten = \"127.0.0.1:80\"\nmode = \"switch\"\nredirect_to_https = true\n[acme]\n";
const WITH_KEY: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\nroute = [{ upstream = \"u\" }]\ntls = { acme = \"a.example.org\" }\n[acme.external_account]\nkey = \"../crates/carrick/tests/suite/config/keys/external.key\"\n";
const WITH_ID: &str = "[upstream.u]\nservers = [\"10.0.0.1\"]\n[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\nroute = [{ upstream = \"u\" }]\ntls = { acme = \"a.example.org\" }\n[acme.external_account]\nid = \"a\"\n";

/// A table, one of its keys, the text before it, and the line with the key.
pub(super) const KEYS: &[(&str, &str, &str, &str)] = &[
    ("[acme]", "email", ACME, "email = \"a@example.org\""),
    (
        "[acme]",
        "directory",
        ACME,
        "directory = \"https://ca.example.org/\"",
    ),
    ("[acme]", "storage", ACME, "storage = \"here\""),
    ("[acme]", "ca", ACME, "ca = \"example.pem\""),
    ("[acme]", "challenge", ACME, "challenge = \"tls-alpn-01\""),
    (
        "[acme]",
        "external_account",
        ACME,
        "external_account = { id = \"a\", key = \"../crates/carrick/tests/suite/config/keys/external.key\" }",
    ),
    ("external_account = { }", "id", WITH_KEY, "id = \"a\""),
    (
        "external_account = { }",
        "key",
        WITH_ID,
        "key = \"../crates/carrick/tests/suite/config/keys/external.key\"",
    ),
];
