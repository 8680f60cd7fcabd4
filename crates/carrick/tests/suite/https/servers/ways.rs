//! Whatever else goes to servers: upgrades, PROXY headers, caches, parents; and TLS on both sides.
use super::*;
use crate::https::client::{TlsPeer, trusting};
use crate::https::pair;
use crate::support::carrick::upstream_text as upstream;
use crate::support::server::answer_requests;
use crate::support::{Carrick, wait_until};
use std::io::Read;

#[test]
fn upgraded_connections_are_relayed_with_half_closes_on_both_sides_of_tls() {
    let Some(place) = stage() else { return };
    let server = serve(
        &place,
        &config(&place, "server", Offers::All),
        |mut end, _| {
            end.next_head().expect("a request");
            end.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\nfirst");
            assert_eq!(end.read_exact(13), b"to the server");
            assert!(end.has_ended());
            end.send("after the client's end");
            end.end();
        },
    );
    const UPGRADE: &str =
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\n";
    let text = switch_text(&[server.address()], "tls = { ca = \"ca.pem\" }");
    let carrick = Carrick::start(&place, &text);
    let mut client = carrick.connect();
    client.send(UPGRADE);
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    client.expect("first");
    client.send("to the server");
    client.half_close();
    client.expect("after the client's end");
    client.expect_end();
    assert_eq!(carrick.access_log(1)[0].text("ended"), "complete");
    drop(carrick);

    let text = text.replace(
        "mode = \"switch\"",
        &format!("mode = \"switch\"\ntls = {}", pair("server")),
    );
    let carrick = Carrick::start(&place, &text);
    let name = place.ip().to_string();
    let mut client = TlsPeer::connect(carrick.listener(), &name, &trusting(&place, Offers::All));
    client.send(UPGRADE);
    assert!(client.read_head().starts_with("HTTP/1.1 101 "));
    client.expect("first");
    client.send("to the server");
    client.half_close();
    assert_eq!(
        client.read_to_end(),
        (b"after the client's end".to_vec(), true)
    );
    let lines = carrick.access_log(2);
    assert_eq!(lines[1].text("engine"), "copy");
}

#[test]
fn a_proxy_header_goes_before_the_handshake() {
    let Some(place) = stage() else { return };
    let config = config(&place, "server", Offers::All);
    let server = Server::listen(&place).serve(move |peer, _| {
        let mut tcp = peer.into_stream();
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            tcp.read_exact(&mut byte).expect("a line");
            line.push(byte[0]);
        }
        assert!(line.starts_with(b"PROXY "), "{line:?}");
        let line = String::from_utf8(line).expect("text");
        let Ok(mut end) = TlsEnd::accept(tcp, &config) else {
            return;
        };
        while end.next_head().is_some() {
            let line = line.trim_end();
            end.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}",
                line.len()
            ));
        }
    });
    let keys = "send_proxy_protocol = true\nhealth = { path = \"/\", every = \"1s\", fall = 100 }\ntls = { ca = \"ca.pem\" }";
    let carrick = Carrick::start(&place, &switch_text(&[server.address()], keys));
    let mut client = carrick.connect();
    let address = client.local_address();
    let said = client.ask(GET).text();
    assert!(
        said.starts_with(&format!("PROXY TCP4 {} ", address.ip())),
        "{said}"
    );
    carrick.wait_for_metric("carrick_health_checks_total", &["result=\"good\""], 1.0);
}

#[test]
fn stored_responses_are_validated() {
    let Some(place) = stage() else { return };
    let server = serve(
        &place,
        &config(&place, "server", Offers::All),
        |mut end, _| {
            while let Some(head) = end.next_head() {
                end.send(match head.contains("If-None-Match") {
                true => "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nCache-Control: no-cache\r\n\r\n",
                false => "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nCache-Control: no-cache\r\nContent-Length: 6\r\n\r\nstored",
            });
            }
        },
    );
    let text = format!(
        "[cache]\n{}",
        switch_text(&[server.address()], "tls = { ca = \"ca.pem\" }")
    );
    let text = text.replace("upstream = \"u\"", "upstream = \"u\"\ncache = true");
    let carrick = Carrick::start(&place, &text);
    for _ in 0..3 {
        let response = carrick.connect().ask(GET);
        assert_eq!(
            (response.status, response.text()),
            (200, "stored".to_owned())
        );
    }
    wait_until("revalidations", || {
        let lines = carrick.access_log(3);
        let revalidated = lines
            .iter()
            .filter(|line| line.text("cache") == "revalidated");
        revalidated.count() == 2
    });
}

#[test]
fn a_parent_proxy_is_spoken_to_by_tls() {
    let Some(place) = stage() else { return };
    let origin = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| OK.as_bytes().to_vec());
    });
    let parent = place.at(13_999);
    let listener = |keys: &str| {
        format!("[[listener]]\nmode = \"forward\"\nconnect_ports = \"all\"\ndeny_to = []\n{keys}\n")
    };
    let text = format!(
        "{FORWARD_TEXT}parent = {{ proxy = \"{parent}\", tls = {{ ca = \"ca.pem\" }} }}\n{}",
        listener(&format!("listen = \"{parent}\"\ntls = {}", pair("server")))
    );
    let carrick = Carrick::start(&place, &text.replace("deny_to = []\n", ""));
    for _ in 0..2 {
        let request = format!(
            "GET http://{0}/ HTTP/1.1\r\nHost: {0}\r\n\r\n",
            origin.address()
        );
        assert_eq!(carrick.connect_forward().ask(&request).text(), "ok");
    }
    let mut client = carrick.connect_forward();
    client.send(format!(
        "CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n",
        origin.address()
    ));
    assert!(client.read_head().starts_with("HTTP/1.1 200 "));
    assert_eq!(client.ask(GET).text(), "ok");
    let tls = carrick.metric("carrick_tls_handshakes_total", &["result=\"full\""])
        + carrick.metric("carrick_tls_handshakes_total", &["result=\"resumed\""]);
    // Each worker has connections of its own, which CONNECT can use, too.
    assert!(tls >= 1.0, "{tls}");
}

#[test]
fn plain_and_tls_upstreams_of_one_server_do_not_mix() {
    let Some(place) = stage() else { return };
    let server = serve(&place, &config(&place, "server", Offers::All), answer);
    let address = server.address();
    let text = switch_text(&[address], "tls = { ca = \"ca.pem\" }");
    let text = text.replace(
        "[[listener.route]]\nupstream = \"u\"\n",
        "[[listener.route]]\npath = \"/plain\"\nupstream = \"p\"\n[[listener.route]]\nupstream = \"u\"\n",
    ) + &upstream("p", &[address]);
    let carrick = Carrick::start(&place, &text);
    for _ in 0..3 {
        assert_eq!(carrick.connect().ask(GET).status, 200);
        let plain = carrick
            .connect()
            .ask("GET /plain HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(plain.status, 502);
    }
}
