//! Servers that do not shake hands.
use super::*;
use crate::support::Carrick;

/// A server that does this with each connection.
fn odd(place: &Place, does: impl Fn(crate::support::Peer) + Send + Sync + 'static) -> Serving {
    Server::listen(place).serve(move |peer, _| does(peer))
}

#[test]
fn servers_that_do_not_speak_tls_are_failures_that_say_why() {
    let Some(place) = stage() else { return };
    let plain = odd(&place, |mut peer| {
        peer.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        peer.read_to_end();
    });
    let closing = odd(&place, |peer| drop(peer.into_stream()));
    // A server of TLS 1.1 answers so (alert 70).
    let old = odd(&place, |mut peer| {
        peer.send([21, 3, 1, 0, 2, 2, 70]);
        peer.read_to_end();
    });
    let broken = odd(&place, |mut peer| {
        peer.send([22, 3, 3, 0, 4, 2, 0, 0, 0]);
        peer.read_to_end();
    });
    let table = [
        (&plain, "not_tls", "use the server's port for TLS"),
        (&closing, "closed", "log may say why"),
        (&old, "incompatible", "TLS 1.2 or 1.3"),
        (&broken, "malformed", "TLS handshake with"),
    ];
    for (server, result, said) in table {
        let text = switch_text(&[server.address()], "tls = { ca = \"ca.pem\" }");
        let carrick = Carrick::start(&place, &text);
        let response = carrick.connect().ask(GET);
        assert_eq!(response.status, 502, "{result}");
        let detail = response.text();
        assert!(
            detail.contains("the TLS handshake with the server failed."),
            "{detail}"
        );
        let label = format!("result=\"{result}\"");
        carrick.wait_for_metric(HANDSHAKES, &[&label], 1.0);
        carrick.wait_for_metric("carrick_refusals_total", &["reason=\"upstream_tls\""], 1.0);
        let said = carrick.standard_error().wait_for(said);
        assert!(said.is_ok(), "{result}: {said:?}");
    }
}

#[test]
fn a_handshake_has_the_time_of_connecting() {
    let Some(place) = stage() else { return };
    let silent = Server::listen(&place);
    let text = format!(
        "[timeouts]\nconnect = \"100ms\"\ndrain = \"2s\"\n{}",
        switch_text(&[silent.address()], "tls = { ca = \"ca.pem\" }")
    );
    let carrick = Carrick::start(&place, &text);
    assert_eq!(carrick.connect().ask(GET).status, 504);
    carrick.wait_for_metric(HANDSHAKES, &["result=\"timeout\""], 1.0);
    assert!(carrick.limit_reached("connect_timeout") >= 1.0);
    carrick
        .standard_error()
        .wait_for("is this the server's port for TLS?")
        .expect("a message");
}

#[test]
fn a_failed_handshake_leads_to_another_server_whatever_the_method() {
    let Some(place) = stage() else { return };
    issue(&place, "named", "DNS:b.example", Key::Ec);
    let wrong = serve(&place, &config(&place, "named", Offers::All), answer);
    let right = serve(
        &place,
        &config(&place, "server", Offers::All),
        |mut end, _| {
            while let Some(head) = end.next_head() {
                if head.contains("Content-Length: 2\r\n") {
                    assert_eq!(end.read_exact(2), b"hi");
                }
                end.send(OK);
            }
        },
    );
    let servers = [wrong.address(), right.address()];
    let text = switch_text(
        &servers,
        "keepalive = 0\nfailures_max = 2\ntls = { ca = \"ca.pem\" }",
    );
    let carrick = Carrick::start(&place, &text);
    for number in 0..20 {
        let request = match number % 2 {
            0 => GET,
            _ => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        };
        assert_eq!(
            carrick.connect().ask(request).status,
            200,
            "request {number}"
        );
    }
    assert_eq!(right.accepted(), 20);
    let label = format!("server=\"{}\"", wrong.address());
    let failures = carrick.metric("carrick_server_failures_total", &[&label]);
    assert!(failures >= 2.0, "{failures}");
    let said = carrick.stop().standard_error;
    assert!(
        said.contains(" WARN upstream u: TLS handshake with "),
        "{said}"
    );
}

#[test]
fn health_checks_shake_hands() {
    let Some(place) = stage() else { return };
    let server = serve(&place, &config(&place, "server", Offers::All), answer);
    let plain = Server::listen(&place).serve(|mut peer, _| {
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        peer.read_ending();
    });
    for health in [
        "{ every = \"10s\", fall = 1 }",
        "{ path = \"/\", every = \"10s\", fall = 1 }",
    ] {
        let servers = [server.address(), plain.address()];
        let keys = format!("tls = {{ ca = \"ca.pem\" }}\nhealth = {health}");
        let carrick = Carrick::start(&place, &switch_text(&servers, &keys));
        let said = carrick
            .standard_error()
            .wait_for(&format!(
                "upstream u: server {} is down: TLS handshake: ",
                plain.address()
            ))
            .expect("a message");
        assert!(
            !said.contains(&format!("server {} is down", server.address())),
            "{said}"
        );
        carrick.wait_for_metric("carrick_health_checks_total", &["result=\"good\""], 1.0);
        let up = |server: &Serving| {
            let label = format!("server=\"{}\"", server.address());
            carrick.metric("carrick_server_up", &[&label])
        };
        assert_eq!((up(&server), up(&plain)), (1.0, 0.0), "{health}");
    }
}
