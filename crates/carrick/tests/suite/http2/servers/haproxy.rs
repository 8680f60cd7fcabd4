//! HAProxy as a server: HTTP/2 and HTTP/1.1, with and without TLS, behind PROXY headers.
use super::programs::free;
use super::start;
use crate::clients::tool::{Running, Tool, has_all};
use crate::clients::websocket::{converse, echo_server};
use crate::https::certificates::certified_by_address;
use crate::support::server::answer_requests;
use crate::support::{Place, Server, random, wait_for};
use std::net::{SocketAddr, TcpStream};

/// What HAProxy is told of its socket, and carrick of its upstream; and the version that is then spoken.
const WAYS: [(&str, &str, &str); 5] = [
    ("proto h2", "http2 = true", "2"),
    ("", "", "1"),
    (
        "ssl crt both.pem alpn h2",
        "http2 = true\ntls = { ca = \"ca.pem\" }",
        "2",
    ),
    (
        "ssl crt both.pem alpn h2,http/1.1",
        "http2 = \"auto\"\ntls = { ca = \"ca.pem\" }",
        "2",
    ),
    ("ssl crt both.pem", "tls = { ca = \"ca.pem\" }", "1"),
];

/// HAProxy with this socket. It says who asks by which version; `/body` and `/chat` are at others.
fn haproxy(place: &Place, bind: &str, body: SocketAddr, chat: SocketAddr) -> (Running, SocketAddr) {
    let address = free(place);
    let text = format!(
        "global\n maxconn 100\ndefaults\n mode http\n timeout client 10m\n timeout server 10m\n timeout connect 10m\n\
         frontend f\n bind {address} {bind}\n use_backend body if {{ path /body }}\n use_backend chat if {{ path /chat }}\n\
         \x20http-request return status 200 content-type text/plain lf-string \"%[src_port] by %[fc_http_major]\" if !{{ path /body }} !{{ path /chat }}\n\
         backend body\n server s {body}\nbackend chat\n server s {chat}\n"
    );
    place.write("haproxy.cfg", &text);
    let running = Tool::new("haproxy", place)
        .words("-db -f haproxy.cfg")
        .start();
    wait_for("haproxy", || TcpStream::connect(address).ok());
    (running, address)
}

#[test]
fn haproxy_is_asked_in_every_way() {
    if !has_all(&["haproxy"]) {
        return;
    }
    let Some(place) = certified_by_address() else {
        return;
    };
    let read = |name| std::fs::read_to_string(place.directory().join(name)).expect("a file");
    place.write("both.pem", &(read("server.pem") + &read("server.key")));
    let body = random::Random::new(5).bytes(3_000_000);
    let sent = body.clone();
    let origin = Server::listen(&place).serve(move |peer, _| {
        answer_requests(peer, |_| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len());
            [head.as_bytes(), &sent].concat()
        });
    });
    let echo = echo_server(&place);
    for (bind, keys, version) in WAYS {
        for (accept, send) in [
            ("", ""),
            ("accept-proxy", "send_proxy_protocol = true\n"),
            ("accept-proxy", "send_proxy_protocol = \"v2\"\n"),
        ] {
            let what = format!("{bind} {send}");
            let bind = format!("{bind} {accept}");
            let (_haproxy, address) = haproxy(&place, &bind, origin.address(), echo.address());
            let carrick = start(&place, &[address], &format!("{send}{keys}"));
            let mut client = carrick.connect();
            let port = client.local_address().port();
            for _ in 0..3 {
                let said = client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text();
                let (who, by) = said.split_once(" by ").expect("who, and by what");
                assert_eq!(by, version, "{what}");
                let is_client = who == port.to_string();
                assert_eq!(is_client, !send.is_empty(), "{what}: {said}, not {port}");
            }
            let response = client.ask("GET /body HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(random::hash(&response.body), random::hash(&body), "{what}");
            converse(&mut carrick.connect(), "/chat", "a");
        }
    }
}
