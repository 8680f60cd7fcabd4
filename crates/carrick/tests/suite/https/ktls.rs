//! Long bodies to clients with TLS, encrypted by the kernel where it can. `make kernels` has kernels that can.
use super::certificates::certified;
use super::client::{Offers, TlsPeer, trusting, with_suite};
use super::{pair, switch_text};
use crate::clients::tool::Tool;
use crate::support::carrick::{FORWARD_TEXT, PROGRAM};
use crate::support::message::field;
use crate::support::server::Serving;
use crate::support::{Carrick, Peer, Place, Server, random};
use carrick_splice::ktls::{self, ALERT, HANDSHAKE, KtlsService, Record, Suite};
use rustix::process::Signal;
use rustls::CipherSuite;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::Command;

/// Bodies from this size on are worth it.
const LONG: usize = 256 << 10;

const SUITES: [(Offers, CipherSuite); 6] = [
    (Offers::Tls13, CipherSuite::TLS13_AES_128_GCM_SHA256),
    (Offers::Tls13, CipherSuite::TLS13_AES_256_GCM_SHA384),
    (Offers::Tls13, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    (
        Offers::Tls12,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        Offers::Tls12,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        Offers::Tls12,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// An authority, and a certificate for `a.example`, if the kernel has all suites.
fn stage() -> Option<Place> {
    let service = KtlsService::default();
    if let Err(why) = service.load() {
        carrick_test::lacks!("{why}");
        return None;
    }
    assert!(
        Suite::ALL.into_iter().all(|suite| service.takes(suite)),
        "{}",
        service.detail()
    );
    certified()
}

fn text(servers: &[SocketAddr], more: &str) -> String {
    const PATIENT: &str = "[timeouts]\nhead = \"10m\"\nidle = \"10m\"\ndrain = \"2s\"\n";
    let switch = switch_text(&format!("tls = {}", pair("server")), servers);
    format!("{PATIENT}{more}{switch}")
}

/// Waits until the engines are tried.
fn started(carrick: Carrick) -> Carrick {
    carrick.wait_for_metric("carrick_engine_usable", &["engine=\"ktls\""], 1.0);
    carrick
}

fn start(place: &Place, servers: &[SocketAddr]) -> Carrick {
    started(Carrick::start(place, &text(servers, "")))
}

fn connect(place: &Place, carrick: &Carrick, offers: Offers) -> TlsPeer {
    TlsPeer::connect(carrick.listener(), "a.example", &trusting(place, offers))
}

fn handed_over(carrick: &Carrick, result: &str) -> u32 {
    let label = format!("result=\"{result}\"");
    carrick.metric("carrick_ktls_total", &[&label]) as u32
}

fn body(bytes: usize) -> Vec<u8> {
    random::Random::new(bytes as u64).bytes(bytes)
}

/// Answers `/N` with N bytes, and what has a body with the same.
fn serve(place: &Place) -> Serving {
    Server::listen(place).serve(|mut peer, _| {
        while peer.waits_for_head() {
            let head = peer.read_head();
            let length = field(&head, "content-length").map_or(0, |text| text.parse().unwrap());
            let mut answer = peer.read_exact(length);
            if length == 0 {
                let path = head.split([' ', '/', '?']).nth(2).unwrap();
                answer = body(path.parse().unwrap());
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                answer.len()
            );
            if peer.try_send([head.as_bytes(), &answer].concat()).is_err() {
                return;
            }
        }
    })
}

fn request(bytes: usize) -> String {
    format!("GET /{bytes} HTTP/1.1\r\nHost: a.example\r\n\r\n")
}

fn expect_body(client: &mut TlsPeer, bytes: usize) {
    let head = client.read_head();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let got = client.read_exact(bytes);
    assert_eq!(random::hash(&got), random::hash(&body(bytes)), "{bytes}");
}

fn get(client: &mut TlsPeer, bytes: usize) {
    client.send(request(bytes));
    expect_body(client, bytes);
}

fn post(client: &mut TlsPeer, bytes: usize) {
    let sent = body(bytes);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {bytes}\r\n\r\n"
    ));
    client.send(&sent);
    expect_body(client, bytes);
}

#[test]
fn bodies_of_many_sizes_with_every_suite() {
    let Some(place) = stage() else { return };
    let server = serve(&place);
    let carrick = start(&place, &[server.address()]);
    let sizes = [
        5,
        LONG - 1,
        LONG,
        9,
        LONG + 1,
        1,
        1_000_003,
        20_000,
        700_000,
    ];
    for (index, (offers, suite)) in SUITES.into_iter().enumerate() {
        let config = with_suite(&place, offers, suite);
        let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
        for bytes in sizes {
            get(&mut client, bytes);
        }
        post(&mut client, 300_000);
        get(&mut client, 3);
        client.half_close();
        assert_eq!(client.read_to_end(), (Vec::new(), true), "{suite:?}");
        assert_eq!(handed_over(&carrick, "done") as usize, index + 1);
    }
    // The kernel moves what the process no longer sees.
    let lines = carrick.access_log(SUITES.len() * (sizes.len() + 2));
    let spliced = lines.iter().filter(|line| line.text("engine") == "pipe");
    assert!(spliced.count() >= 4 * SUITES.len());
}

#[test]
fn curl_gets_and_sends_much() {
    let Some(place) = stage() else { return };
    let server = serve(&place);
    let carrick = start(&place, &[server.address()]);
    let port = carrick.listener().port();
    let sizes = [2_000_000, LONG];
    std::fs::write(place.directory().join("sent"), body(1_500_000)).expect("a file");
    for (index, offers) in ["--tls-max 1.2", "--tlsv1.3"].into_iter().enumerate() {
        let [first, second] = sizes.map(|bytes| format!("https://a.example:{port}/{bytes}"));
        let usual = format!(
            "--silent --show-error --fail --max-time 600 --http1.1 --cacert ca.pem {offers} --resolve a.example:{port}:{}",
            place.ip()
        );
        Tool::new("curl", &place)
            .words(&format!("--disable {usual} --output one {first} --next"))
            .words(&format!(
                "{usual} --data-binary @sent --output two {second} --next"
            ))
            .words(&format!("{usual} --output three {second}"))
            .expect();
        for (name, bytes) in [("one", sizes[0]), ("two", 1_500_000), ("three", LONG)] {
            let got = std::fs::read(place.directory().join(name)).expect("a file");
            assert_eq!(random::hash(&got), random::hash(&body(bytes)), "{name}");
        }
        assert_eq!(handed_over(&carrick, "done") as usize, index + 1);
    }
}

#[test]
fn a_slow_reader_gets_all_and_the_end() {
    let Some(place) = stage() else { return };
    let server = serve(&place);
    let carrick = start(&place, &[server.address()]);
    for offers in [Offers::Tls12, Offers::Tls13] {
        for bytes in [LONG, 1_000_000] {
            let tcp = Peer::connect_with_buffers(carrick.listener(), 4096).into_stream();
            let config = trusting(&place, offers);
            let mut client = TlsPeer::over(tcp, "a.example", &config).expect("a handshake");
            client.send(format!(
                "GET /{bytes} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
            ));
            client.read_head();
            let mut got = Vec::new();
            for _ in 0..200 {
                got.extend(client.read_exact(1000));
            }
            let (rest, has_ended) = client.read_to_end();
            got.extend(rest);
            assert!(has_ended, "{bytes} {offers:?}");
            assert_eq!(random::hash(&got), random::hash(&body(bytes)));
        }
    }
    assert_eq!(handed_over(&carrick, "done"), 4);
}

#[test]
fn a_client_that_leaves_in_the_midst_is_noticed() {
    let Some(place) = stage() else { return };
    let server = serve(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = connect(&place, &carrick, Offers::All);
    client.send(request(20_000_000));
    client.read_head();
    client.read_exact(100_000);
    drop(client);
    assert_eq!(carrick.access_log(1)[0].text("ended"), "client_reset");
    get(&mut connect(&place, &carrick, Offers::All), LONG);
}

#[test]
fn the_end_of_a_drain_cuts_what_the_kernel_sends() {
    let Some(place) = stage() else { return };
    let server = serve(&place);
    let mut carrick = start(&place, &[server.address()]);
    let mut client = connect(&place, &carrick, Offers::All);
    client.send(request(20_000_000));
    client.read_head();
    client.read_exact(100_000);
    assert_eq!(handed_over(&carrick, "done"), 1);
    carrick.signal(Signal::TERM);
    assert!(carrick.wait().status.success());
    assert_eq!(carrick.access_log(1)[0].text("ended"), "drain");
    let (_, has_ended) = client.read_to_end();
    assert!(!has_ended);
}

#[test]
fn a_body_that_breaks_off_does_not_look_whole() {
    let Some(place) = stage() else { return };
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    for offers in [Offers::Tls12, Offers::Tls13] {
        let mut client = connect(&place, &carrick, offers);
        client.send(request(1));
        let mut upstream = server.accept();
        upstream.read_head();
        let half = body(LONG);
        upstream.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            2 * LONG
        ));
        upstream.send(&half);
        client.read_head();
        assert_eq!(client.read_exact(LONG), half);
        drop(upstream);
        assert_eq!(client.read_to_end(), (Vec::new(), false));
    }
    assert_eq!(handed_over(&carrick, "done"), 2);
}

#[test]
fn pipelined_requests_are_answered_behind_the_change() {
    let Some(place) = stage() else { return };
    let server = serve(&place);
    let carrick = start(&place, &[server.address()]);
    for offers in [Offers::Tls12, Offers::Tls13] {
        let mut client = connect(&place, &carrick, offers);
        let sizes = [LONG, 10, 600_000, 0, LONG + 5, 1];
        client.send(sizes.map(request).concat());
        for bytes in sizes {
            expect_body(&mut client, bytes);
        }
    }
    assert_eq!(handed_over(&carrick, "done"), 2);
}

#[test]
fn within_a_record_the_process_goes_on() {
    let Some(place) = stage() else { return };
    let server = serve(&place);
    let carrick = start(&place, &[server.address()]);
    for offers in [Offers::Tls12, Offers::Tls13] {
        let mut client = connect(&place, &carrick, offers);
        let mut records = client.encrypt(&request(LONG));
        let next = client.encrypt(&request(LONG + 1));
        let (first, second) = next.split_at(next.len() / 2);
        records.extend(first);
        client.send_encrypted(&records);
        expect_body(&mut client, LONG);
        client.send_encrypted(second);
        expect_body(&mut client, LONG + 1);
        get(&mut client, 100_000);
    }
    assert_eq!(
        ["record", "done"].map(|result| handed_over(&carrick, result)),
        [2, 2]
    );
}

#[test]
fn keys_that_change_before_are_those_that_the_kernel_gets() {
    let Some(place) = stage() else { return };
    let server = serve(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = connect(&place, &carrick, Offers::Tls13);
    for bytes in [10, LONG] {
        // Both ends change theirs.
        client.change_keys();
        get(&mut client, bytes);
    }
    get(&mut client, 1_000_000);
    assert_eq!(handed_over(&carrick, "done"), 1);
    // Now nobody follows: the client is told, and the connection ends.
    client.change_keys();
    let alert = client.read_alert();
    assert!(alert.contains("UnexpectedMessage"), "{alert}");
    get(&mut connect(&place, &carrick, Offers::Tls13), LONG);
}

/// A client that sends these records to carrick's kernel, and what it gets then: the type, and the content.
fn answer_to(
    records: &[(u8, &[u8])],
    (offers, suite): (Offers, CipherSuite),
    as_kernel: Suite,
) -> Option<Record> {
    let place = stage()?;
    let server = serve(&place);
    let carrick = start(&place, &[server.address()]);
    let config = with_suite(&place, offers, suite);
    let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
    get(&mut client, LONG);
    assert_eq!(handed_over(&carrick, "done"), 1);
    let client = client.into_kernel(as_kernel);
    for (kind, content) in records {
        // The last ones may find the connection closed.
        let _ = ktls::send_record(&client, *kind, content);
    }
    let mut buffer = Vec::with_capacity(1000);
    client.peek(&mut [0]).ok();
    let got = ktls::receive(&client, &mut buffer, 1000);
    // Others are served.
    get(&mut connect(&place, &carrick, Offers::All), LONG);
    Some(match got {
        // With records that were not read.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Record::End,
        got => got.expect("an answer"),
    })
}

/// With AES-128.
const TLS_1_2: ((Offers, CipherSuite), Suite) = (SUITES[3], Suite::ALL[3]);
const TLS_1_3: ((Offers, CipherSuite), Suite) = (SUITES[0], Suite::ALL[0]);
const UNEXPECTED_MESSAGE: [u8; 2] = [2, 10];

#[test]
fn what_the_process_cannot_follow_ends_with_an_alert() {
    // The beginnings of a ClientHello, and of a KeyUpdate.
    for (kind, content, (suite, as_kernel)) in [
        (HANDSHAKE, &[1, 0, 0, 0][..], TLS_1_2),
        (HANDSHAKE, &[24, 0, 0, 1, 1], TLS_1_3),
        (HANDSHAKE, &[24], TLS_1_3),
        (24, &[1, 2, 3], TLS_1_2),
    ] {
        let Some(got) = answer_to(&[(kind, content)], suite, as_kernel) else {
            return;
        };
        assert_eq!(
            got,
            Record::Other(ALERT, UNEXPECTED_MESSAGE.to_vec()),
            "{content:?}"
        );
    }
}

#[test]
fn alerts_end_a_connection_or_are_few() {
    const CLOSE_NOTIFY: (u8, &[u8]) = (ALERT, &[1, 0]);
    const USER_CANCELED: (u8, &[u8]) = (ALERT, &[1, 90]);
    const WARNING: (u8, &[u8]) = (ALERT, &[1, 46]);
    let said = Record::Other(ALERT, CLOSE_NOTIFY.1.to_vec());
    for (records, (suite, as_kernel), expected) in [
        (vec![USER_CANCELED, CLOSE_NOTIFY], TLS_1_3, &said),
        (vec![WARNING, WARNING, CLOSE_NOTIFY], TLS_1_2, &said),
        (vec![WARNING, CLOSE_NOTIFY], TLS_1_3, &Record::End),
        (vec![(ALERT, &[2, 20])], TLS_1_2, &Record::End),
        (vec![(ALERT, &[2])], TLS_1_3, &Record::End),
        (vec![USER_CANCELED; 40], TLS_1_3, &Record::End),
    ] {
        let Some(got) = answer_to(&records, suite, as_kernel) else {
            return;
        };
        assert_eq!(&got, expected, "{records:?}");
    }
}

#[test]
fn a_tunnel_behind_a_long_answer() {
    let Some(place) = stage() else { return };
    let server = serve(&place);
    let tunnelled = Server::listen(&place);
    let text = format!("{FORWARD_TEXT}tls = {}\n", pair("server"));
    let carrick = started(Carrick::start(&place, &text));
    for offers in [Offers::Tls12, Offers::Tls13] {
        let address = carrick.forward_address();
        let mut client = TlsPeer::connect(address, "a.example", &trusting(&place, offers));
        client.send(format!(
            "GET http://{0}/{LONG} HTTP/1.1\r\nHost: {0}\r\n\r\n",
            server.address()
        ));
        expect_body(&mut client, LONG);
        let to = tunnelled.address();
        client.send(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n"));
        assert!(client.read_head().starts_with("HTTP/1.1 200 "));
        let mut upstream = tunnelled.accept();
        let (up, down) = (body(400_000), body(500_000));
        let (sent, wanted) = (down.clone(), random::hash(&up));
        let serving = std::thread::spawn(move || {
            assert_eq!(random::hash(&upstream.read_exact(400_000)), wanted);
            upstream.send(&sent);
            upstream.half_close();
            upstream.expect("last words");
            upstream.expect_end();
        });
        client.send(&up);
        let (got, has_ended) = client.read_to_end();
        assert!(has_ended);
        assert_eq!(random::hash(&got), random::hash(&down));
        client.send("last words");
        client.half_close();
        serving.join().expect("the server got everything");
    }
    assert_eq!(handed_over(&carrick, "done"), 2);
}

#[test]
fn what_is_stored_on_disk_is_sent_from_there() {
    let Some(place) = stage() else { return };
    let server = Server::listen(&place);
    let path = place.directory().join("disk");
    let cache =
        format!("[cache]\nmemory = \"1 MB\"\ndisk = {{ path = {path:?}, size = \"64 MB\" }}\n");
    let text = text(&[server.address()], &cache).replace(
        "upstream = \"u\"\n[upstream",
        "upstream = \"u\"\ncache = true\n[upstream",
    );
    let carrick = started(Carrick::start(&place, &text));
    carrick.wait_for_metric("carrick_cache_disk_indexed", &[], 1.0);
    let stored = [5_000_000, 300_000];
    for (index, bytes) in stored.into_iter().enumerate() {
        let mut client = connect(&place, &carrick, Offers::All);
        client.send(request(bytes));
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\nCache-Control: max-age=600\r\n\r\n"));
        upstream.send(body(bytes));
        expect_body(&mut client, bytes);
        carrick.wait_for_metric("carrick_cache_disk_writes_total", &[], (index + 1) as f64);
    }
    let before = handed_over(&carrick, "done");
    for (offers, suite) in SUITES {
        let config = with_suite(&place, offers, suite);
        let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
        // From the disk, from memory, and a part.
        get(&mut client, stored[0]);
        get(&mut client, stored[1]);
        client.send(format!(
            "GET /{} HTTP/1.1\r\nHost: a.example\r\nRange: bytes=1000001-2000000\r\n\r\n",
            stored[0]
        ));
        assert!(client.read_head().starts_with("HTTP/1.1 206 "));
        let part = client.read_exact(1_000_000);
        assert_eq!(
            random::hash(&part),
            random::hash(&body(stored[0])[1_000_001..2_000_001])
        );
    }
    assert_eq!(
        handed_over(&carrick, "done") as usize,
        before as usize + SUITES.len()
    );
}

#[test]
fn what_is_off_is_off() {
    let Some(place) = certified() else { return };
    let server = serve(&place);
    let off = "[process]\nktls = \"off\"\n";
    let carrick = Carrick::start(&place, &text(&[server.address()], off));
    let mut client = connect(&place, &carrick, Offers::All);
    get(&mut client, LONG);
    let status = carrick.status();
    let engines = status["engines"].as_array().expect("engines");
    let engine = engines
        .iter()
        .find(|engine| engine["name"] == "engine ktls");
    assert!(!engine.expect("it is there")["usable"].as_bool().unwrap());
    for result in ["done", "cipher", "record", "busy", "refused", "failed"] {
        assert_eq!(handed_over(&carrick, result), 0, "{result}");
    }
}

#[test]
fn doctor_says_whether_the_kernel_encrypts() {
    let output = Command::new(PROGRAM)
        .arg("doctor")
        .output()
        .expect("doctor");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let row = said.lines().find(|line| line.starts_with("engine ktls"));
    let row = row.expect("a row");
    match KtlsService::default().load() {
        Ok(()) => assert!(
            row.contains(" yes ") && row.contains("TLSv1.3 AES-128-GCM"),
            "{row}"
        ),
        Err(why) => assert!(
            row.contains(" no ") && row.contains(&why.to_string()),
            "{row}"
        ),
    }
}
