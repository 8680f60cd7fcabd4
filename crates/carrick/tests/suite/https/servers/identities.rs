//! Who servers are, and who carrick is to them.
use super::*;
use crate::https::certificates::{issue_expired, issue_for_client, make_other_authority};
use crate::support::Carrick;
use crate::support::carrick::PROGRAM;
use std::process::Command;

/// The status of a request with this `tls`, and what carrick says.
fn ask(place: &Place, server: SocketAddr, tls: &str) -> (u16, String) {
    let carrick = Carrick::start(place, &switch_text(&[server], &format!("tls = {tls}")));
    let status = carrick.connect().ask(GET).status;
    (status, carrick.stop().standard_error)
}

#[test]
fn servers_must_be_who_they_should_be() {
    let Some(place) = stage() else { return };
    make_other_authority(&place, "other");
    issue(&place, "named", "DNS:b.example", Key::Rsa);
    issue_expired(&place, "expired", &format!("IP:{}", place.ip()));
    let ip = place.ip();
    let table = [
        ("server", "{ ca = \"ca.pem\" }", 200, ""),
        ("server", "{ ca = \"ca.pem\", minimum = \"1.3\" }", 200, ""),
        // A certificate itself can be trusted.
        ("server", "{ ca = \"server.pem\" }", 200, ""),
        ("named", "{ ca = \"named.pem\" }", 502, "set `server_name`"),
        (
            "named",
            "{ ca = \"named.pem\", server_name = \"b.example\" }",
            200,
            "",
        ),
        ("expired", "{ ca = \"expired.pem\" }", 502, "renew"),
        (
            "server",
            "{ ca = \"other.pem\" }",
            502,
            "`ca` of `tls` must name",
        ),
        // The test's authority is none of this system's.
        ("server", "true", 502, "`ca` of `tls` must name"),
        ("named", "{ ca = \"ca.pem\" }", 502, "set `server_name`"),
        (
            "named",
            "{ ca = \"ca.pem\", server_name = \"b.example\" }",
            200,
            "",
        ),
        (
            "named",
            "{ ca = \"ca.pem\", server_name = \"c.example\" }",
            502,
            "set `server_name`",
        ),
        (
            "server",
            &format!("{{ ca = \"ca.pem\", server_name = \"{ip}\" }}"),
            200,
            "",
        ),
        ("expired", "{ ca = \"ca.pem\" }", 502, "renew"),
        (
            "expired",
            "{ insecure = true }",
            200,
            "servers are not verified",
        ),
        (
            "named",
            "{ insecure = true }",
            200,
            "servers are not verified",
        ),
    ];
    for (certificate, tls, expected, said) in table {
        let server = serve(&place, &config(&place, certificate, Offers::All), answer);
        let (status, error) = ask(&place, server.address(), tls);
        assert_eq!(status, expected, "{certificate} {tls}: {error}");
        assert!(error.contains(said), "{certificate} {tls}: {error}");
        if expected == 502 {
            let who = format!("WARN upstream u: TLS handshake with {}", server.address());
            assert!(error.contains(&who), "{error}");
        }
    }
}

#[test]
fn names_are_asked_for_and_addresses_are_not() {
    let Some(place) = stage() else { return };
    issue(&place, "named", "DNS:localhost,DNS:b.example", Key::Ec);
    let server = serve(
        &place,
        &config(&place, "named", Offers::All),
        |mut end, _| {
            end.next_head();
            let name = end.name().unwrap_or("none").to_owned();
            end.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}",
                name.len()
            ));
        },
    );
    for (tls, expected) in [
        ("{ insecure = true }", "none"),
        (
            "{ ca = \"ca.pem\", server_name = \"B.example.\" }",
            "b.example",
        ),
    ] {
        let carrick = Carrick::start(
            &place,
            &switch_text(&[server.address()], &format!("tls = {tls}")),
        );
        assert_eq!(carrick.connect().ask(GET).text().to_lowercase(), expected);
    }
}

#[test]
fn the_systems_authorities_are_those_of_the_environment_if_it_says_so() {
    let Some(place) = stage() else { return };
    let server = serve(&place, &config(&place, "server", Offers::All), answer);
    let mut command = Command::new(PROGRAM);
    command.env("SSL_CERT_FILE", file(&place, "ca.pem"));
    let text = switch_text(&[server.address()], "tls = true");
    let carrick = Carrick::try_start_by(&place, &text, command).expect("a start");
    assert_eq!(carrick.connect().ask(GET).status, 200);
}

#[test]
fn a_server_that_demands_a_certificate_gets_it() {
    let Some(place) = stage() else { return };
    make_other_authority(&place, "other");
    issue_for_client(&place, "ca", "client", "/CN=carrick");
    issue_for_client(&place, "other", "stranger", "/CN=stranger");
    for offers in [Offers::Tls12, Offers::Tls13] {
        let server = serve(&place, &demanding(&place, offers), |end, number| {
            assert!(end.knows_client());
            answer(end, number);
        });
        let with = |name: &str| {
            format!("{{ ca = \"ca.pem\", certificate = \"{name}.pem\", key = \"{name}.key\" }}")
        };
        let (status, error) = ask(&place, server.address(), &with("client"));
        assert_eq!(status, 200, "{offers:?}: {error}");
        for (tls, advice) in [
            (
                "{ ca = \"ca.pem\" }".to_owned(),
                "the server demands a certificate",
            ),
            (with("stranger"), "does not accept the `certificate`"),
        ] {
            let carrick = Carrick::start(
                &place,
                &switch_text(&[server.address()], &format!("tls = {tls}")),
            );
            for request in [
                GET,
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
            ] {
                let response = carrick.connect().ask(request);
                assert_eq!(response.status, 502);
                assert!(
                    response.text().contains("TLS handshake with"),
                    "{}",
                    response.text()
                );
            }
            let said = carrick.standard_error().wait_for(advice);
            assert!(said.is_ok(), "{offers:?} {tls}: {said:?}");
            carrick.wait_for_metric(HANDSHAKES, &["result=\"alert\""], 2.0);
            let label = format!("server=\"{}\"", server.address());
            assert!(carrick.metric("carrick_server_failures_total", &[&label]) >= 2.0);
        }
    }
}
