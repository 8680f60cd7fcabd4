//! Which certificate a client gets, and what is said of those that cannot be used.
use super::certificates::{Key, certified, file, issue, make_authority};
use super::client::{Offers, TlsPeer, pem, trusting, with_groups};
use super::{pair, switch_text};
use crate::clients::tool::Tool;
use crate::support::carrick::PROGRAM;
use crate::support::carrick::upstream_text;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Peer, Place, Server};
use rustls::{ClientConfig, NamedGroup};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

/// The name of the file whose certificate openssl gets with these words.
fn got(place: &Place, carrick: &Carrick, words: &str, files: &[&str]) -> String {
    let text = Tool::new("openssl", place)
        .words(&format!(
            "s_client -connect {} -showcerts {words}",
            carrick.listener()
        ))
        .expect();
    let certificate = |name: &&&str| {
        let text_of = std::fs::read_to_string(file(place, &format!("{name}.pem"))).expect("a file");
        text.contains(text_of.trim())
    };
    files
        .iter()
        .find(certificate)
        .map_or_else(|| text.clone(), |name| (*name).to_owned())
}

#[test]
fn the_server_name_decides_and_wildcards_are_one_label() {
    let place = Place::claim();
    if !make_authority(&place) {
        return;
    }
    issue(&place, "first", "DNS:first.example", Key::Ec);
    issue(&place, "exact", "DNS:a.example,DNS:A2.example", Key::Ec);
    issue(&place, "wild", "DNS:*.example", Key::Ec);
    let files = ["first", "exact", "wild"];
    let tls = format!(
        "tls = [{}, {}, {}]",
        pair("first"),
        pair("exact"),
        pair("wild")
    );
    let carrick = Carrick::start(&place, &switch_text(&tls, &[place.at(1)]));
    for (name, expected) in [
        ("-servername a.example", "exact"),
        ("-servername A.EXAMPLE", "exact"),
        ("-servername a2.example", "exact"),
        ("-servername a.example.", "exact"),
        ("-servername b.example", "wild"),
        ("-servername first.example", "first"),
        ("-servername c.b.example", "first"),
        ("-servername example", "first"),
        ("-servername other.test", "first"),
        ("-noservername", "first"),
    ] {
        assert_eq!(got(&place, &carrick, name, &files), expected, "{name}");
    }
}

/// A switch that has `site.example` itself, and passes everything below `mail.example` on to a switch of its own.
fn passing_text(place: &Place, server: SocketAddr) -> String {
    const INNER_PORT: u16 = 18443;
    let inner = (place.ip(), INNER_PORT).into();
    let by_name = "[[listener.route]]\nsni = \"*.mail.example\"\nupstream = \"inner\"\n";
    format!(
        "{}[[listener]]\nlisten = \"{inner}\"\nmode = \"switch\"\ntls = {}\n[[listener.route]]\nupstream = \"u\"\n{}",
        switch_text(&format!("tls = {}", pair("site")), &[server])
            .replace("[upstream.u]", &format!("{by_name}[upstream.u]")),
        pair("mail"),
        upstream_text("inner", &[inner]),
    )
}

#[test]
fn names_of_routes_pass_undecrypted_and_others_end_here() {
    let place = Place::claim();
    if !make_authority(&place) {
        return;
    }
    issue(&place, "site", "DNS:site.example", Key::Ec);
    issue(&place, "mail", "DNS:*.mail.example", Key::Ec);
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| {
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
        });
    });
    let carrick = Carrick::start(&place, &passing_text(&place, server.address()));
    for (words, expected) in [
        ("-servername a.mail.example", "mail"),
        ("-servername A.MAIL.example -tls1_2", "mail"),
        ("-servername mail.example", "site"),
        ("-servername site.example", "site"),
        ("-noservername", "site"),
    ] {
        let presented = got(&place, &carrick, words, &["site", "mail"]);
        assert_eq!(presented, expected, "{words}");
    }
    let config = trusting(&place, Offers::All);
    for (name, path) in [
        ("a.mail.example", "/passed"),
        ("site.example", "/decrypted"),
    ] {
        let mut client = TlsPeer::connect(carrick.listener(), name, &config);
        let (head, body) = client.ask(&format!("GET {path} HTTP/1.1\r\nHost: {name}\r\n\r\n"));
        assert!(head.starts_with("HTTP/1.1 200 "), "{name}: {head}");
        assert_eq!(body, "ok", "{name}");
    }
    // As clients of HTTP/2 do where one certificate has both names.
    let mut client = TlsPeer::connect(carrick.listener(), "site.example", &config);
    let (head, _) = client.ask("GET / HTTP/1.1\r\nHost: A.mail.example:443\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 421 "), "{head}");
    // Nor is a connection for no name the right one.
    let mut nameless = ClientConfig::clone(&config);
    nameless.enable_sni = false;
    let mut client = TlsPeer::connect(carrick.listener(), "site.example", &Arc::new(nameless));
    let (head, _) = client.ask("GET / HTTP/1.1\r\nHost: a.mail.example\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 421 "), "{head}");
    let mut plain = Peer::connect(carrick.listener());
    plain.send("GET / HTTP/1.1\r\nHost: a.mail.example\r\n\r\n");
    assert!(plain.read_head().starts_with("HTTP/1.1 400 "));
    let passed = carrick.metric("carrick_tunnels_total", &["mode=\"switch\""]);
    assert!((passed - 3.0).abs() < 0.5, "{passed} connections");
}

#[test]
fn a_connection_without_a_name_in_time_is_not_kept() {
    let place = Place::claim();
    if !make_authority(&place) {
        return;
    }
    issue(&place, "site", "DNS:site.example", Key::Ec);
    issue(&place, "mail", "DNS:*.mail.example", Key::Ec);
    let text = "[timeouts]\nhead = \"200ms\"\n".to_owned() + &passing_text(&place, place.at(1));
    let carrick = Carrick::start(&place, &text);
    for beginning in ["", "\u{16}\u{3}\u{1}"] {
        let mut client = Peer::connect(carrick.listener());
        client.send(beginning);
        client.expect_end();
    }
    carrick.wait_for_metric("carrick_tls_handshakes_total", &["result=\"timeout\""], 2.0);
}

#[test]
fn clients_get_the_kind_of_certificate_that_they_understand() {
    let place = Place::claim();
    if !make_authority(&place) {
        return;
    }
    issue(&place, "rsa", "DNS:a.example", Key::Rsa);
    issue(&place, "ec", "DNS:a.example", Key::Ec);
    let tls = format!("tls = [{}, {}]", pair("rsa"), pair("ec"));
    let carrick = Carrick::start(&place, &switch_text(&tls, &[place.at(1)]));
    for (words, expected) in [
        ("-servername a.example", "ec"),
        (
            "-servername a.example -tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256",
            "rsa",
        ),
        (
            "-servername a.example -tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256",
            "ec",
        ),
        (
            "-servername a.example -tls1_3 -sigalgs RSA-PSS+SHA256",
            "rsa",
        ),
        ("-noservername -tls1_3 -sigalgs RSA-PSS+SHA256", "rsa"),
        ("-noservername", "ec"),
    ] {
        assert_eq!(
            got(&place, &carrick, words, &["rsa", "ec"]),
            expected,
            "{words}"
        );
    }
}

#[test]
fn keys_are_read_in_all_forms_and_chains_are_sent() {
    let place = Place::claim();
    if !make_authority(&place) {
        return;
    }
    issue(&place, "ec", "DNS:ec.example", Key::Ec);
    issue(&place, "p521", "DNS:p521.example", Key::Ec521);
    issue(&place, "rsa", "DNS:rsa.example", Key::Rsa);
    for words in [
        "ec -in ec.key -out ec.sec1",
        "rsa -in rsa.key -traditional -out rsa.pkcs1",
    ] {
        Tool::new("openssl", &place).words(words).expect();
    }
    let text = |name| std::fs::read_to_string(file(&place, name)).expect("a file");
    // Everything in one file, with the authority as the chain.
    place.write(
        "all.pem",
        &format!("{}{}{}", text("ec.pem"), text("ca.pem"), text("ec.sec1")),
    );
    let tls = format!(
        "tls = [{{ certificate = \"all.pem\" }}, {{ certificate = \"rsa.pem\", key = \"rsa.pkcs1\" }}, {}]",
        pair("p521")
    );
    let carrick = Carrick::start(&place, &switch_text(&tls, &[place.at(1)]));
    let config = trusting(&place, Offers::All);
    for (name, file) in [
        ("ec.example", "ec.pem"),
        ("p521.example", "p521.pem"),
        ("rsa.example", "rsa.pem"),
    ] {
        let client = TlsPeer::connect(carrick.listener(), name, &config);
        assert_eq!(client.certificate(), pem(&place, file)[0], "{name}");
    }
    let shown = Tool::new("openssl", &place)
        .words(&format!(
            "s_client -connect {} -showcerts -servername ec.example",
            carrick.listener()
        ))
        .expect();
    assert_eq!(shown.matches("BEGIN CERTIFICATE").count(), 2, "{shown}");
}

#[test]
fn keys_are_exchanged_post_quantum_with_clients_that_prefer_that() {
    let Some(place) = certified() else { return };
    let text = switch_text(&format!("tls = {}", pair("server")), &[place.at(1)]);
    let carrick = Carrick::start(&place, &text);
    let exchange =
        |config| TlsPeer::connect(carrick.listener(), "a.example", &config).key_exchange();
    assert_eq!(
        exchange(trusting(&place, Offers::All)),
        Some(NamedGroup::X25519MLKEM768)
    );
    let classic_first = [NamedGroup::X25519, NamedGroup::X25519MLKEM768];
    assert_eq!(
        exchange(with_groups(&place, &classic_first)),
        Some(NamedGroup::X25519)
    );
    for group in [
        NamedGroup::X25519,
        NamedGroup::secp256r1,
        NamedGroup::secp384r1,
        NamedGroup::X25519MLKEM768,
    ] {
        assert_eq!(exchange(with_groups(&place, &[group])), Some(group));
    }
}

#[test]
fn versions_can_be_limited() {
    let Some(place) = certified() else { return };
    for (keys, is_1_2_served) in [("", true), ("tls_minimum = \"1.3\"\n", false)] {
        let text = switch_text(&format!("tls = {}\n{keys}", pair("server")), &[place.at(1)]);
        let carrick = Carrick::start(&place, &text);
        let connect = |offers| {
            let config = trusting(&place, offers);
            TlsPeer::try_connect(carrick.listener(), "a.example", &config).is_ok()
        };
        assert_eq!(connect(Offers::Tls12), is_1_2_served);
        assert!(connect(Offers::Tls13));
        if !is_1_2_served {
            carrick.wait_for_metric(
                "carrick_tls_handshakes_total",
                &["result=\"incompatible\""],
                1.0,
            );
        }
    }
}

/// What `carrick check` says of this listener.
fn check(place: &Place, tls: &str) -> String {
    let text = switch_text(tls, &[place.at(1)]).replace("{ip}", "127.0.0.1");
    place.write("check.toml", &text);
    let out = Command::new(PROGRAM)
        .args(["check", "-c", "check.toml"])
        .current_dir(place.directory())
        .output()
        .expect("the program");
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

#[test]
fn what_is_wrong_is_said_with_its_file_and_line() {
    let Some(place) = certified() else { return };
    issue(&place, "other", "DNS:b.example", Key::Ec);
    let text = |name| std::fs::read_to_string(file(&place, name)).expect("a file");
    let pem = text("server.pem");
    let secret = text("server.key").lines().nth(1).unwrap().to_owned();
    place.write("empty.pem", "");
    place.write(
        "broken.pem",
        &format!("# a comment\n{}", pem.replacen("MII", "M!!", 1)),
    );
    place.write("no-end.pem", pem.split("-----END").next().unwrap());
    place.write(
        "garbage.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    place.write("reversed.pem", &format!("{}{pem}", text("ca.pem")));
    place.write("two.key", &format!("{0}{0}", text("server.key")));
    place.write("empty.der", "");
    Tool::new("openssl", &place)
        .words("pkey -in server.key -aes256 -passout pass:secret -out locked.key")
        .expect();
    Tool::new("openssl", &place)
        .words("x509 -in server.pem -outform der -out server.der")
        .expect();
    for (certificate, key, expected) in [
        (
            "absent.pem",
            "server.key",
            vec!["absent.pem cannot be read: No such file"],
        ),
        (
            "server.pem",
            "absent.key",
            vec!["absent.key cannot be read: No such file"],
        ),
        (
            "empty.pem",
            "server.key",
            vec!["empty.pem is not a PEM file"],
        ),
        (
            "server.der",
            "server.key",
            vec!["server.der is not a PEM file", "-inform DER"],
        ),
        (
            "server.key",
            "server.key",
            vec!["server.key has no certificate"],
        ),
        (
            "server.pem",
            "server.pem",
            vec!["server.pem has no private key"],
        ),
        (
            "broken.pem",
            "server.key",
            vec!["not Base64", "broken.pem:2:1"],
        ),
        (
            "no-end.pem",
            "server.key",
            vec!["END line is missing", "no-end.pem:1:1"],
        ),
        (
            "garbage.pem",
            "server.key",
            vec!["this certificate cannot be read", "garbage.pem:1:1"],
        ),
        (
            "server.pem",
            "other.key",
            vec![
                "other.key is not that of the certificate in",
                "server.pem:1:1",
            ],
        ),
        (
            "reversed.pem",
            "server.key",
            vec!["must be the first in its file", "reversed.pem:1:1"],
        ),
        (
            "server.pem",
            "two.key",
            vec!["a second private key", "two.key:6:1"],
        ),
        (
            "server.pem",
            "locked.key",
            vec!["encrypted with a password", "locked.key:1:1"],
        ),
    ] {
        let said = check(
            &place,
            &format!("tls = {{ certificate = \"{certificate}\", key = \"{key}\" }}"),
        );
        for part in expected {
            assert!(
                said.contains(part),
                "{certificate} {key}: no {part:?} in {said}"
            );
        }
        assert!(!said.contains(&secret), "{said}");
    }
    for (keys, expected) in [
        ("tls = []", "there is no certificate"),
        (
            "tls_minimum = \"1.3\"",
            "`tls_minimum` means nothing without `tls`",
        ),
        ("hsts = \"1h\"", "`hsts` means nothing without `tls`"),
        (
            "client_ca = \"ca.pem\"",
            "`client_ca` means nothing without `tls`",
        ),
        (
            "tls = { certificate = \"server.pem\", key = \"server.key\" }\nclient_certificate = \"optional\"",
            "who issues",
        ),
        (
            "tls = { certificate = \"server.pem\", key = \"server.key\" }\nclient_ca = \"server.key\"",
            "server.key has no certificate",
        ),
        (
            "tls = { certificate = \"server.pem\", key = \"server.key\" }\nclient_crl = \"server.pem\"",
            "`client_crl` means nothing without `client_ca`",
        ),
        (
            "tls = { certificate = \"server.pem\", key = \"server.key\" }\nclient_ca = \"server.pem\"\nclient_crl = \"server.pem\"",
            "server.pem has no revocation list",
        ),
        (
            "tls = { certificate = \"server.pem\", key = \"server.key\", ocsp = \"empty.der\" }",
            "no successful OCSP response",
        ),
        (
            "tls = { certificate = \"server.pem\", key = \"server.key\" }\nhsts = \"long\"",
            "max-age=",
        ),
        (
            "tls = { certificate = \"server.pem\", key = \"server.key\" }\nredirect_to_https = true",
            "come by HTTPS already",
        ),
        ("redirect_to_https = 70000", "redirect_to_https"),
        (
            "tls = { certificate = \"server.pem\", key = \"server.key\" }\n[[listener.route]]\nsni = \"a.example\"\npath = \"/\"\nupstream = \"u\"",
            "a route with `sni` does not read requests, so `path` is not possible",
        ),
        (
            "tls = { certificate = \"server.pem\", key = \"server.key\" }\n[[listener.route]]\nsni = \"a.example\"\nrequests = \"kernel\"\nupstream = \"u\"",
            "are passed on undecrypted",
        ),
    ] {
        let said = check(&place, keys);
        assert!(said.contains(expected), "{keys}: no {expected:?} in {said}");
    }
    let keys = "tls = { certificate = \"server.pem\", key = \"server.key\" }\nclient_ca = \"server.pem\"\nclient_crl = \"server.pem\"";
    let said = check(&place, keys);
    // Where the list is named, not where the authorities are.
    assert!(said.contains("client_crl = \"server.pem\""), "{said}");
    assert!(!said.contains("client_ca ="), "{said}");
}
