//! nginx and openssl as servers.
use super::*;
use crate::clients::site::Site;
use crate::clients::tool::Tool;
use crate::https::certificates::issue_for_client;
use crate::support::{Carrick, random, wait_for};

#[test]
fn nginx_as_server() {
    let place = Place::claim();
    let Some(site) = Site::start(&place) else {
        return;
    };
    let body = random::Random::new(7).bytes(2_000_000);
    site.put("big", &body);
    let keys =
        "tls = { ca = \"ca.pem\" }\nhealth = { path = \"/big\", every = \"2s\", fall = 100 }";
    let carrick = Carrick::start(&place, &switch_text(&[site.https_address()], keys));
    let mut client = carrick.connect();
    for _ in 0..3 {
        let response = client.ask("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(random::hash(&response.body), random::hash(&body));
    }
    client.send(format!(
        "PUT /put HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(&body);
    assert_eq!(client.read_response("PUT").status, 201);
    let stored = std::fs::read(site.directory().join("put")).expect("a file");
    assert_eq!(random::hash(&stored), random::hash(&body));
    // It resumes the session of a health check, if there was one before.
    let shaken = |result| carrick.metric(HANDSHAKES, &[result]);
    let handshakes = shaken("result=\"full\"") + shaken("result=\"resumed\"");
    assert_eq!(handshakes, 1.0);
    // On a busy machine some may take longer than the limit on one.
    carrick.wait_for_metric("carrick_health_checks_total", &["result=\"good\""], 2.0);
}

#[test]
fn openssl_as_server_that_demands_a_certificate() {
    let Some(place) = stage() else { return };
    issue_for_client(&place, "ca", "client", "/CN=carrick");
    for version in ["-tls1_2", "-tls1_3"] {
        // A port that is free now, and the server says if it no longer is.
        let address = Server::listen(&place).close();
        let _server = Tool::new("openssl", &place)
            .words(&format!(
                "s_server -accept {address} -cert server.pem -key server.key"
            ))
            .words(&format!(
                "-CAfile ca.pem -Verify 1 -verify_return_error -www {version}"
            ))
            .start();
        wait_for("openssl", || TcpStream::connect(address).ok());
        let keys = "keepalive = 0\ntls = { ca = \"ca.pem\", certificate = \"client.pem\", key = \"client.key\" }";
        let carrick = Carrick::start(&place, &switch_text(&[address], keys));
        for _ in 0..3 {
            let response = carrick.connect().ask(GET);
            assert_eq!(response.status, 200, "{version}: {}", response.text());
            assert!(
                response.text().contains("Client certificate"),
                "{}",
                response.text()
            );
        }
        assert_eq!(
            carrick.metric(HANDSHAKES, &["result=\"full\""]),
            1.0,
            "{version}"
        );
        assert_eq!(
            carrick.metric(HANDSHAKES, &["result=\"resumed\""]),
            2.0,
            "{version}"
        );
    }
}
