//! Certificates that are replaced, with a reload and without.
use super::certificates::{
    Key, file, issue, issue_for_client, issue_until, make_authority, make_other_authority,
};
use super::client::{Offers, TlsPeer, pem, presenting, trusting};
use super::{pair, switch_text};
use crate::support::message::field;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server, wait_until};

struct Stage {
    carrick: Carrick,
    text: String,
    place: Place,
}

/// `server.pem` is that in `one.pem`; there is `two.pem`, too.
fn stage() -> Option<Stage> {
    let place = Place::claim();
    if !make_authority(&place) {
        return None;
    }
    for name in ["one", "two"] {
        issue(&place, name, "DNS:a.example", Key::Ec);
    }
    let server = Server::listen(&place);
    let address = server.address();
    std::mem::forget(server.serve(|peer, _| {
        answer_requests(peer, |_| {
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
        });
    }));
    let text = switch_text(&format!("tls = {}", pair("server")), &[address])
        + "[timeouts]\nhead = \"10m\"\ndrain = \"2s\"\n";
    install(&place, "one", "one");
    let carrick = Carrick::start(&place, &text);
    Some(Stage {
        carrick,
        text,
        place,
    })
}

/// Replaces the files, as programs do that renew certificates.
fn install(place: &Place, certificate: &str, key: &str) {
    for (from, to) in [
        (format!("{certificate}.pem"), "server.pem"),
        (format!("{key}.key"), "server.key"),
    ] {
        std::fs::copy(file(place, &from), file(place, "new")).expect("a copy");
        std::fs::rename(file(place, "new"), file(place, to)).expect("a file");
    }
}

impl Stage {
    fn serves(&self, name: &str) -> bool {
        let config = trusting(&self.place, Offers::All);
        let client = TlsPeer::connect(self.carrick.listener(), "a.example", &config);
        client.certificate() == pem(&self.place, &format!("{name}.pem"))[0]
    }
}

#[test]
fn a_reload_brings_a_new_certificate_to_new_connections() {
    let Some(stage) = stage() else { return };
    let config = trusting(&stage.place, Offers::All);
    let mut old = TlsPeer::connect(stage.carrick.listener(), "a.example", &config);
    assert!(stage.serves("one"));
    install(&stage.place, "two", "two");
    stage.carrick.reload_as(&stage.place, &stage.text, "ok");
    assert!(stage.serves("two"));
    // The connection that was there goes on.
    let (_, body) = old.ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(body, "ok");
    // Sessions outlast the reload.
    let again = TlsPeer::connect(stage.carrick.listener(), "a.example", &config);
    assert!(again.is_resumed());
}

#[test]
fn connections_follow_a_reload_that_demands_certificates() {
    const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let Some(stage) = stage() else { return };
    make_other_authority(&stage.place, "other");
    issue_for_client(&stage.place, "ca", "alice", "/CN=alice");
    let with = |keys: &str| {
        let tls = format!("tls = {}", pair("server"));
        let text = stage.text.replace(&tls, &format!("{tls}\n{keys}"));
        stage.carrick.reload_as(&stage.place, &text, "ok");
    };
    let connect = |config| TlsPeer::connect(stage.carrick.listener(), "a.example", &config);
    let mut stranger = connect(trusting(&stage.place, Offers::All));
    assert_eq!(stranger.ask(GET).1, "ok");
    with("client_ca = \"ca.pem\"\nclient_certificate = \"optional\"");
    // As anonymous as before, and for the last time.
    let (head, body) = stranger.ask(GET);
    assert_eq!(
        (body.as_str(), field(&head, "connection").as_deref()),
        ("ok", Some("close"))
    );
    let mut stranger = connect(trusting(&stage.place, Offers::All));
    let mut alice = connect(presenting(&stage.place, "alice"));
    for client in [&mut stranger, &mut alice] {
        assert_eq!(client.ask(GET).1, "ok");
    }
    with("client_ca = \"other.pem\"");
    for client in [&mut stranger, &mut alice] {
        let (head, _) = client.ask(GET);
        assert!(head.starts_with("HTTP/1.1 421 "), "{head}");
    }
}

#[test]
fn a_reload_with_a_wrong_certificate_is_refused() {
    let Some(stage) = stage() else { return };
    install(&stage.place, "two", "one");
    (stage.carrick).reload_as(&stage.place, &stage.text, "failed");
    let said = stage
        .carrick
        .standard_error()
        .wait_for("is not that of the certificate in")
        .expect("a message");
    assert!(said.contains("server.pem:1:1"), "{said}");
    assert!(stage.serves("one"));
}

#[test]
fn files_that_change_are_followed_unless_they_are_wrong() {
    let Some(stage) = stage() else { return };
    let said = stage.carrick.standard_error();
    install(&stage.place, "two", "two");
    said.wait_for("new certificates are in force")
        .expect("a message");
    assert!(stage.serves("two"));
    for (name, text, expected) in [
        (
            "server.pem",
            Some("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"),
            "server.pem:1:1: this certificate cannot be read",
        ),
        ("server.key", None, "server.key cannot be read"),
    ] {
        install(&stage.place, "two", "two");
        wait_until("the right files", || stage.serves("two"));
        match text {
            Some(text) => stage.place.write(name, text),
            None => std::fs::remove_file(file(&stage.place, name)).expect("a file"),
        }
        said.wait_for(expected).expect("a message");
        assert!(stage.serves("two"));
    }
    said.wait_for("the previous certificates stay in force")
        .expect("a message");
    install(&stage.place, "one", "one");
    wait_until("the next certificate", || stage.serves("one"));
}

#[test]
fn files_elsewhere_are_followed_from_inside_the_sandbox() {
    let Some(stage) = stage() else { return };
    let place = &stage.place;
    // As ACME clients do it: a link in one folder to a file in another.
    for folder in ["live", "archive"] {
        std::fs::create_dir(file(place, folder)).expect("a folder");
    }
    let install = |number: usize, name: &str| {
        for kind in ["pem", "key"] {
            let real = format!("archive/{number}.{kind}");
            std::fs::copy(file(place, &format!("{name}.{kind}")), file(place, &real))
                .expect("a copy");
            std::os::unix::fs::symlink(format!("../{real}"), file(place, "live/new"))
                .expect("a link");
            std::fs::rename(
                file(place, "live/new"),
                file(place, &format!("live/{kind}")),
            )
            .expect("a link");
        }
    };
    install(1, "one");
    let text = stage
        .text
        .replace("server.pem", "live/pem")
        .replace("server.key", "live/key");
    stage.carrick.reload_as(place, &text, "ok");
    assert!(stage.serves("one"));
    install(2, "two");
    wait_until("the next certificate", || stage.serves("two"));
}

#[test]
fn the_end_of_a_certificate_is_reported() {
    let Some(stage) = stage() else { return };
    for (name, end, seconds) in [
        ("of_2040", "20400102000000Z", 2_209_075_200.0),
        ("of_2041", "20410102000000Z", 2_240_697_600.0),
    ] {
        issue_until(&stage.place, name, "DNS:b.example,DNS:a.example", end);
        install(&stage.place, name, name);
        let server = file(&stage.place, "server.pem");
        let label = format!("file=\"{}\"", server.display());
        let labels = ["name=\"b.example\"", label.as_str()];
        let metric = "carrick_certificate_expiry_timestamp_seconds";
        stage.carrick.wait_until_metric(metric, &labels, seconds);
        let status = &stage.carrick.status()["certificates"][0];
        assert_eq!(status["file"].as_str(), server.to_str());
        let not_after = status["not_after"].as_str().unwrap_or_default();
        assert!(not_after.starts_with(&name.replace("of_", "")), "{status}");
    }
}
