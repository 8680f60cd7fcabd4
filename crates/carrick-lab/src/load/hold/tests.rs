//! The holder against the echo server, and against servers that answer wrongly.

use super::*;

use carrick_test::PATIENCE;

/// For an exchange that fails, and is tried again meanwhile.
const SHORT: Duration = Duration::from_millis(200);

async fn serve_once(answer: &'static [u8]) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer).await;
            if answer.ends_with(b"!") {
                drop(stream);
            } else {
                // Held open, as a keep-alive server does.
                tokio::spawn(
                    async move { while matches!(stream.read(&mut [0; 64]).await, Ok(1..)) {} },
                );
            }
        }
    });
    address
}

fn get_five_bytes() -> Exchange {
    Exchange::Http {
        target: "/5".into(),
        host: "h".into(),
        body_bytes: 5,
        is_tls: false,
    }
}

#[tokio::test(flavor = "current_thread")]
async fn echoed_connections_are_held_open() {
    // It is nobody else's until the server listens there.
    let bound = TcpSocket::new_v4().unwrap();
    bound.set_reuseaddr(true).unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = bound.local_addr().unwrap();
    tokio::spawn(crate::origin::echo::serve(address));
    let from = std::net::IpAddr::from([127, 0, 0, 9]);
    let held = open((address, &[from]), &Exchange::Echo, 20, 4, PATIENCE)
        .await
        .unwrap();
    assert_eq!(held.len(), 20);
    assert_eq!(count_open(&held, &Exchange::Echo), 20);
    assert!((held.iter()).all(|stream| stream.local_addr().unwrap().ip() == from));
}

#[tokio::test(flavor = "current_thread")]
async fn a_right_response_is_held() {
    let address = serve_once(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").await;
    let held = open((address, &[]), &get_five_bytes(), 3, 2, PATIENCE)
        .await
        .unwrap();
    assert_eq!(count_open(&held, &get_five_bytes()), 3);
}

#[tokio::test(flavor = "current_thread")]
async fn wrong_answers_are_named() {
    for (answer, part) in [
        (&b"HTTP/1.1 503 Busy\r\n\r\n"[..], "503"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nhello, too long",
            "instead of 5",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi!",
            "closed after 3",
        ),
    ] {
        let address = serve_once(answer).await;
        let error = open((address, &[]), &get_five_bytes(), 1, 1, SHORT)
            .await
            .unwrap_err();
        assert!(format!("{error:#}").contains(part), "{error:#}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn connections_closed_while_idle_are_noticed() {
    let address = serve_once(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell!").await;
    let held = open((address, &[]), &get_five_bytes(), 2, 2, PATIENCE)
        .await
        .unwrap();
    let begun = std::time::Instant::now();
    while count_open(&held, &get_five_bytes()) > 0 {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn stalled_connections_are_open_while_something_waits_to_be_read() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let mut stream = listener.accept().await.unwrap().0;
        stream.write_all(b"never read").await.unwrap();
        let _ = ended.await;
        // Nothing is left behind what was sent: a reset.
        SockRef::from(&stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    });
    let held = open((address, &[]), &Exchange::Stalled, 1, 1, PATIENCE)
        .await
        .unwrap();
    assert_eq!(count_open(&held, &Exchange::Stalled), 1);
    assert_eq!(count_open(&held, &Exchange::Echo), 0);
    end.send(()).unwrap();
    server.await.unwrap();
    // Another processor may bring the reset.
    let reset = held[0].ready(tokio::io::Interest::ERROR);
    assert!(tokio::time::timeout(PATIENCE, reset).await.is_ok());
    assert_eq!(count_open(&held, &Exchange::Stalled), 0);
}
