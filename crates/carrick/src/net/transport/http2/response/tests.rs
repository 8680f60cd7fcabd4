//! Heads that are sent as they were parsed are those that would be written.
use super::super::super::Transport;
use super::super::super::testing::pair;
use super::*;
use carrick_logic::http1::{add_field, write_response};
use h2::{client, server};
use http::Request;
use std::future::poll_fn;
use std::pin::pin;

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// What a client of the library gets, if `send` has sent it.
fn heard(
    method: Method,
    send: impl FnOnce(&mut Outgoing, &Rc<Http2Connection>) -> bool,
) -> Option<(StatusCode, HeaderMap, bool)> {
    let address = |port| ([127, 0, 0, 1], port).into();
    let [here, _there] = pair([address(1), address(2)]);
    let connection = Rc::new(Http2Connection::new(Transport::Memory(here), || {}));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let server = server::Builder::new().handshake::<_, Piece>(far);
        let (client, server) = tokio::join!(client::handshake(near), server);
        let ((mut client, mut driver), mut server) = (client.unwrap(), server.unwrap());
        let request = match method {
            Method::Head => Request::head("https://a/"),
            _ => Request::get("https://a/"),
        };
        let request = request.body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        let (mut driver, mut response) = (pin!(&mut driver), pin!(response));
        let asked = poll_fn(|cx| {
            let _ = driver.as_mut().poll(cx);
            server.poll_accept(cx)
        });
        let (_, respond) = asked.await.unwrap().unwrap();
        let mut outgoing = Outgoing::new(respond, method, None);
        // It may follow others.
        const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        assert_eq!(outgoing.write(HINTS, &connection), Ok(HINTS.len()));
        if !send(&mut outgoing, &connection) {
            return None;
        }
        let response = poll_fn(|cx| {
            let _ = (driver.as_mut().poll(cx), server.poll_closed(cx));
            response.as_mut().poll(cx)
        });
        let (head, body) = response.await.unwrap().into_parts();
        Some((head.status, head.headers, body.is_end_stream()))
    })
}

fn check(text: &str, method: Method, is_for_sending: bool) {
    for via in ["", "carrick"] {
        let how = ResponseRewrite {
            via,
            client_version: Version::Http11,
            keep_alive: true,
            add_chunked: false,
            pass_upgrade: false,
        };
        let mut head = ResponseHead::new();
        let parsed = head.parse(text.as_bytes(), method, &LIMITS);
        assert_eq!(parsed, Ok(Progress::Complete), "{text}");
        let sent = heard(method, |outgoing, connection| {
            let add = |fields: &mut HeaderMap| {
                fields.append("date", DATE.parse().unwrap());
                fields.append("cache-status", "carrick; fwd=miss".parse().unwrap());
            };
            outgoing.send_parsed(connection, (&head, text.as_bytes()), &how, add)
        });
        if !is_for_sending {
            assert_eq!(sent, None, "{text}");
            continue;
        }
        let written = heard(method, |outgoing, connection| {
            let mut out = Vec::new();
            write_response(&mut out, text.as_bytes(), &head, &how);
            add_field(&mut out, "Date", DATE);
            add_field(&mut out, "Cache-Status", "carrick; fwd=miss");
            assert_eq!(outgoing.write(&out, connection), Ok(out.len()));
            true
        });
        assert_eq!(sent, written, "{text}");
    }
}

#[test]
fn a_head_is_the_same_sent_or_written() {
    let table = [
        "HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 5\r\nSet-Cookie: b\r\nset-cookie: c\r\nX_Odd:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1\r\nCache-Status: a; hit\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 404 No\r\nConnection: x-a, keep-alive\r\nX-A: b\r\nKeep-Alive: 5\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 304 Same\r\nETag: \"a\"\r\nVia: 1.0 b\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 204 No\nA : b\nContent-Length: 5\n\n",
        "HTTP/1.1 426 Up\r\nUpgrade: websocket\r\nConnection: upgrade\r\nContent-Length:2 \r\n\r\nno",
    ];
    for text in table {
        check(text, Method::Get, true);
        check(text, Method::Head, true);
    }
}

#[test]
fn other_heads_have_to_be_written() {
    let table = [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
        "HTTP/1.1 101 Up\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ];
    for text in table {
        check(text, Method::Get, false);
    }
}
