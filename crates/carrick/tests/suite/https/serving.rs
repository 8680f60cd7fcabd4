//! Requests and responses inside TLS.
use super::certificates::certified;
use super::client::{Offers, TlsPeer, trusting};
use super::{pair, start, switch_text};
use crate::clients::tool::Tool;
use crate::memory::own_bytes;
use crate::support::message::field;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Peer, Place, Server, random, wait_for};

const ASK: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn connect(place: &Place, carrick: &Carrick) -> TlsPeer {
    TlsPeer::connect(
        carrick.listener(),
        "a.example",
        &trusting(place, Offers::All),
    )
}

#[test]
fn curl_sends_and_gets_much_on_one_connection() {
    let Some(place) = certified() else { return };
    let large = random::Random::new(1).bytes(5_000_000);
    std::fs::write(place.directory().join("large"), &large).expect("a file");
    let echo = Server::listen(&place).serve(|mut peer, _| {
        while peer.waits_for_head() {
            let head = peer.read_head();
            let length: usize =
                field(&head, "content-length").map_or(0, |text| text.parse().expect("a length"));
            let body = peer.read_exact(length);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
            ));
            peer.send(&body);
        }
    });
    let carrick = start(&place, &[echo.address()]);
    let url = format!("https://a.example:{}/", carrick.listener().port());
    for offers in ["--tls-max 1.2", "--tlsv1.3"] {
        Tool::new("curl", &place)
            .words(
                "--disable --silent --show-error --fail --max-time 600 --http1.1 --cacert ca.pem",
            )
            .words(&format!(
                "--resolve a.example:{}:{}",
                carrick.listener().port(),
                place.ip()
            ))
            .words(offers)
            .words(&format!(
                "--data-binary @large --output one --output two {url} {url}"
            ))
            .expect();
        for name in ["one", "two"] {
            let got = std::fs::read(place.directory().join(name)).expect("a file");
            assert_eq!(random::hash(&got), random::hash(&large), "{offers} {name}");
        }
    }
    assert_eq!(carrick.access_log(4).len(), 4);
    let accepted = carrick.metric("carrick_client_connections_total", &[]);
    assert!((accepted - 2.0).abs() < 0.5, "{accepted} connections");
}

#[test]
fn servers_learn_that_clients_came_by_https() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = connect(&place, &carrick);
    for target in ["/a", "https://a.example/a"] {
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Proto: ftp\r\n\r\n"
        ));
        let mut upstream = server.accept();
        let head = upstream.read_head();
        assert!(head.starts_with("GET /a HTTP/1.1\r\n"), "{head}");
        assert_eq!(field(&head, "x-forwarded-proto").as_deref(), Some("https"));
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        assert!(client.read_head().starts_with("HTTP/1.1 200 "));
        client.expect("ok");
    }
    let (head, _) = client.ask("GET http://a.example/a HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
}

#[test]
fn pipelined_and_chunked_requests_are_answered_in_order() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |head| {
            let path = head.split(' ').nth(1).unwrap_or_default();
            format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{path}\r\n0\r\n\r\n",
                path.len()
            )
            .into_bytes()
        });
    });
    let carrick = start(&place, &[server.address()]);
    let mut client = connect(&place, &carrick);
    let requests: String = (0..20)
        .map(|number| format!("GET /{number} HTTP/1.1\r\nHost: a.example\r\n\r\n"))
        .collect();
    client.send(&requests);
    for number in 0..20 {
        let head = client.read_head();
        assert!(head.contains("chunked"), "{head}");
        let path = format!("/{number}");
        client.expect(&format!("{:x}\r\n{path}\r\n0\r\n\r\n", path.len()));
    }
}

#[test]
fn a_body_that_ends_with_the_connection_ends_with_a_word() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place).serve(|mut peer, _| {
        if peer.waits_for_head() {
            peer.read_head();
            peer.send("HTTP/1.1 200 OK\r\n\r\nto the end");
        }
    });
    let carrick = start(&place, &[server.address()]);
    let mut client = connect(&place, &carrick);
    client.send(ASK);
    client.read_head();
    assert_eq!(client.read_to_end(), (b"to the end".to_vec(), true));
}

#[test]
fn an_idle_connection_ends_with_a_word() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place).serve(|peer, _| answer_requests(peer, |_| OK.to_vec()));
    let text = switch_text(&format!("tls = {}", pair("server")), &[server.address()]);
    let text = format!("[timeouts]\nidle = \"2s\"\n{text}");
    let carrick = Carrick::start(&place, &text);
    // Again, where a busy machine keeps the server from answering in time.
    let (bytes, has_ended) = wait_for("a response in time", || {
        let mut client = connect(&place, &carrick);
        client.send(ASK);
        let (bytes, has_ended) = client.read_to_end();
        let is_late = bytes.starts_with(b"HTTP/1.1 504 ");
        (!is_late).then_some((bytes, has_ended))
    });
    assert!(bytes.ends_with(b"ok") && has_ended, "{bytes:?}");
}

#[test]
fn a_proxy_header_comes_before_tls() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place);
    let keys = format!("tls = {}\nproxy_protocol = true", pair("server"));
    let carrick = Carrick::start(&place, &switch_text(&keys, &[server.address()]));
    let mut tcp = carrick.connect();
    tcp.send("PROXY TCP4 192.0.2.7 192.0.2.8 40000 443\r\n");
    let config = trusting(&place, Offers::All);
    let mut client = TlsPeer::over(tcp.into_stream(), "a.example", &config).expect("a handshake");
    client.send(ASK);
    let head = server.accept().read_head();
    assert_eq!(
        field(&head, "x-forwarded-for").as_deref(),
        Some("192.0.2.7")
    );
}

#[test]
fn a_slow_reader_gets_the_last_word_of_such_a_body() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place).serve(|mut peer, _| {
        if peer.waits_for_head() {
            peer.read_head();
            peer.send("HTTP/1.1 200 OK\r\n\r\n");
            peer.send(vec![b'x'; 2_000_000]);
        }
    });
    let carrick = start(&place, &[server.address()]);
    let tcp = Peer::connect_with_buffers(carrick.listener(), 4096).into_stream();
    let config = trusting(&place, Offers::All);
    let mut client = TlsPeer::over(tcp, "a.example", &config).expect("a handshake");
    client.send(ASK);
    client.read_head();
    let (bytes, has_ended) = client.read_to_end();
    assert_eq!((bytes.len(), has_ended), (2_000_000, true));
}

#[test]
fn a_thousand_idle_clients_cost_little() {
    const CLIENTS: usize = 1000;
    const BYTES_MAX: u64 = 25 * 1024;
    let Some(place) = certified() else { return };
    let server = Server::listen(&place).serve(|peer, _| answer_requests(peer, |_| OK.to_vec()));
    let carrick = start(&place, &[server.address()]);
    let config = trusting(&place, Offers::All);
    let open = || {
        let mut client = TlsPeer::connect(carrick.listener(), "a.example", &config);
        assert_eq!(client.ask(ASK).1, "ok");
        client
    };
    let _first: Vec<_> = (0..20).map(|_| open()).collect();
    let before = own_bytes(&carrick);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| open()).collect();
    let each = own_bytes(&carrick).saturating_sub(before) / CLIENTS as u64;
    eprintln!("{CLIENTS} idle clients with TLS: {each} bytes each");
    assert!(each <= BYTES_MAX, "an idle client costs {each} bytes");
    for client in clients.iter_mut().step_by(50) {
        assert_eq!(client.ask(ASK).1, "ok");
    }
}

#[test]
fn a_body_that_breaks_off_does_not_end_with_a_word() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place).serve(|mut peer, _| {
        if peer.waits_for_head() {
            peer.read_head();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all");
        }
    });
    let carrick = start(&place, &[server.address()]);
    let mut client = connect(&place, &carrick);
    client.send(ASK);
    client.read_head();
    let (bytes, has_ended) = client.read_to_end();
    assert!(!has_ended && b"not all".starts_with(&bytes), "{bytes:?}");
    assert_eq!(carrick.access_log(1)[0].text("ended"), "upstream_closed");
}

#[test]
fn a_request_that_is_cut_off_below_tls_is_not_whole() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    let mut client = connect(&place, &carrick);
    client.send("POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\n\r\nnot all");
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.expect("not all");
    client.cut_off();
    // The server must not take a part for the whole.
    assert_eq!(upstream.read_ending().bytes(), b"");
    let line = &carrick.access_log(1)[0];
    assert_ne!(line.text("ended"), "complete", "{line:?}");
    // Between requests it is an end as another.
    let mut client = connect(&place, &carrick);
    client.send(ASK);
    let mut upstream = server.accept();
    upstream.read_head();
    client.cut_off();
    upstream.send(OK);
    assert!(client.read_head().starts_with("HTTP/1.1 200 "));
    client.expect("ok");
    assert_eq!(client.read_to_end().0, b"");
    assert_eq!(carrick.access_log(2)[1].text("ended"), "complete");
}

#[test]
fn plain_http_on_a_port_for_https_is_answered_plainly() {
    let Some(place) = certified() else { return };
    let carrick = start(&place, &[place.at(1)]);
    let mut client = carrick.connect();
    let response = client.ask(ASK);
    assert_eq!(response.status, 400);
    assert!(response.text().contains("https://"), "{}", response.text());
    client.expect_end();
    assert_eq!(carrick.access_log(1)[0].status(), 400);
}

#[test]
fn a_slow_reader_gets_everything() {
    let Some(place) = certified() else { return };
    let large = random::Random::new(2).bytes(3_000_000);
    let body = large.clone();
    let server = Server::listen(&place).serve(move |peer, _| {
        let body = body.clone();
        answer_requests(peer, move |_| {
            let mut response =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
            response.extend_from_slice(&body);
            response
        });
    });
    let carrick = start(&place, &[server.address()]);
    let config = trusting(&place, Offers::All);
    let tcp = Peer::connect_with_buffers(carrick.listener(), 4096).into_stream();
    let mut client = TlsPeer::over(tcp, "a.example", &config).expect("a handshake");
    client.send(ASK);
    client.read_head();
    let mut got = Vec::new();
    while got.len() < large.len() {
        let count = 1000.min(large.len() - got.len());
        got.extend(client.read_exact(count));
    }
    assert_eq!(random::hash(&got), random::hash(&large));
    let (head, _) = client.ask("OPTIONS * HTTP/1.1\r\nHost: a.example\r\nMax-Forwards: 0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
}

/// A peer is asked without TLS, and has what `http` leads to.
#[test]
fn cache_peers_are_not_asked_for_what_came_by_tls() {
    let Some(place) = certified() else { return };
    let origin = Server::listen(&place).serve(|peer, _| answer_requests(peer, |_| OK.to_vec()));
    let peer = Server::listen(&place);
    let text = switch_text(&format!("tls = {}", pair("server")), &[origin.address()]);
    let text = text.replace("upstream = \"u\"\n", "upstream = \"u\"\ncache = true\n");
    let peers = format!("peers = {{ members = [\"{}\"] }}", peer.address());
    let carrick = Carrick::start(&place, &format!("[cache]\n{peers}\n{text}"));
    assert_eq!(connect(&place, &carrick).ask(ASK).1, "ok");
    peer.expect_no_connection();
}
