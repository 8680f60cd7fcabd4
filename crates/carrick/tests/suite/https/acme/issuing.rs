//! Certificates are issued, kept, renewed and shared.
use super::pebble::{HTTP_PORT, directory, failed};
use super::*;
use crate::support::Peer;
use crate::support::place::LISTENER_PORT;
use std::os::unix::fs::PermissionsExt;
use x509_cert::Certificate;
use x509_cert::der::Decode;

#[test]
fn a_name_is_answered_for_by_http_before_redirects() {
    let place = Place::claim();
    let Some(_pebble) = Pebble::start(&place, place.ip(), Manner::default()) else {
        return;
    };
    let text = site_text(&place, "challenge = \"http-01\"\nemail = \"a@example.org\"");
    let carrick = Carrick::start(&place, &text);
    wait_for_issued(&carrick, 1.0);
    wait_until("it is in force", || {
        served(&place, carrick.listener()) == Some(kept(&place))
    });
    let config = trusting(&place, Offers::All);
    let mut client = TlsPeer::connect(carrick.listener(), NAME, &config);
    let (_, body) = client.ask("GET / HTTP/1.1\r\nHost: site.test\r\n\r\n");
    assert_eq!(body, "ok");
    // What is not asked for by the authority goes where everything goes.
    for token in ["", "unknown", "..%2f..%2fsite.test.pem", "../site.test.pem"] {
        let mut client = Peer::connect(place.at(HTTP_PORT));
        let path = format!("/.well-known/acme-challenge/{token}");
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {NAME}\r\n\r\n"));
        assert_eq!(client.read_response("GET").status, 301, "{token}");
    }
    for (path, rights) in [
        (folder(&place), 0o700),
        (folder(&place).join("site.test.pem"), 0o600),
        (folder(&place).join("account.json"), 0o600),
        (folder(&place).join("challenges"), 0o700),
    ] {
        let found = path.metadata().expect("a file").permissions().mode();
        assert_eq!(found & 0o777, rights, "{}", path.display());
    }
    let answers = std::fs::read_dir(folder(&place).join("challenges")).expect("a folder");
    assert_eq!(answers.count(), 0);
    let expiry = carrick.metric(
        "carrick_certificate_expiry_timestamp_seconds",
        &["name=\"site.test\""],
    );
    assert!(expiry > 0.0);
    let status = &carrick.status()["certificates"][0];
    assert_eq!(status["name"], NAME);
    assert!(
        status["not_after"].is_string() && status["error"].is_null(),
        "{status}"
    );
    assert_eq!(failed(&carrick), 0.0);
}

#[test]
fn a_name_is_answered_for_by_tls_where_there_is_no_http() {
    let place = Place::claim();
    let Some(_pebble) = Pebble::start(&place, place.ip(), Manner::default()) else {
        return;
    };
    let text = super::super::switch_text("tls = \"acme\"", &[server(&place)]);
    let text = text.replace(
        "[[listener.route]]\n",
        "[[listener.route]]\nhost = \"site.test\"\n",
    );
    let carrick = Carrick::start(&place, &(acme_text(&place, "") + &text));
    wait_for_issued(&carrick, 1.0);
    wait_until("it is in force", || {
        served(&place, carrick.listener()) == Some(kept(&place))
    });
    let handshakes = carrick.metric("carrick_tls_handshakes_total", &["result=\"challenge\""]);
    assert!(handshakes >= 1.0);
    // Whoever offers the authority's protocol afterwards gets nothing.
    let mut config = std::sync::Arc::unwrap_or_clone(trusting(&place, Offers::All));
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let refused = TlsPeer::try_connect(carrick.listener(), NAME, &config.into());
    assert!(refused.is_err());
}

#[test]
fn an_authority_that_refuses_every_other_nonce_and_binds_accounts_is_borne() {
    let place = Place::claim();
    let manner = Manner {
        nonces_refused: 50,
        binds_accounts: true,
        ..Manner::default()
    };
    let Some(_pebble) = Pebble::start(&place, place.ip(), manner) else {
        return;
    };
    let keys = "external_account = { id = \"kid-1\", key = \"external.key\" }";
    let carrick = Carrick::start(&place, &site_text(&place, keys));
    wait_for_issued(&carrick, 1.0);
    assert_eq!(failed(&carrick), 0.0);
    wait_until("it is in force", || {
        served(&place, carrick.listener()) == Some(kept(&place))
    });
}

#[test]
fn a_certificate_is_renewed_before_it_ends() {
    // A third of it is left at the renewal: time that a busy machine may need.
    for validity_seconds in [18, 90, 600] {
        let place = Place::claim();
        let manner = Manner {
            validity_seconds,
            ..Manner::default()
        };
        let Some(_pebble) = Pebble::start(&place, place.ip(), manner) else {
            return;
        };
        let carrick = Carrick::start(&place, &site_text(&place, ""));
        wait_for_issued(&carrick, 1.0);
        let first = wait_for("a certificate", || served(&place, carrick.listener()));
        wait_for_issued(&carrick, 2.0);
        let second = wait_for("another one", || {
            served(&place, carrick.listener()).filter(|second| *second != first)
        });
        let [first, second] = [first, second].map(|der| Certificate::from_der(&der).expect("DER"));
        let validity = |one: &Certificate| *one.tbs_certificate().validity();
        let end = validity(&first).not_after.to_system_time();
        let is_in_time = validity(&second).not_before.to_system_time() < end;
        if is_in_time && failed(&carrick) < 0.5 {
            return;
        }
    }
    panic!("too late each time");
}

#[test]
fn a_restart_keeps_account_and_certificate() {
    let place = Place::claim();
    let Some(_pebble) = Pebble::start(&place, place.ip(), Manner::default()) else {
        return;
    };
    let text = site_text(&place, "");
    let carrick = Carrick::start(&place, &text);
    wait_for_issued(&carrick, 1.0);
    let read = || {
        let files = ["account.json", "site.test.pem"].map(|name| folder(&place).join(name));
        files.map(|file| std::fs::read(file).expect("a file"))
    };
    let before = read();
    carrick.stop();
    let carrick = Carrick::start(&place, &text);
    // It is there at once.
    assert_eq!(served(&place, carrick.listener()), Some(kept(&place)));
    wait_until("the first look", || {
        carrick.status()["certificates"][0]["next_order"].is_string()
    });
    assert_eq!(carrick.metric("carrick_acme_orders_total", &[]), 0.0);
    assert!(read() == before);
}

#[test]
fn two_processes_order_once() {
    let [place, other] = [Place::claim(), Place::claim()];
    let Some(_pebble) = Pebble::start(&place, place.ip(), Manner::default()) else {
        return;
    };
    let text = site_text(&place, "");
    // Its listeners are elsewhere, but what is kept is the same.
    let shared = |path: &str| place.directory().join(path).display().to_string();
    let other_text = text
        .replace("kept/acme", &shared("kept/acme"))
        .replace("directory.pem", &shared("directory.pem"));
    assert!(other_text.contains(&directory(&place)));
    let both = [
        Carrick::spawn(&place, &text),
        Carrick::spawn(&other, &other_text),
    ];
    for carrick in &both {
        carrick
            .standard_error()
            .wait_for(" is ready\n")
            .expect("a start");
    }
    wait_until("one certificate in both", || {
        let served = both
            .each_ref()
            .map(|carrick| served(&place, carrick.listener()));
        served[0].is_some() && served[0] == served[1]
    });
    let orders = both
        .each_ref()
        .map(|carrick| carrick.metric("carrick_acme_orders_total", &[]));
    assert_eq!(orders[0] + orders[1], 1.0, "{orders:?}");
    assert_eq!(both[1].listener(), other.at(LISTENER_PORT));
}
