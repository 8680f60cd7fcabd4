//! The answers do not depend on how a stream was split.

use std::time::UNIX_EPOCH;

use proptest::prelude::*;

use super::super::handshake::{Exchange, Party, Step, first_message, message};
use super::*;

/// What a connection does with a stream that arrives in these pieces, up to its end or the first refusal: each answer
/// with its head, and at last what was not taken.
fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let date = Date::of(UNIX_EPOCH);
    let mut intake = Intake::default();
    let mut head = Vec::new();
    let mut events = Vec::new();
    let mut exchange = None;
    for mut piece in pieces {
        while !piece.is_empty() {
            let room = intake.room();
            let count = room.len().min(piece.len());
            assert!(count > 0, "there is always room");
            room[..count].copy_from_slice(&piece[..count]);
            intake.filled(count);
            piece = &piece[count..];
            loop {
                if exchange.is_some() && !pass(&mut intake, &mut exchange) {
                    break;
                }
                match intake.next(&date, false, &mut head) {
                    Next::More => break,
                    Next::Continue => events.push("continue".into()),
                    Next::Handshake(handshake) => {
                        events.push(format!("{handshake:?}"));
                        exchange = Some(Exchange::new(handshake, Party::Server));
                    }
                    Next::Answer(answer) => {
                        events.push(format!("{}{answer:?}", String::from_utf8_lossy(&head)));
                    }
                    Next::Malformed(answer) => {
                        events.push(format!("refused {answer:?}"));
                        return events;
                    }
                }
            }
        }
    }
    events.push(format!("left {:?}", intake.pending()));
    events
}

/// Takes what there is of a handshake; whether it is over.
fn pass(intake: &mut Intake, exchange: &mut Option<Exchange>) -> bool {
    while let Some(under_way) = exchange {
        match under_way.step() {
            Step::Done => *exchange = None,
            Step::Send(_) => under_way.sent(),
            Step::Receive(_) if intake.pending().is_empty() => return false,
            Step::Receive(_) => {
                let count = under_way.received(intake.pending()).unwrap();
                intake.consume(count);
            }
        }
    }
    true
}

/// Splits a stream at places that depend on `cuts`.
fn split<'a>(mut stream: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for cut in cuts.iter().cycle() {
        if stream.is_empty() {
            break;
        }
        let (piece, rest) = stream.split_at((*cut).clamp(1, stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let text = |text: &'static str| Just(text.as_bytes().to_vec());
    prop_oneof![
        text("GET /b/10 HTTP/1.1\r\nHost: o\r\n\r\n"),
        text("GET http://o/b/10?etag=1 HTTP/1.1\r\nHost: o\r\nIf-None-Match: *\r\n\r\n"),
        text("HEAD /a1/30 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
        text("\r\nGET /x?what=5 HTTP/1.1\r\nHost: o\r\n\r\n"),
        text("GET /b/99?framing=chunked HTTP/1.1\r\nHost: o\r\nRange: bytes=5-\r\n\r\n"),
        text(
            "POST /b/1?echo=1 HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n12345\r\n0\r\nA: b\r\n\r\n"
        ),
        text(
            "PUT /b/1 HTTP/1.1\r\nHost: o\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"
        ),
        text("GET / HTTP/1.1\r\n\r\n"),
        text("POST / HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"),
        (0..200_000_usize).prop_map(|bytes| {
            let head =
                format!("POST /b/2?echo=1 HTTP/1.1\r\nHost: o\r\nContent-Length: {bytes}\r\n\r\n");
            [head.into_bytes(), vec![b'z'; bytes]].concat()
        }),
        (30_000..36_000_usize).prop_map(|bytes| {
            format!(
                "GET /b/3 HTTP/1.1\r\nHost: o\r\nA: {}\r\n\r\n",
                "b".repeat(bytes)
            )
            .into_bytes()
        }),
    ]
}

fn beginning() -> impl Strategy<Value = Vec<u8>> {
    let whole = |handshake, indices: &[usize]| {
        let messages: Vec<_> = indices
            .iter()
            .map(|&index| message(handshake, index).into_owned())
            .collect();
        Just(messages.concat())
    };
    prop_oneof![
        3 => Just(Vec::new()),
        1 => whole(Handshake::Full, &[0, 2, 4]),
        1 => whole(Handshake::Abbreviated, &[0, 4, 5]),
        1 => Just(vec![0x16; 200]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_split_of_a_stream_gives_the_same_answers(
        beginning in beginning(),
        requests in prop::collection::vec(request(), 0..6),
        cuts in prop::collection::vec(prop_oneof![1..20_usize, 1..5000_usize, 20_000..80_000_usize], 1..20),
    ) {
        let stream = [beginning, requests.concat()].concat();
        prop_assert_eq!(events([&stream[..]]), events(split(&stream, &cuts)));
    }
}

#[test]
fn a_stream_is_taken_byte_by_byte() {
    let mut stream = first_message(Handshake::Abbreviated).to_vec();
    for index in [4, 5] {
        stream.extend_from_slice(&message(Handshake::Abbreviated, index));
    }
    stream.extend_from_slice(b"POST /b/1 HTTP/1.1\r\nHost: o\r\nContent-Length: 2\r\n\r\nabGET /b/2 HTTP/1.1\r\nHost: o\r\n\r\nGE");
    let events = events(stream.chunks(1));
    assert_eq!(events.len(), 4, "{events:?}");
    assert_eq!(events[0], "Abbreviated");
    assert!(
        events[1].contains("Content-Length: 1\r\n") && events[1].contains("received_bytes: 2"),
        "{}",
        events[1]
    );
    assert!(events[2].contains("Content-Length: 2\r\n"), "{}", events[2]);
    assert_eq!(events[3], "left [71, 69]");
}

#[test]
fn the_end_of_a_stream_is_clean_only_between_requests() {
    let date = Date::of(UNIX_EPOCH);
    let feed = |bytes: &[u8]| {
        let mut intake = Intake::default();
        intake.room()[..bytes.len()].copy_from_slice(bytes);
        intake.filled(bytes.len());
        while intake.next(&date, false, &mut Vec::new()) != Next::More {}
        intake.is_between_requests()
    };
    assert!(feed(b""));
    assert!(feed(b"GET /b/2 HTTP/1.1\r\nHost: o\r\n\r\n"));
    assert!(!feed(b"GET /b/2 HT"));
    assert!(!feed(
        b"POST /b/2 HTTP/1.1\r\nHost: o\r\nContent-Length: 1\r\n\r\n"
    ));
}
