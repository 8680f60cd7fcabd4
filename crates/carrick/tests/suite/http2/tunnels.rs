//! Streams that become tunnels: CONNECT, and WebSocket (RFC 8441).
use super::client::{connect, fetch, request, run};
use super::start;
use crate::clients::websocket::accept_for;
use crate::support::carrick::FORWARD_TEXT;
use crate::support::message::field;
use crate::support::{Carrick, Ending, Peer, Place, Server};
use bytes::Bytes;
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::timeout;

/// Asks for a tunnel; the response, and the server's end.
async fn open(
    to: SocketAddr,
    asked: Request<()>,
    serve: impl FnOnce() -> Peer + Send + 'static,
) -> (Response<RecvStream>, SendStream<Bytes>, Peer) {
    let mut sender = connect(to).await;
    let (response, stream) = sender.send_request(asked, false).expect("a stream");
    let server = tokio::task::spawn_blocking(serve);
    let response = response.await.expect("a response");
    (response, stream, server.await.expect("the server"))
}

/// A tunnel to the server.
async fn tunnel(
    carrick: &Carrick,
    server: Server,
) -> (Response<RecvStream>, SendStream<Bytes>, Peer) {
    let asked = connect_to(server.address());
    open(carrick.forward_address(), asked, move || server.accept()).await
}

/// Bytes go both ways, and so do the ends.
async fn relays(mut from: RecvStream, mut to: SendStream<Bytes>, mut server: Peer) {
    to.send_data(Bytes::from_static(b"to the server"), false)
        .expect("a stream");
    let mut server = blocking(move || {
        server.expect("to the server");
        server.send("to the client");
        server
    })
    .await;
    let data = from.data().await.expect("data").expect("data");
    assert_eq!(data, "to the client");
    to.send_data(Bytes::from_static(b"last"), true)
        .expect("a stream");
    blocking(move || {
        server.expect("last");
        server.expect_end();
        server.send("after the client's end");
    })
    .await;
    let mut rest = Vec::new();
    while let Some(data) = from.data().await {
        rest.extend_from_slice(&data.expect("data"));
    }
    assert_eq!(rest, b"after the client's end");
}

async fn blocking<T: Send + 'static>(does: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(does).await.expect("the server")
}

fn connect_to(address: SocketAddr) -> Request<()> {
    let asked = Request::builder()
        .method("CONNECT")
        .uri(address.to_string());
    asked.body(()).expect("a request")
}

fn websocket() -> Request<()> {
    let mut asked = request("CONNECT", "/chat");
    asked
        .extensions_mut()
        .insert(Protocol::from_static("websocket"));
    let version = http::HeaderValue::from_static("13");
    asked.headers_mut().insert("sec-websocket-version", version);
    asked
}

#[test]
fn connect_makes_a_tunnel() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(&place, FORWARD_TEXT);
    run(async {
        let (response, to, server) = tunnel(&carrick, server).await;
        assert_eq!(response.status(), 200);
        relays(response.into_body(), to, server).await;
    });
    let line = &carrick.access_log(1)[0];
    assert_eq!(
        (line.text("version"), line.text("method")),
        ("HTTP/2.0", "CONNECT")
    );
    assert_eq!((line.number("received"), line.number("sent")), (17, 35));
}

/// Each has a connection to a server, as one of HTTP/1.1 has.
#[test]
fn tunnels_are_counted_for_their_client() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let limits = "[limits]\nconnections_per_client = 3\n";
    let carrick = Carrick::start(&place, &format!("{FORWARD_TEXT}{limits}"));
    let (proxy, address) = (carrick.forward_address(), server.address());
    run(async {
        let mut sender = connect(proxy).await;
        let mut tunnels = Vec::new();
        for status in [200, 200, 429] {
            let (response, stream) = sender
                .send_request(connect_to(address), false)
                .expect("a stream");
            let response = response.await.expect("a response");
            assert_eq!(response.status(), status);
            tunnels.push((response, stream));
        }
        let asked = Request::builder().uri(format!("http://{address}/"));
        let asked = asked.body(()).expect("a request");
        // Other requests are not concerned, and another tunnel has room once one has ended.
        let answering = blocking(move || {
            let tunnels = [server.accept(), server.accept()];
            let mut upstream = server.accept();
            upstream.read_head();
            upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
            drop(tunnels);
            server
        });
        let (asked, _) = sender.send_request(asked, true).expect("a stream");
        let (answer, _server) = tokio::join!(asked, answering);
        assert_eq!(answer.expect("a response").status(), 204);
        drop(tunnels);
        loop {
            let (response, _stream) = sender
                .send_request(connect_to(address), false)
                .expect("a stream");
            if response.await.expect("a response").status() == 200 {
                break;
            }
        }
    });
}

#[test]
fn a_tunnel_whose_server_resets_is_reset() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(&place, FORWARD_TEXT);
    run(async {
        let (response, _to, server) = tunnel(&carrick, server).await;
        blocking(move || server.reset()).await;
        let error = response.into_body().data().await.expect("an end");
        assert_eq!(
            error.expect_err("a reset").reason(),
            Some(Reason::CONNECT_ERROR)
        );
    });
}

/// The server reads nothing, so that carrick has bytes that it cannot pass on.
#[test]
fn a_blocked_tunnel_whose_client_resets_is_reset() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(&place, FORWARD_TEXT);
    let mut upstream = run(async {
        let (_response, mut to, server) = tunnel(&carrick, server).await;
        to.reserve_capacity(1 << 20);
        let while_room = Duration::from_millis(200);
        while let Ok(room) = timeout(while_room, poll_fn(|cx| to.poll_capacity(cx))).await {
            let room = room.expect("a stream").expect("a stream");
            let sent = to.send_data(vec![b'x'; room].into(), false);
            sent.expect("a stream");
            to.reserve_capacity(1 << 20);
        }
        to.send_reset(Reason::CANCEL);
        blocking(move || {
            let line = &carrick.access_log(1)[0];
            assert_eq!(line.text("ended"), "client_reset");
        })
        .await;
        server
    });
    assert!(matches!(upstream.read_ending(), Ending::Reset(_)));
}

#[test]
fn a_forward_proxy_gets_whole_urls() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(&place, FORWARD_TEXT);
    let address = server.address();
    run(async {
        let serving = tokio::task::spawn_blocking(move || {
            let mut peer = server.accept();
            let head = peer.read_head();
            peer.send(super::OK);
            head
        });
        let mut sender = connect(carrick.forward_address()).await;
        let asked = Request::builder()
            .uri(format!("http://{address}/p?q"))
            .body(());
        let reply = fetch(&mut sender, asked.expect("a request"), b"", None).await;
        assert_eq!(reply.expect("a response").body, b"ok");
        let head = serving.await.expect("the server");
        assert!(
            head.starts_with(&format!("GET /p?q HTTP/1.1\r\nHost: {address}\r\n")),
            "{head}"
        );
        let asked = Request::builder()
            .uri(format!("https://{address}/"))
            .body(());
        let reply = fetch(&mut sender, asked.expect("a request"), b"", None).await;
        assert_eq!(reply.expect("a response").status, 400);
    });
}

#[test]
fn a_web_socket_whose_server_resets_is_cancelled() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    run(async {
        let (response, _to, server) =
            open(carrick.listener(), websocket(), move || upgraded(&server)).await;
        blocking(move || server.reset()).await;
        let error = response.into_body().data().await.expect("an end");
        // RFC 8441 section 5.
        let reason = error.expect_err("a reset").reason();
        assert_eq!(reason, Some(Reason::CANCEL));
    });
}

/// A server's end of a WebSocket.
fn upgraded(server: &Server) -> Peer {
    let mut peer = server.accept();
    let head = peer.read_head();
    assert!(head.starts_with("GET /chat HTTP/1.1\r\n"), "{head}");
    assert_eq!(field(&head, "upgrade").as_deref(), Some("websocket"));
    assert_eq!(field(&head, "sec-websocket-version").as_deref(), Some("13"));
    let accept = accept_for(&field(&head, "sec-websocket-key").expect("a key"));
    peer.send(format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: chat\r\n\r\n"));
    peer
}

#[test]
fn a_web_socket_is_relayed() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = start(&place, &[server.address()]);
    run(async {
        let (response, to, server) =
            open(carrick.listener(), websocket(), move || upgraded(&server)).await;
        assert_eq!(response.status(), 200);
        let fields = response.headers();
        assert_eq!(fields["sec-websocket-protocol"], "chat");
        for name in ["connection", "upgrade", "sec-websocket-accept"] {
            assert!(!fields.contains_key(name), "{name}");
        }
        relays(response.into_body(), to, server).await;
    });
    assert_eq!(carrick.access_log(1)[0].status(), 101);
}

#[test]
fn a_web_socket_needs_the_servers_word() {
    let place = Place::claim();
    let cases: [(_, u16); 3] = [
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: bm90IGl0\r\n\r\n",
            502,
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 502),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", 403),
    ];
    for (number, (response, status)) in cases.into_iter().enumerate() {
        let server = Server::listen(&place);
        let carrick = start(&place, &[server.address()]);
        run(async {
            let (answer, _to, _server) = open(carrick.listener(), websocket(), move || {
                let mut peer = server.accept();
                peer.read_head();
                peer.send(response);
                peer
            })
            .await;
            assert_eq!(answer.status(), status, "{response}");
            let mut body = answer.into_body();
            while let Some(data) = body.data().await {
                data.expect("a whole response");
            }
        });
        let line = &carrick.access_log(number + 1)[number];
        let is_bad = line.text("ended") == "bad_response";
        assert_eq!(
            (line.status(), is_bad),
            (u64::from(status), status == 502),
            "{line:?}"
        );
    }
}

#[test]
fn other_protocols_are_not_spoken() {
    let place = Place::claim();
    let carrick = start(&place, &[place.at(1)]);
    run(async {
        let mut sender = connect(carrick.listener()).await;
        let mut asked = websocket();
        asked
            .extensions_mut()
            .insert(Protocol::from_static("connect-udp"));
        let (response, _stream) = sender.send_request(asked, false).expect("a stream");
        assert_eq!(response.await.expect("a response").status(), 501);
        // A switch is no proxy.
        let (response, _stream) = sender
            .send_request(connect_to(place.at(1)), false)
            .expect("a stream");
        assert_eq!(response.await.expect("a response").status(), 405);
    });
}
