//! Servers that others wrote, and what is agreed with them by TLS.
use super::super::client::{connect, run};
use super::server::Http2Server;
use super::{start, switch_text};
use crate::clients::site::Site;
use crate::clients::tool::{Running, Tool, has_all};
use crate::clients::websocket::{converse, echo_server};
use crate::https::certificates::certified_by_address;
use crate::support::{Carrick, Peer, Place, Server, random, wait_for};
use bytes::Bytes;
use h2::ext::Protocol;
use http::{Request, Response};
use std::net::{SocketAddr, TcpStream};

const GET: &str = "GET /file HTTP/1.1\r\nHost: a\r\n\r\n";

/// A port that is free now; the program says if it no longer is.
pub(super) fn free(place: &Place) -> SocketAddr {
    Server::listen(place).close()
}

#[test]
fn nghttpd_is_asked_by_tls_and_without() {
    if !has_all(&["nghttpd"]) {
        return;
    }
    let Some(place) = certified_by_address() else {
        return;
    };
    let body = random::Random::new(3).bytes(1_000_000);
    std::fs::write(place.directory().join("file"), &body).expect("a file");
    let table = [
        ("--no-tls", "", "http2 = true"),
        (
            "",
            "server.key server.pem",
            "http2 = true\ntls = { ca = \"ca.pem\" }",
        ),
        (
            "",
            "server.key server.pem",
            "http2 = \"auto\"\ntls = { ca = \"ca.pem\" }",
        ),
    ];
    for (option, files, keys) in table {
        let address = free(&place);
        let _server = Tool::new("nghttpd", &place)
            .words(&format!(
                "{option} --address {} --htdocs . {} {files}",
                address.ip(),
                address.port()
            ))
            .start();
        wait_for("nghttpd", || TcpStream::connect(address).ok());
        let keys = format!("{keys}\nhealth = {{ path = \"/file\", every = \"1s\", fall = 100 }}");
        let carrick = start(&place, &[address], &keys);
        let mut client = carrick.connect();
        for _ in 0..3 {
            let response = client.ask(GET);
            assert_eq!(random::hash(&response.body), random::hash(&body), "{keys}");
        }
        carrick.wait_for_metric("carrick_health_checks_total", &["result=\"good\""], 2.0);
        let count = |name| carrick.metric(name, &[]);
        assert!((count("carrick_upstream_http2_connections_total") - 1.0).abs() < 0.5);
    }
}

#[test]
fn a_server_of_http1_is_spoken_to_so_where_that_is_allowed() {
    let place = Place::claim();
    let Some(site) = Site::start(&place) else {
        return;
    };
    site.put("file", "content");
    let keys = "http2 = \"auto\"\ntls = { ca = \"ca.pem\" }";
    let carrick = Carrick::start(&place, &switch_text(&[site.https_address()], keys));
    let mut client = carrick.connect();
    for _ in 0..3 {
        assert_eq!(client.ask(GET).text(), "content");
    }
    assert!(carrick.metric("carrick_upstream_connections_opened_total", &[]) < 1.5);
    assert!(carrick.metric("carrick_upstream_http2_connections_total", &[]) < 0.5);
}

#[test]
fn a_server_of_http1_by_tls_is_found_out() {
    let place = Place::claim();
    let Some(site) = Site::start(&place) else {
        return;
    };
    let keys = "http2 = true\ntls = { ca = \"ca.pem\" }";
    let carrick = Carrick::start(&place, &switch_text(&[site.https_address()], keys));
    let response = carrick.connect().ask(GET);
    assert_eq!(response.status, 502);
    let said_so = || {
        let text = carrick.standard_error().text();
        text.contains("`http2` of its upstream").then_some(())
    };
    wait_for("the advice", said_so);
}

/// nginx with one server, of which `server` says the rest.
fn start_nginx(place: &Place, address: SocketAddr, server: &str) -> Running {
    std::fs::create_dir(place.directory().join("nginx")).expect("a folder");
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("{name}_temp_path nginx/{name};"))
        .collect();
    place.write(
        "nginx.conf",
        &format!(
            "daemon off; master_process off; pid nginx/pid; error_log nginx/error.log; events {{}}\nhttp {{ {temporary} access_log off;\nserver {{ listen {address} {server} }} }}\n"
        ),
    );
    let nginx = Tool::new("nginx", place)
        .word("-p")
        .word(place.directory())
        .words("-e nginx/error.log -c nginx.conf")
        .start();
    wait_for("nginx", || TcpStream::connect(address).ok());
    nginx
}

#[test]
fn nginx_is_asked_without_tls() {
    if !has_all(&["nginx"]) {
        return;
    }
    let place = Place::claim();
    let address = free(&place);
    let body = random::Random::new(4).bytes(2_000_000);
    std::fs::write(place.directory().join("file"), &body).expect("a file");
    let _nginx = start_nginx(
        &place,
        address,
        "http2; root .; http2_max_concurrent_streams 4; keepalive_requests 10; location /put/ { dav_methods PUT; client_max_body_size 100m; create_full_put_path on; }",
    );
    let carrick = start(&place, &[address], "http2 = true");
    let mut client = carrick.connect();
    // It closes a connection after 10 requests, and says so before.
    for _ in 0..30 {
        let response = client.ask(GET);
        assert_eq!(random::hash(&response.body), random::hash(&body));
    }
    client.send(format!(
        "PUT /put/it HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(&body);
    assert_eq!(client.read_response("PUT").status, 201);
    let stored = std::fs::read(place.directory().join("put/it")).expect("a file");
    assert_eq!(random::hash(&stored), random::hash(&body));
    assert!(carrick.metric("carrick_upstream_http2_connections_total", &[]) > 2.5);
}

/// Agrees to any tunnel, and echoes what comes.
async fn tunnel(mut asked: super::server::Asked) {
    assert_eq!(asked.head.method, "CONNECT");
    assert_eq!(asked.head.uri.path(), "/chat");
    let protocol = asked.head.extensions.get::<Protocol>().expect("a protocol");
    assert_eq!(protocol.as_str(), "websocket");
    assert_eq!(asked.field("sec-websocket-version"), Some("13"));
    assert_eq!(asked.field("sec-websocket-key"), None);
    let response = Response::new(());
    let mut stream = asked
        .respond
        .send_response(response, false)
        .expect("a client");
    while let Some(data) = asked.body.data().await {
        let data = data.expect("data");
        let _ = asked.body.flow_control().release_capacity(data.len());
        stream.send_data(data, false).expect("a client");
    }
    stream.send_data(Bytes::new(), true).expect("a client");
}

#[test]
fn web_sockets_go_through_where_the_server_takes_them() {
    let place = Place::claim();
    let mut settings = h2::server::Builder::new();
    settings.enable_connect_protocol();
    let server = Http2Server::with(&place, settings, tunnel);
    let carrick = start(&place, &[server.address()], "http2 = true");
    let mut client = Peer::connect(carrick.listener());
    client.send("GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    let head = client.read_head();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    client.send("to the server");
    client.expect("to the server");
    client.half_close();
    client.expect_end();
    // From a client's stream to one of the server's.
    run(async {
        let mut sender = connect(carrick.listener()).await;
        let asked = Request::builder()
            .method("CONNECT")
            .uri("http://a/chat")
            .header("sec-websocket-version", "13")
            .extension(Protocol::from_static("websocket"));
        let (response, mut stream) = sender
            .send_request(asked.body(()).expect("a request"), false)
            .expect("a stream");
        let response = response.await.expect("a response");
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        stream
            .send_data(Bytes::from_static(b"hello"), false)
            .expect("a stream");
        assert_eq!(body.data().await.expect("data").expect("data"), "hello");
        stream.send_data(Bytes::new(), true).expect("a stream");
        while let Some(data) = body.data().await {
            assert!(data.expect("data").is_empty());
        }
    });
    let lines = carrick.access_log(2);
    assert!(lines.iter().all(|line| line.text("ended") == "complete"));
}

#[test]
fn a_web_socket_goes_by_http1_where_http2_takes_none_and_http1_is_allowed() {
    if !has_all(&["nginx"]) {
        return;
    }
    let Some(place) = certified_by_address() else {
        return;
    };
    let echo = echo_server(&place);
    let address = free(&place);
    let server = format!(
        "ssl http2; ssl_certificate server.pem; ssl_certificate_key server.key; location / {{ return 200 content; }} location /chat {{ proxy_pass http://{}; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection Upgrade; }}",
        echo.address()
    );
    let _nginx = start_nginx(&place, address, &server);
    let carrick = start(
        &place,
        &[address],
        "http2 = \"auto\"\ntls = { ca = \"ca.pem\" }",
    );
    for _ in 0..3 {
        assert_eq!(carrick.connect().ask(GET).text(), "content");
        converse(&mut carrick.connect(), "/chat", "a");
    }
    let count = |name| carrick.metric(name, &[]);
    assert_eq!(count("carrick_upstream_http2_connections_total"), 1.0);
    assert_eq!(count("carrick_upstream_connections_opened_total"), 4.0);
    for line in carrick.access_log(6) {
        let (status, version) = match line.text("target") {
            "/chat" => (101, ""),
            _ => (200, "HTTP/2.0"),
        };
        assert_eq!(
            (line.status(), line.text("server_version")),
            (status, version)
        );
    }
}

#[test]
fn a_server_of_http2_alone_takes_no_web_socket_by_http1_either() {
    if !has_all(&["nghttpd"]) {
        return;
    }
    let Some(place) = certified_by_address() else {
        return;
    };
    place.write("file", "content");
    let address = free(&place);
    let _server = Tool::new("nghttpd", &place)
        .words(&format!(
            "--address {} --htdocs . {} server.key server.pem",
            address.ip(),
            address.port()
        ))
        .start();
    wait_for("nghttpd", || TcpStream::connect(address).ok());
    let keys = "http2 = \"auto\"\nfailures_max = 1\ntls = { ca = \"ca.pem\" }";
    let carrick = start(&place, &[address], keys);
    for _ in 0..3 {
        let response = carrick.connect().ask("GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
        assert_eq!(response.status, 502);
        assert!(response.text().contains("RFC 8441"), "{}", response.text());
        // The server is not to blame.
        assert_eq!(carrick.connect().ask(GET).text(), "content");
    }
}

#[test]
fn a_web_socket_to_a_server_that_takes_none_is_refused() {
    let place = Place::claim();
    let server = Http2Server::start(&place, async |mut asked| asked.answer(200, b"ok"));
    let carrick = start(&place, &[server.address()], "http2 = true");
    let mut client = Peer::connect(carrick.listener());
    let response = client.ask("GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    assert_eq!(response.status, 502);
    assert!(response.text().contains("RFC 8441"), "{}", response.text());
    // The server is not to blame.
    assert_eq!(Peer::connect(carrick.listener()).ask(GET).text(), "ok");
}
