//! Reading, from a client of the library.
use super::*;
use h2::{client, server};
use http::Request;
use std::future::poll_fn;
use std::pin::pin;

/// Takes from a request with a chunked body, when these pieces and the trailers have come.
fn taken<T>(pieces: &[&'static str], take: impl FnOnce(&mut Incoming) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (client, server) = tokio::join!(client::handshake(near), server::handshake(far));
        let ((mut client, mut driver), mut server) = (client.unwrap(), server.unwrap());
        let request = Request::post("http://a/").body(()).unwrap();
        let (_response, mut sending) = client.send_request(request, false).unwrap();
        for piece in pieces {
            sending
                .send_data(Bytes::from_static(piece.as_bytes()), false)
                .unwrap();
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("checked", "yes".parse().unwrap());
        sending.send_trailers(trailers).unwrap();
        let mut driver = pin!(&mut driver);
        let asked = poll_fn(|cx| {
            let _ = driver.as_mut().poll(cx);
            server.poll_accept(cx)
        });
        let body = asked.await.unwrap().unwrap().0.into_body();
        // Nothing is awaited: all of it comes.
        for _ in 0..10 {
            poll_fn(|cx| {
                let _ = (driver.as_mut().poll(cx), server.poll_closed(cx));
                Poll::Ready(())
            })
            .await;
        }
        take(&mut Incoming::new(RequestBody::Chunked, body))
    })
}

/// What single reads give.
fn reads_of(pieces: &[&'static str], room: usize) -> Vec<String> {
    taken(pieces, |incoming| {
        let mut reads = Vec::new();
        let mut cx = Context::from_waker(Waker::noop());
        while incoming.poll_ready(&mut cx).is_ready() {
            let mut read = Vec::new();
            let count = incoming.read(&mut read, room).unwrap();
            assert_eq!(count, read.len());
            reads.push(String::from_utf8(read).unwrap());
        }
        reads
    })
}

const TRAILERS: &str = "0\r\nchecked: yes\r\n\r\n";

#[test]
fn one_read_takes_what_has_come() {
    let rest = format!("1\r\na\r\n2\r\nbc\r\n{TRAILERS}");
    assert_eq!(reads_of(&["a", "bc"], 1000), [rest]);
}

#[test]
fn no_read_takes_more_than_there_is_room_for() {
    let whole = format!("1\r\na\r\n2\r\nbc\r\n{TRAILERS}");
    for room in 1..20 {
        let reads = reads_of(&["a", "bc"], room);
        assert!(reads.iter().all(|read| read.len() <= room), "{reads:?}");
        assert_eq!(reads.concat(), whole, "{room}");
    }
}

#[test]
fn what_is_not_wanted_is_discarded_and_the_window_opened() {
    taken(&["a", "bc"], |incoming| {
        let window = incoming.body.flow_control().available_capacity();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(incoming.poll_discard(&mut cx).is_ready());
        assert!(incoming.poll_ready(&mut cx).is_pending());
        let flow = incoming.body.flow_control();
        assert_eq!(
            (flow.used_capacity(), flow.available_capacity() - window),
            (0, 3)
        );
    });
}
