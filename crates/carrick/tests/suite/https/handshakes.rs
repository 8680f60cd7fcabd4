//! Handshakes: resumption, those that stall, break off or are none, certificates of clients, and stapled OCSP responses.
use super::certificates::{
    Key, certified, issue, issue_for_client, make_old_authority, make_other_authority, number,
};
use super::client::{Offers, TlsPeer, presenting, trusting};
use super::{pair, start, switch_text};
use crate::clients::tool::Tool;
use crate::support::carrick::FORWARD_TEXT;
use crate::support::message::field;
use crate::support::server::answer_requests;
use crate::support::tls::client_hello;
use crate::support::{Carrick, Peer, Place, Server, random};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const HANDSHAKES: &str = "carrick_tls_handshakes_total";
const ASK: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// A server that answers with a field of the request.
fn echo(place: &Place, name: &'static str) -> crate::support::server::Serving {
    Server::listen(place).serve(move |peer, _| {
        answer_requests(peer, |head| {
            let value = field(head, name).unwrap_or_else(|| "none".to_owned());
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{value}",
                value.len()
            )
            .into_bytes()
        });
    })
}

#[test]
fn sessions_are_resumed_by_every_worker_and_logged() {
    let Some(place) = certified() else { return };
    let server = echo(&place, "host");
    let carrick = start(&place, &[server.address()]);
    for (offers, version) in [(Offers::Tls13, "TLSv1.3"), (Offers::Tls12, "TLSv1.2")] {
        let config = trusting(&place, offers);
        // The kernel spreads connections over both workers.
        for number in 0..12 {
            let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
            client.ask(ASK);
            assert_eq!(client.is_resumed(), number > 0, "{version} {number}");
        }
        let lines = carrick.access_log(12);
        let line = &lines[lines.len() - 1];
        let tls = line.value("tls");
        assert_eq!(tls["version"], version, "{line:?}");
        assert_eq!(
            (&tls["sni"], &tls["resumed"]),
            (&"a.example".into(), &true.into())
        );
        assert!(
            tls["cipher"]
                .as_str()
                .is_some_and(|cipher| cipher.starts_with("TLS")),
            "{line:?}"
        );
        std::fs::write(
            place.directory().join(crate::support::carrick::ACCESS_LOG),
            "",
        )
        .expect("a log");
    }
    for (result, count) in [("full", 2.0), ("resumed", 22.0)] {
        let label = format!("result=\"{result}\"");
        carrick.wait_for_metric(HANDSHAKES, &[&label], count);
    }
}

#[test]
fn a_handshake_that_stalls_is_given_up() {
    let Some(place) = certified() else { return };
    let text = switch_text(&format!("tls = {}", pair("server")), &[place.at(1)]);
    let carrick = Carrick::start(
        &place,
        &format!("[timeouts]\nhead = \"100ms\"\ndrain = \"2s\"\n{text}"),
    );
    for first in [&[][..], &[22], &client_hello(Some("a.example"))[..50]] {
        let mut client = carrick.connect();
        client.send(first);
        client.expect_end();
    }
    // The server's part came, and the client does nothing with it.
    let mut client = carrick.connect();
    client.send(client_hello(Some("a.example")));
    client.read_ending();
    assert!(carrick.limit_reached("head_timeout") >= 3.0);
    carrick.wait_for_metric(HANDSHAKES, &["result=\"timeout\""], 3.0);
}

#[test]
fn handshakes_that_break_off_or_are_none_harm_nobody() {
    let Some(place) = certified() else { return };
    let server = echo(&place, "host");
    let carrick = start(&place, &[server.address()]);
    let config = trusting(&place, Offers::All);
    let mut kept = TlsPeer::connect(carrick.listener(), "a.example", &config);
    let whole = recorded(&carrick, &config);
    assert!(whole.len() > 200, "{}", whole.len());
    // Cut off at each byte, by an end or a reset.
    for length in 0..whole.len() {
        let mut client = carrick.connect();
        client.send(&whole[..length]);
        match length % 2 {
            0 => client.half_close(),
            _ => client.reset(),
        }
    }
    let mut random = random::Random::new(5);
    for number in 0..1000_usize {
        let mut bytes = match number % 3 {
            0 => random.bytes(1 + number % 700),
            _ => whole.clone(),
        };
        match number % 3 {
            0 => bytes[0] = 22,
            1 => {
                // One byte is another.
                let at = number * 7 % bytes.len();
                bytes[at] ^= 1 + (number % 255) as u8;
            }
            _ => bytes.extend(random.bytes(100)),
        }
        let mut client = carrick.connect();
        // It may have been refused before its last byte.
        let _ = client.try_send(&bytes);
        if number % 2 == 0 {
            let mut rest = Vec::new();
            client.half_close();
            let _ = client.stream().take(1 << 20).read_to_end(&mut rest);
        }
    }
    assert_eq!(kept.ask(ASK).1, "a.example");
    let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
    assert_eq!(client.ask(ASK).1, "a.example");
    carrick.wait_for_metric(HANDSHAKES, &["result=\"malformed\""], 100.0);
    drop((kept, client));
    carrick.wait_until_clients(0);
}

/// What a client sends until its handshake is done, with a first request.
fn recorded(carrick: &Carrick, config: &std::sync::Arc<rustls::ClientConfig>) -> Vec<u8> {
    let name = rustls::pki_types::ServerName::try_from("a.example").expect("a name");
    let mut session =
        rustls::ClientConnection::new(std::sync::Arc::clone(config), name).expect("a client");
    let peer = carrick.connect();
    let mut sent = Vec::new();
    while session.is_handshaking() || session.wants_write() {
        if session.wants_write() {
            let before = sent.len();
            session.write_tls(&mut sent).expect("memory");
            std::io::Write::write_all(&mut peer.stream(), &sent[before..])
                .expect("the server takes it");
        } else {
            session.read_tls(&mut peer.stream()).expect("an answer");
            session.process_new_packets().expect("a handshake");
        }
    }
    sent
}

/// Its bytes are nothing to read until the record is whole.
#[test]
fn a_client_that_sends_a_record_byte_by_byte_has_no_more_time_than_another() {
    let Some(place) = certified() else { return };
    let server = echo(&place, "host");
    let text = switch_text(&format!("tls = {}", pair("server")), &[server.address()]);
    let carrick = Carrick::start(&place, &format!("[timeouts]\nidle = \"1s\"\n{text}"));
    let mut client = TlsPeer::connect(
        carrick.listener(),
        "a.example",
        &trusting(&place, Offers::All),
    );
    client.try_ask(ASK);
    let record = client.encrypt(&"x".repeat(16_000));
    let mut stream = client.into_tcp();
    let mut record = record.iter();
    crate::support::wait_until("the end of the connection", || {
        let byte = [*record.next().expect("an end before the record's")];
        std::io::Write::write_all(&mut stream, &byte).is_err()
    });
    assert!(carrick.limit_reached("idle_timeout") >= 1.0);
}

#[test]
fn certificates_of_clients_are_demanded_and_told() {
    let Some(place) = certified() else { return };
    issue_for_client(&place, "ca", "alice", "/O=Example, Inc/CN=alice");
    issue_for_client(&place, "ca", "zoe", "/CN=Zoë");
    make_other_authority(&place, "stranger");
    issue_for_client(&place, "stranger", "mallory", "/CN=alice");
    let server = echo(&place, "x-forwarded-client-subject");
    let forged = "GET /a HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Client-Subject: CN=root\r\nX_Forwarded_Client_Subject: CN=root\r\n\r\n";
    for (demand, is_required) in [("required", true), ("optional", false)] {
        for forwarded in ["x-forwarded", "unchanged", "off"] {
            let keys = format!(
                "tls = {}\nclient_ca = \"ca.pem\"\nclient_certificate = \"{demand}\"\nforwarded = \"{forwarded}\"\nunderscores = \"pass\"",
                pair("server")
            );
            let carrick = Carrick::start(&place, &switch_text(&keys, &[server.address()]));
            let ask = |config| {
                let mut client =
                    TlsPeer::try_connect(carrick.listener(), "a.example", &config).ok()?;
                client.try_ask(forged)
            };
            assert_eq!(
                ask(presenting(&place, "alice")).as_deref(),
                Some("CN=alice,O=Example\\, Inc")
            );
            assert_eq!(
                ask(presenting(&place, "zoe")).as_deref(),
                Some("CN=Zo\\C3\\AB")
            );
            assert_eq!(ask(presenting(&place, "mallory")), None);
            let stranger = ask(trusting(&place, Offers::All));
            assert_eq!(stranger.as_deref(), (!is_required).then_some("none"));
            carrick.wait_for_metric(
                HANDSHAKES,
                &["result=\"client_certificate\""],
                1.0 + f64::from(u8::from(is_required)),
            );
            let lines = carrick.access_log(2);
            let subject = |line: &crate::support::Line| {
                line.value("tls")["subject"].as_str().map(str::to_owned)
            };
            assert!(
                lines
                    .iter()
                    .any(|line| subject(line).as_deref() == Some("CN=alice,O=Example\\, Inc")),
                "{lines:?}"
            );
        }
    }
}

#[test]
fn a_certificate_with_a_long_serial_number_has_a_subject() {
    let Some(place) = certified() else { return };
    issue_for_client(&place, "ca", "alice", "/CN=alice");
    number(&place, "alice", &format!("0x7f{}", "00".repeat(25)));
    let server = echo(&place, "x-forwarded-client-subject");
    let keys = format!("tls = {}\nclient_ca = \"ca.pem\"", pair("server"));
    let carrick = Carrick::start(&place, &switch_text(&keys, &[server.address()]));
    let config = presenting(&place, "alice");
    for is_resumed in [false, true] {
        let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
        assert_eq!(client.ask(ASK).1, "CN=alice");
        assert_eq!(client.is_resumed(), is_resumed);
    }
}

#[test]
fn authorities_may_have_version_1_of_x509() {
    let Some(place) = certified() else { return };
    make_old_authority(&place, "old");
    issue_for_client(&place, "old", "alice", "/CN=alice");
    let server = echo(&place, "x-forwarded-client-subject");
    let keys = format!("tls = {}\nclient_ca = \"old.pem\"", pair("server"));
    let carrick = Carrick::start(&place, &switch_text(&keys, &[server.address()]));
    let config = presenting(&place, "alice");
    let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
    assert_eq!(client.ask(ASK).1, "CN=alice");
}

#[test]
fn what_a_client_with_a_certificate_changes_is_changed_for_all() {
    let Some(place) = certified() else { return };
    issue_for_client(&place, "ca", "alice", "/CN=alice");
    let count = AtomicUsize::new(0);
    let server = Server::listen(&place).serve(move |peer, _| {
        answer_requests(peer, |_| {
            let number = count.fetch_add(1, Ordering::Relaxed);
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\n";
            format!("{head}{number}").into_bytes()
        });
    });
    let keys = format!(
        "tls = {}\nclient_ca = \"ca.pem\"\nclient_certificate = \"optional\"",
        pair("server")
    );
    let text = switch_text(&keys, &[server.address()]);
    let text = text.replacen("upstream = \"u\"\n", "upstream = \"u\"\ncache = true\n", 1);
    let carrick = Carrick::start(&place, &format!("[cache]\n{text}"));
    let ask = |config, request: &str| {
        let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
        client.ask(request).1
    };
    let anybody = || trusting(&place, Offers::All);
    assert_eq!([ask(anybody(), ASK), ask(anybody(), ASK)], ["0", "0"]);
    let change = ASK.replace("GET", "DELETE");
    assert_eq!(ask(presenting(&place, "alice"), &change), "1");
    assert_eq!(ask(anybody(), ASK), "2");
}

#[test]
fn what_is_embedded_in_a_page_of_a_client_with_a_certificate_is_not_fetched_for_others() {
    let Some(place) = certified() else { return };
    issue_for_client(&place, "ca", "alice", "/CN=alice");
    let server = Server::listen(&place).serve(move |peer, _| {
        answer_requests(peer, |head| {
            let who = field(head, "x-forwarded-client-subject").unwrap_or_else(|| "nobody".into());
            let (kind, body) = match head.contains("/page") {
                true => ("text/html", "<img src=/image>".to_owned()),
                false => ("image/png", format!("for {who}")),
            };
            let fields = format!("Content-Type: {kind}\r\nContent-Length: {}", body.len());
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{fields}\r\n\r\n{body}")
                .into_bytes()
        });
    });
    let keys = format!(
        "tls = {}\nclient_ca = \"ca.pem\"\nclient_certificate = \"optional\"",
        pair("server")
    );
    let text = switch_text(&keys, &[server.address()]);
    let cached = "upstream = \"u\"\ncache = true\nprefetch = true\n";
    let text = text.replacen("upstream = \"u\"\n", cached, 1);
    let carrick = Carrick::start(&place, &format!("[cache]\n{text}"));
    let ask = |config, path: &str| {
        let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
        client.ask(&ASK.replace("/a", path)).1
    };
    ask(presenting(&place, "alice"), "/page");
    let pages = carrick.metric("carrick_cache_prefetch_pages_total", &[]);
    assert_eq!(pages, 0.0);
    assert_eq!(ask(trusting(&place, Offers::All), "/image"), "for nobody");
}

/// Whoever a client chose is told nothing of it.
#[test]
fn origins_are_not_told_of_certificates() {
    let Some(place) = certified() else { return };
    issue_for_client(&place, "ca", "alice", "/CN=alice");
    let server = echo(&place, "x-forwarded-client-subject");
    let keys = format!("tls = {}\nclient_ca = \"ca.pem\"\n", pair("server"));
    let carrick = Carrick::start(&place, &(FORWARD_TEXT.to_owned() + &keys));
    let proxy = (place.ip(), 13128).into();
    let mut client = TlsPeer::connect(proxy, "a.example", &presenting(&place, "alice"));
    let address = server.address();
    let (_, body) = client.ask(&format!(
        "GET http://{address}/ HTTP/1.1\r\nHost: {address}\r\n\r\n"
    ));
    assert_eq!(body, "none");
    let lines = carrick.access_log(1);
    assert_eq!(lines[0].value("tls")["subject"].as_str(), Some("CN=alice"));
}

#[test]
fn an_ocsp_response_is_stapled() {
    let Some(place) = certified() else { return };
    // As `openssl ca` would have written it.
    let serial = Tool::new("openssl", &place)
        .words("x509 -in server.pem -noout -serial")
        .expect();
    let serial = serial.trim().trim_start_matches("serial=");
    place.write(
        "index.txt",
        &format!("V\t491231235959Z\t\t{serial}\tunknown\t/CN=server\n"),
    );
    let respond = |words: &str| {
        Tool::new("openssl", &place)
            .words("ocsp -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem -respout ocsp.der")
            .words(words)
            .expect();
    };
    respond("-index index.txt -cert server.pem -ndays 1");
    let tls = "tls = { certificate = \"server.pem\", key = \"server.key\", ocsp = \"ocsp.der\" }";
    let is_stapled = |carrick: &Carrick, version: &str| {
        let words = format!("s_client -connect {} -status {version}", carrick.listener());
        let shown = Tool::new("openssl", &place).words(&words).expect();
        shown.contains("OCSP Response Status: successful")
    };
    let text = switch_text(tls, &[place.at(1)]);
    let carrick = Carrick::start(&place, &text);
    for version in ["-tls1_2", "-tls1_3"] {
        assert!(is_stapled(&carrick, version), "{version}");
    }
    carrick.stop();
    let revoked = format!("R\t491231235959Z\t200101000000Z\t{serial}\tunknown\t/CN=server\n");
    place.write("revoked.txt", &revoked);
    issue(&place, "other", "DNS:a.example", Key::Ec);
    for (words, why) in [
        (
            "-index revoked.txt -cert server.pem -ndays 1",
            "does not say that the certificate is good",
        ),
        (
            "-index index.txt -cert other.pem -ndays 1",
            "is about another certificate",
        ),
    ] {
        respond(words);
        let carrick = Carrick::start(&place, &text);
        let said = carrick.standard_error().wait_for(why);
        said.expect("a warning");
        assert!(!is_stapled(&carrick, "-tls1_3"), "{why}");
        carrick.stop();
    }
}

#[test]
fn protocols_are_agreed_on() {
    let Some(place) = certified() else { return };
    let carrick = start(&place, &[place.at(1)]);
    let ask = |offered: &str| {
        let words = format!("s_client -connect {} -alpn {offered}", carrick.listener());
        Tool::new("openssl", &place).words(&words).run()
    };
    for (offered, agreed) in [("http/1.1,h2", "h2"), ("http/1.1", "http/1.1")] {
        let done = ask(offered);
        let expected = format!("ALPN protocol: {agreed}\n");
        assert!(done.out.contains(&expected), "{done:?}");
    }
    assert!(!ask("spdy/3").status.success());
    carrick.wait_for_metric(HANDSHAKES, &["result=\"incompatible\""], 1.0);
}

#[test]
fn what_is_not_the_agreed_protocol_is_ended_in_peace() {
    let Some(place) = certified() else { return };
    let carrick = start(&place, &[place.at(1)]);
    let mut config = (*trusting(&place, Offers::All)).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut client = TlsPeer::connect(carrick.listener(), "a.example", &Arc::new(config));
    // Much more than is read before it is known; in one piece, as carrick waits only two seconds for the rest.
    client.send(vec![b'x'; 60_000]);
    let (_, was_said) = client.read_to_end();
    assert!(was_said, "a reset");
}

#[test]
fn strangers_get_no_handshake() {
    let Some(place) = certified() else { return };
    let keys = format!("tls = {}\nallow = [\"192.0.2.0/24\"]", pair("server"));
    let carrick = Carrick::start(&place, &switch_text(&keys, &[place.at(1)]));
    let mut client = Peer::connect(carrick.listener());
    client.send(client_hello(Some("a.example")));
    assert_eq!(client.read_ending().bytes(), b"");
}
