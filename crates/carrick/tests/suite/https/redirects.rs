//! From HTTP to HTTPS: redirects, and `Strict-Transport-Security`.
use super::certificates::certified;
use super::client::{Offers, TlsPeer, trusting};
use super::{pair, switch_text};
use crate::support::carrick::switch_text as plain_text;
use crate::support::message::field;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server};

fn redirecting(keys: &str) -> String {
    format!("[[listener]]\nlisten = \"{{ip}}:18080\"\nmode = \"switch\"\n{keys}\n")
}

#[test]
fn requests_are_redirected_with_path_and_query() {
    let place = Place::claim();
    for (key, port) in [("true", ""), ("8443", ":8443")] {
        let carrick = Carrick::start(&place, &redirecting(&format!("redirect_to_https = {key}")));
        let mut client = carrick.connect();
        for (line, host, status, expected) in [
            (
                "GET /a/%41?b=c&d",
                "a.example",
                301,
                format!("https://a.example{port}/a/%41?b=c&d"),
            ),
            (
                "HEAD /",
                "A.example:8080",
                301,
                format!("https://A.example{port}/"),
            ),
            (
                "POST /form",
                "a.example",
                308,
                format!("https://a.example{port}/form"),
            ),
            (
                "PUT http://b.example:81/x?y",
                "a.example",
                308,
                format!("https://b.example{port}/x?y"),
            ),
            (
                "GET http://b.example?q",
                "b.example",
                301,
                format!("https://b.example{port}/?q"),
            ),
            (
                "GET /",
                "[2001:db8::1]:80",
                301,
                format!("https://[2001:db8::1]{port}/"),
            ),
            (
                "OPTIONS *",
                "a.example",
                308,
                format!("https://a.example{port}/"),
            ),
        ] {
            client.send(format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            let response = client.read_response(line.split(' ').next().unwrap());
            assert_eq!(
                (response.status, response.field("location")),
                (status, Some(expected)),
                "{line}"
            );
            assert_eq!(response.field("strict-transport-security"), None);
        }
        let mut client = carrick.connect();
        client.send("GET / HTTP/1.0\r\n\r\n");
        let response = client.read_response("GET");
        assert_eq!((response.status, response.field("location")), (400, None));
        let mut client = carrick.connect();
        client.send("GET / HTTP/1.1\r\nHost: a b\r\n\r\n");
        assert_eq!(client.read_response("GET").status, 400);
    }
}

#[test]
fn what_a_trusted_proxy_has_by_https_is_not_redirected() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| {
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
        });
    });
    let text = |trusted: &str| {
        let keys = format!("redirect_to_https = true\ntrusted_proxies = [\"{trusted}\"]\nmode = ");
        plain_text(&[server.address()]).replace("mode = ", &keys)
    };
    for (trusted, lines, status) in [
        (
            "127.0.0.0/8",
            "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n",
            200,
        ),
        (
            "127.0.0.0/8",
            "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https, http\r\n",
            301,
        ),
        ("127.0.0.0/8", "X-Forwarded-For: 192.0.2.1\r\n", 301),
        ("192.0.2.0/24", "X-Forwarded-Proto: https\r\n", 301),
    ] {
        let carrick = Carrick::start(&place, &text(trusted));
        let mut client = carrick.connect();
        let response = client.ask(&format!("GET / HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"));
        assert_eq!(response.status, status, "{trusted} {lines}");
    }
}

#[test]
fn browsers_are_told_to_come_by_https_only() {
    let Some(place) = certified() else { return };
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |head| {
            let own = if head.starts_with("GET /own") {
                "Strict-Transport-Security: max-age=1\r\n"
            } else {
                ""
            };
            format!(
                "HTTP/1.1 200 OK\r\n{own}Cache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok"
            )
            .into_bytes()
        });
    });
    for (value, expected) in [
        ("1h", "max-age=3600"),
        (
            "max-age=5; includeSubDomains",
            "max-age=5; includeSubDomains",
        ),
    ] {
        let keys = format!("tls = {}\nhsts = \"{value}\"\ncache = true", pair("server"));
        let carrick = Carrick::start(
            &place,
            &format!("[cache]\n{}", switch_text(&keys, &[server.address()])),
        );
        let mut client = TlsPeer::connect(
            carrick.listener(),
            "a.example",
            &trusting(&place, Offers::All),
        );
        let mut ask = |path: &str, more: &str| {
            client
                .ask(&format!(
                    "GET {path} HTTP/1.1\r\nHost: a.example\r\n{more}\r\n"
                ))
                .0
        };
        // From the server, from the cache, and from carrick itself.
        for (path, more) in [
            ("/", ""),
            ("/", ""),
            ("/", "Max-Forwards: 0\r\nExpect: nothing\r\n"),
        ] {
            let head = ask(path, more);
            assert_eq!(
                field(&head, "strict-transport-security").as_deref(),
                Some(expected),
                "{head}"
            );
            assert_eq!(
                head.to_lowercase().matches("strict-transport").count(),
                1,
                "{head}"
            );
        }
        let mut client = TlsPeer::connect(
            carrick.listener(),
            "a.example",
            &trusting(&place, Offers::All),
        );
        for _ in 0..2 {
            let (head, _) = client.ask("GET /own HTTP/1.1\r\nHost: a.example\r\n\r\n");
            assert_eq!(
                field(&head, "strict-transport-security").as_deref(),
                Some("max-age=1"),
                "{head}"
            );
            assert_eq!(
                head.to_lowercase().matches("strict-transport").count(),
                1,
                "{head}"
            );
        }
    }
}
