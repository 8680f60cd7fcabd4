//! Streams to a server that a test plays frame by frame, in virtual time.
use super::super::super::testing::{End, pair};
use super::*;
use crate::net::io::{read_some, write_all};
use carrick_logic::http1::HeadLimits;
use std::time::Duration;
use tokio::task::LocalSet;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PREFACE_BYTES: usize = 24;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// `:status: 200`, of the static table.
const OK: &[u8] = &[0x88];
const NO_CONTENT: &[u8] = &[0x89];
const NOT_MODIFIED: &[u8] = &[0x8b];

/// `:status: 200` and `content-length: 5`.
const FIVE_BYTES: &[u8] = &[0x88, 0x0f, 0x0d, 1, b'5'];

/// The server's end, and the connection to it.
struct Play {
    there: Rc<End>,
    connection: Rc<ServerConnection>,
    heard: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], content].concat()
}

/// Lets everybody do what there is to do; no time passes.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

impl Play {
    /// An open connection.
    async fn begin() -> Self {
        let address = |port| ([127, 0, 0, 1], port).into();
        let [here, there] = pair([address(1), address(2)]);
        let limits = HeadLimits {
            head_bytes_max: 64 * 1024,
            fields_max: 100,
        };
        let begun = ServerConnection::begin(Transport::Memory(here), address(2), limits, || {});
        let (connection, framing) = begun.await.unwrap();
        tokio::task::spawn_local(Rc::clone(&connection).drive(framing));
        there.say(frame(SETTINGS, 0, 0, &[])).await;
        connection.opened().await.unwrap();
        Self {
            there,
            connection,
            heard: Vec::new(),
        }
    }

    /// Asks for this, and reads the answer up to `end`, when the server has sent `frames`.
    async fn ask(&self, request: &str, frames: &[Vec<u8>], end: &str) {
        let stream = self.connection.stream(0).unwrap();
        write_all(&*stream, request.as_bytes()).await.unwrap();
        settle().await;
        self.there.say(frames.concat()).await;
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            read.reserve(1000);
            read_some(&*stream, &mut read).await.unwrap();
        }
    }

    /// The codes of the streams that are reset, once everybody waits.
    async fn resets(&mut self) -> Vec<u8> {
        settle().await;
        self.heard.reserve(10_000);
        // Nothing new may have come.
        let _ = self.there.read_now(&mut self.heard);
        let mut frames = &self.heard[PREFACE_BYTES..];
        let mut codes = Vec::new();
        while let [0, high, low, kind, ..] = *frames {
            let whole = 9 + usize::from(u16::from_be_bytes([high, low]));
            if kind == RST_STREAM {
                codes.push(frames[whole - 1]);
            }
            frames = &frames[whole..];
        }
        codes
    }
}

fn run(play: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    LocalSet::new().block_on(&runtime.unwrap(), play);
}

const CANCEL: &[u8] = &[8];
const END: &str = "\r\n\r\n";

#[test]
fn a_stream_that_ends_behind_its_response_is_not_reset() {
    let head = |block| vec![frame(HEADERS, END_HEADERS, 1, block)];
    let hello = frame(DATA, 0, 1, b"hello");
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    let cases = [
        (
            GET,
            [head(FIVE_BYTES), vec![hello.clone()]].concat(),
            "hello",
        ),
        (post, [head(FIVE_BYTES), vec![hello]].concat(), "hello"),
        ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", head(OK), END),
        (GET, head(NO_CONTENT), END),
        (GET, head(NOT_MODIFIED), END),
    ];
    for (request, frames, end) in cases {
        run(async {
            let mut play = Play::begin().await;
            play.ask(request, &frames, end).await;
            assert_eq!(play.resets().await, [0; 0], "{request}");
            assert_eq!(play.connection.streams(), 1);
            play.there.say(frame(DATA, 0, 1, b"")).await;
            play.there.say(frame(DATA, END_STREAM, 1, b"")).await;
            assert_eq!(play.resets().await, [0; 0], "{request}");
            assert_eq!(play.connection.streams(), 0);
        });
    }
}

#[test]
fn a_stream_that_does_not_end_is_reset_after_a_while() {
    run(async {
        let mut play = Play::begin().await;
        let head = frame(HEADERS, END_HEADERS, 1, NO_CONTENT);
        play.ask(GET, &[head], END).await;
        tokio::time::advance(Duration::from_millis(900)).await;
        assert_eq!(play.resets().await, [0; 0]);
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(play.resets().await, CANCEL);
        assert_eq!(play.connection.streams(), 0);
    });
}

#[test]
fn content_behind_a_response_resets_its_stream_at_once() {
    run(async {
        let mut play = Play::begin().await;
        let head = frame(HEADERS, END_HEADERS, 1, NO_CONTENT);
        play.ask(GET, &[head], END).await;
        play.there.say(frame(DATA, 0, 1, b"surplus")).await;
        assert_eq!(play.resets().await, CANCEL);
        assert_eq!(play.connection.streams(), 0);
    });
}

#[test]
fn what_is_given_up_is_reset_at_once() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nhi";
    let head = frame(HEADERS, END_HEADERS, 1, FIVE_BYTES);
    let hello = frame(DATA, 0, 1, b"hello");
    for (request, frames, end) in [
        (post, vec![head.clone(), hello], "hello"),
        (GET, vec![head, frame(DATA, 0, 1, b"hell")], "hell"),
    ] {
        run(async {
            let mut play = Play::begin().await;
            play.ask(request, &frames, end).await;
            assert_eq!(play.resets().await, CANCEL, "{request}");
            assert_eq!(play.connection.streams(), 0);
        });
    }
}

#[test]
fn unended_streams_end_with_their_connection() {
    run(async {
        let mut play = Play::begin().await;
        let head = frame(HEADERS, END_HEADERS, 1, NO_CONTENT);
        play.ask(GET, &[head], END).await;
        assert_eq!(play.resets().await, [0; 0]);
        play.there.reset();
        settle().await;
        assert_eq!(play.connection.streams(), 0);
    });
}

/// What is to tell it of the end waits behind a body that it does not read.
#[test]
fn a_connection_to_a_server_that_has_hung_is_closed() {
    run(async {
        let play = Play::begin().await;
        // It allows twice as much as it has room for.
        let window = frame(SETTINGS, 0, 0, &[0, 4, 0, 2, 0, 0]);
        let of_connection = frame(WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0]);
        play.there.say([window, of_connection].concat()).await;
        settle().await;
        let stream = play.connection.stream(0).unwrap();
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
        let request = [head.as_bytes(), &[b'x'; 200_000]].concat();
        let sending = tokio::time::timeout(Duration::from_millis(1), write_all(&*stream, &request));
        assert!(sending.await.is_err());
        drop(stream);
        play.connection.end();
        settle().await;
        tokio::time::advance(Duration::from_secs(9)).await;
        settle().await;
        assert_eq!(play.connection.opened().await, Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        settle().await;
        assert_eq!(play.connection.opened().await, Err(Ended::Hung));
    });
}
