//! Tests of the client against servers on loopback.

use super::*;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Answers each request with this; what was asked for.
async fn serve(answer: &'static [u8]) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let known = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let known = Arc::clone(&known);
            tokio::spawn(async move {
                let mut request = vec![0; 1024];
                loop {
                    let read = stream.read(&mut request).await.unwrap_or(0);
                    if read == 0 {
                        return;
                    }
                    let line = String::from_utf8_lossy(&request[..read]);
                    let target = line.split(' ').nth(1).unwrap().to_owned();
                    known.lock().unwrap().push(target);
                    // In two pieces, as bodies come.
                    let (first, second) = answer.split_at(answer.len() - 2);
                    let _ = stream.write_all(first).await;
                    let _ = stream.write_all(second).await;
                }
            });
        }
    });
    (address, asked)
}

async fn fetch(connect: SocketAddr, wish: Wish) -> Result<Fetched> {
    let place = client::Place {
        connect,
        host: String::from("origin"),
        target: String::from("/c/"),
    };
    client::run(place, wish).await
}

const WISH: Wish = Wish {
    first: 7,
    requests: 6,
    objects: 3,
    connections: 2,
    body_bytes: 5,
};

#[tokio::test]
async fn each_object_is_asked_for_and_all_is_counted() {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let (address, asked) = serve(ANSWER).await;
    let fetched = fetch(address, WISH).await.unwrap();
    assert_eq!(fetched.measured.requests, 6);
    assert_eq!(fetched.measured.bytes, 6 * ANSWER.len() as u64);
    assert_eq!(fetched.head_bytes, 6 * (ANSWER.len() as u64 - 5));
    assert!(fetched.first_us <= fetched.last_us);
    let mut asked = asked.lock().unwrap().clone();
    asked.sort();
    assert_eq!(asked, ["/c/7", "/c/7", "/c/8", "/c/8", "/c/9", "/c/9"]);
}

#[tokio::test]
async fn wrong_answers_are_told() {
    for (answer, part) in [
        (
            &b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello"[..],
            "404",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell",
            "instead of 5",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "instead of 5",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, world",
            "and more",
        ),
        (b"220 mail.example ESMTP\r\n", "no head"),
    ] {
        let (address, _) = serve(answer).await;
        let error = fetch(address, WISH).await.unwrap_err();
        assert!(format!("{error:#}").contains(part), "{error:#}");
    }
}
