//! What is sent is what was stored, even when the body is cut while it comes.
use super::super::{Body, BodyState};
use super::*;
use std::future::poll_fn;
use std::io::ErrorKind;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, server) = tokio::join!(client, listener.accept());
    (server.unwrap().0, client.unwrap())
}

/// Sends `prefix` and all of a body, waiting for more where it is still filled. `false` if it broke off.
async fn send_all(body: &Arc<Body>, to: &TcpStream, prefix: &[u8]) -> bool {
    let mut reader = body.reader();
    let mut from = 0;
    let mut prefix = prefix;
    loop {
        let progress = poll_fn(|cx| reader.poll_more(cx, from)).await;
        while from < progress.bytes || !prefix.is_empty() {
            match body.send(to, from, u64::MAX, prefix, false) {
                Ok(sent) => {
                    let of_prefix = sent.min(prefix.len());
                    prefix = &prefix[of_prefix..];
                    from += (sent - of_prefix) as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    to.writable().await.unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
        match progress.state {
            BodyState::Filling => {}
            BodyState::Whole if from == body.progress().bytes => return true,
            BodyState::Whole => {}
            BodyState::Broken => return false,
        }
    }
}

#[tokio::test]
async fn prefix_and_body_arrive_whatever_their_place() {
    let limits = Limits {
        bytes: 64 << 20,
        objects: 100,
        object_bytes_max: 8 << 20,
    };
    {
        let store = store(limits);
        for bytes in [0, 1, 65_536, 65_537, 300_000, 6_000_000] {
            for known in [true, false] {
                let announced = known.then_some(bytes as u64);
                let mut writer = store.fill(announced).unwrap();
                let body = Arc::clone(writer.body());
                let (server, mut client) = connected().await;
                let sending = async {
                    let whole = send_all(&body, &server, b"the head").await;
                    drop(server);
                    whole
                };
                let filled = async {
                    for piece in content(3, 0, bytes).chunks(50_001) {
                        writer.append(piece).unwrap();
                        tokio::task::yield_now().await;
                    }
                    writer.finish()
                };
                let receiving = async {
                    let mut received = Vec::new();
                    client.read_to_end(&mut received).await.unwrap();
                    received
                };
                let (whole, finished, received) = tokio::join!(sending, filled, receiving);
                assert!(whole && finished);
                assert!(received.strip_prefix(b"the head").unwrap() == content(3, 0, bytes));
            }
        }
        assert_nothing_leaks(&store);
    }
}

#[tokio::test]
async fn a_window_of_a_body_is_sent() {
    let store = store(SMALL);
    for bytes in [5000, 100_000] {
        let body = filled(&store, 4, bytes).unwrap();
        let (server, mut client) = connected().await;
        assert_eq!(body.send(&server, 1000, 2000, b"", false).unwrap(), 2000);
        assert_eq!(
            body.send(&server, bytes as u64 - 10, 2000, b"xy", false)
                .unwrap(),
            12
        );
        assert_eq!(
            body.send(&server, bytes as u64, 2000, b"z", false).unwrap(),
            1
        );
        assert_eq!(
            body.send(&server, bytes as u64, 2000, b"", false).unwrap(),
            0
        );
        drop(server);
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        let expected = [
            content(4, 1000, 2000),
            b"xy".to_vec(),
            content(4, bytes as u64 - 10, 10),
            b"z".to_vec(),
        ];
        assert!(received == expected.concat());
    }
}

#[tokio::test]
async fn a_cut_body_is_sent() {
    let store = store(SMALL);
    let mut writer = store.fill(Some(120_000)).unwrap();
    writer.append(&content(4, 0, 100_000)).unwrap();
    let body = writer.cut();
    let (server, mut client) = connected().await;
    let receiving = async {
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        received
    };
    let sending = async {
        assert!(send_all(&body, &server, b"").await);
        drop(server);
    };
    let (received, ()) = tokio::join!(receiving, sending);
    assert!(received == content(4, 0, 100_000));
}

/// What a client has not read stays what it was in its queue when the body is gone and others are stored in its memory.
#[tokio::test]
async fn what_is_in_a_queue_outlives_its_body() {
    let store = store(Limits {
        bytes: 8 << 20,
        objects: 1000,
        object_bytes_max: 1 << 20,
    });
    let mut clients = Vec::new();
    for seed in 0..16_u64 {
        let object = put(&store, "page", seed, 1 << 20).unwrap();
        let (server, client) = connected().await;
        let mut sent = 0;
        loop {
            match object.body().send(&server, sent, u64::MAX, b"", false) {
                Ok(now) => sent += now as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
            if sent == 1 << 20 {
                break;
            }
        }
        assert!(sent > 100_000, "{sent}");
        store.purge(&Pattern::All, Purge::Remove, None);
        clients.push((seed, server, client, sent));
    }
    assert_nothing_leaks(&store);
    for seed in 100..140 {
        put(&store, &seed.to_string(), seed, 900_000).unwrap();
    }
    for (seed, server, mut client, sent) in clients {
        drop(server);
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        assert_eq!(received.len() as u64, sent);
        assert!(received == content(seed, 0, received.len()));
    }
}
