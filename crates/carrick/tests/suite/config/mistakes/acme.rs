//! Mistakes about certificates by ACME.
use super::Mistake;
use super::Severity::{Error, Note, Warning};

pub const MISTAKES: &[Mistake] = &[
    // Names
    (
        "%[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = { acme = \"*.example.org\" }\nroute = [{ upstream = \"u\" }]",
        Error,
        "\"*.example.org\"",
        "no certificate can be had by ACME",
        "DNS-01",
    ),
    (
        "%[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = \"acme\"\nroute = [{ upstream = \"u\", host = \".example.org\" }]",
        Error,
        "\".example.org\"",
        "no certificate can be had by ACME",
        "name the hosts one by one",
    ),
    (
        "%[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = { acme = [\"example.org\", \"192.0.2.1\"] }\nroute = [{ upstream = \"u\" }]",
        Error,
        "\"192.0.2.1\"",
        "no certificate can be had by ACME",
        "from a file",
    ),
    (
        "%[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = { acme = \"shop.local\" }\nroute = [{ upstream = \"u\" }]",
        Error,
        "\"shop.local\"",
        "no certificate can be had by ACME",
        "`ca` of an authority of your own",
    ),
    (
        "%[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = \"acme\"\nroute = [{ upstream = \"u\" }]",
        Error,
        "\"acme\"",
        "no route says for which name",
        "tls = { acme = [\"example.org\"] }",
    ),
    (
        "%[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = { acme = [] }\nroute = [{ upstream = \"u\" }]",
        Error,
        "[]",
        "there is no name",
        "example.org",
    ),
    (
        "%[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = { acme = \"example.org\", key = \"example.pem\" }\nroute = [{ upstream = \"u\" }]",
        Error,
        "key",
        "has no files of yours",
        "a list of both kinds",
    ),
    (
        "%[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = \"letsencrypt\"\nroute = [{ upstream = \"u\" }]",
        Error,
        "\"letsencrypt\"",
        "`tls` cannot be",
        "tls = \"acme\"",
    ),
    (
        "%[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = { key = \"example.pem\" }\nroute = [{ upstream = \"u\" }]",
        Error,
        "{ key = \"example.pem\" }",
        "`certificate` is missing here",
        "acme",
    ),
    // The authority
    (
        "§[acme]\ndirectory = \"http://ca.example.org/\"",
        Error,
        "\"http://ca.example.org/\"",
        "not the URL of an ACME directory",
        "https://",
    ),
    (
        "§[acme]\nemail = \"webmaster\"",
        Error,
        "\"webmaster\"",
        "not an address",
        "webmaster@example.org",
    ),
    (
        "§[acme]\nca = \"none.pem\"",
        Error,
        "\"none.pem\"",
        "cannot be read",
        "",
    ),
    (
        "§[acme]\nexternal_account = { id = \"a\", key = \"example.pem\" }",
        Error,
        "\"example.pem\"",
        "no key in Base64url",
        "HMAC key",
    ),
    (
        "§[acme]\nemail = \"a@example.org\"",
        Warning,
        "acme",
        "no listener has certificates by ACME",
        "tls = \"acme\"",
    ),
    // Challenges
    (
        "[upstream.u]\nservers = [\"10.0.0.1\"]\n[acme]\nchallenge = \"http-01\"\n[[listener]]\nlisten = \"127.0.0.1:443\"\nmode = \"switch\"\ntls = { acme = \"example.org\" }\nroute = [{ upstream = \"u\" }]",
        Error,
        "\"http-01\"",
        "no listener can answer",
        "redirect_to_https = true",
    ),
    (
        "[upstream.u]\nservers = [\"10.0.0.1\"]\n[acme]\nchallenge = \"tls-alpn-01\"\n[[listener]]\nlisten = \"127.0.0.1:8443\"\nmode = \"switch\"\ntls = { acme = \"example.org\" }\nroute = [{ upstream = \"u\" }]",
        Note,
        "\"tls-alpn-01\"",
        "port 80 or 443",
        "forward one of them",
    ),
];
