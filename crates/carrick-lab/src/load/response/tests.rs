//! Tests of responses: tables of right and wrong ones, and that how they are cut into pieces does not matter.

use super::*;
use crate::content::framing::HEAD_BYTES_MAX;
use crate::load::chance::Chance;
use crate::load::fault::Kind;

const SEED: u64 = 7;

fn body(bytes: usize) -> &'static [u8] {
    Body::of_seed(SEED).piece(0, bytes)
}

fn expected(bytes: u64) -> Expected {
    Expected {
        body_bytes: Some(bytes),
        body: Some(Body::of_seed(SEED)),
        to_connect: false,
    }
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// What a response is found to be, given in the pieces that `cuts` makes: the bytes taken and whether it may be followed by
/// another, or the fault.
fn read(input: &[u8], cuts: &[usize], expected: &Expected) -> Result<(usize, bool), Fault> {
    let mut response = Response::default();
    response.begin();
    let mut from = 0;
    let mut taken = 0;
    for &to in cuts.iter().chain([&input.len()]) {
        let piece = &input[from..to];
        let now = response.take(piece, expected)?;
        assert!(now == piece.len() || response.is_done());
        taken += now;
        if response.is_done() {
            return Ok((taken, response.keeps_alive()));
        }
        from = to;
    }
    response.end(expected)?;
    Ok((taken, response.keeps_alive()))
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";

fn right() -> Vec<(Vec<u8>, bool)> {
    vec![
        (join(&[OK, b"Content-Length: 10\r\n\r\n", body(10)]), true),
        (
            join(&[
                OK,
                b"content-length:10\r\nConnection: x, Close\r\n\r\n",
                body(10),
            ]),
            false,
        ),
        (
            join(&[b"HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\n", body(10)]),
            false,
        ),
        (
            join(&[
                b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 10\r\n\r\n",
                body(10),
            ]),
            true,
        ),
        (join(&[OK, b"\r\n", body(10)]), false),
        (
            join(&[
                OK,
                b"Transfer-Encoding: chunked\r\n\r\na\r\n",
                body(10),
                b"\r\n0\r\n\r\n",
            ]),
            true,
        ),
        (
            join(&[
                OK,
                b"Transfer-Encoding: CHUNKED\r\n\r\n3;a=b\r\n",
                &body(10)[..3],
                b"\r\n007 \r\n",
                &body(10)[3..],
                b"\r\n00\r\nTrailer: 1\r\nOther: 2\r\n\r\n",
            ]),
            true,
        ),
        (
            join(&[
                b"HTTP/1.1 100 Continue\r\n\r\n",
                OK,
                b"Content-Length: 10\r\n\r\n",
                body(10),
            ]),
            true,
        ),
    ]
}

fn wrong() -> Vec<(Vec<u8>, Kind)> {
    let mut changed = join(&[OK, b"Content-Length: 10\r\n\r\n", body(10)]);
    let last = changed.len() - 1;
    changed[last] ^= 1;
    let chunked = b"Transfer-Encoding: chunked\r\n\r\n";
    vec![
        (changed, Kind::WrongByte),
        (Vec::new(), Kind::ClosedEarly),
        (b"HTTP/1.1 200 O".to_vec(), Kind::ClosedEarly),
        (
            join(&[OK, b"Content-Length: 10\r\n\r\n", body(9)]),
            Kind::ClosedEarly,
        ),
        (
            join(&[OK, b"Content-Length: 9\r\n\r\n", body(9)]),
            Kind::WrongLength,
        ),
        (
            join(&[OK, b"Content-Length: 11\r\n\r\n", body(11)]),
            Kind::WrongLength,
        ),
        (join(&[OK, b"\r\n", body(9)]), Kind::WrongLength),
        (join(&[OK, b"\r\n", body(11)]), Kind::WrongLength),
        (
            join(&[OK, chunked, b"9\r\n", body(9), b"\r\n0\r\n\r\n"]),
            Kind::WrongLength,
        ),
        (
            join(&[OK, chunked, b"b\r\n", body(11), b"\r\n0\r\n\r\n"]),
            Kind::WrongLength,
        ),
        (
            join(&[OK, chunked, b"a\r\n", body(10), b"\r\n0\r\n"]),
            Kind::ClosedEarly,
        ),
        (
            join(&[OK, chunked, b"a\r\n", body(10), b"0\r\n\r\n"]),
            Kind::Garbled,
        ),
        (join(&[OK, chunked, b"g\r\n"]), Kind::Garbled),
        (join(&[OK, chunked, b"\r\n"]), Kind::Garbled),
        (join(&[OK, chunked, b"a\n"]), Kind::Garbled),
        (join(&[OK, chunked, b"1000000000000000\r\n"]), Kind::Garbled),
        (
            join(&[OK, b"Content-Length: 10\r\n", chunked]),
            Kind::Garbled,
        ),
        (
            join(&[OK, b"Content-Length: 10\r\nContent-Length: 10\r\n\r\n"]),
            Kind::Garbled,
        ),
        (join(&[OK, b"Content-Length: +10\r\n\r\n"]), Kind::Garbled),
        (join(&[OK, b"Content-Length: \r\n\r\n"]), Kind::Garbled),
        (
            join(&[OK, b"Transfer-Encoding: gzip\r\n\r\n"]),
            Kind::Garbled,
        ),
        (
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_vec(),
            Kind::Status(503),
        ),
        (
            b"HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\n\r\n".to_vec(),
            Kind::Status(206),
        ),
        (b"SSH-2.0-OpenSSH\r\n\r\n".to_vec(), Kind::Garbled),
        (join(&[b"\x00\xff", OK]), Kind::Garbled),
    ]
}

#[test]
fn right_responses_are_taken_whole() {
    for (input, keeps_alive) in right() {
        let words = input.escape_ascii().to_string();
        assert_eq!(
            read(&input, &[], &expected(10)),
            Ok((input.len(), keeps_alive)),
            "{words}"
        );
    }
}

#[test]
fn wrong_responses_are_told_by_kind() {
    for (input, kind) in wrong() {
        let words = input.escape_ascii().to_string();
        let fault = read(&input, &[], &expected(10)).expect_err(&words);
        assert_eq!(fault.kind(), kind, "{words}: {fault}");
    }
}

#[test]
fn cuts_do_not_matter() {
    let all: Vec<Vec<u8>> = right()
        .into_iter()
        .map(|(input, _)| input)
        .chain(wrong().into_iter().map(|(input, _)| input))
        .collect();
    let mut chance = Chance::new(3, 0);
    for input in &all {
        let words = input.escape_ascii().to_string();
        let whole = kind_of(read(input, &[], &expected(10)));
        for at in 0..=input.len() {
            assert_eq!(
                kind_of(read(input, &[at], &expected(10))),
                whole,
                "{words} cut at {at}"
            );
        }
        let every: Vec<usize> = (1..input.len()).collect();
        assert_eq!(
            kind_of(read(input, &every, &expected(10))),
            whole,
            "{words} byte by byte"
        );
        for _ in 0..50 {
            let mut cuts: Vec<usize> = (0..4)
                .map(|_| usize::try_from(chance.below(input.len() as u64 + 1)).unwrap())
                .collect();
            cuts.sort_unstable();
            assert_eq!(
                kind_of(read(input, &cuts, &expected(10))),
                whole,
                "{words} cut at {cuts:?}"
            );
        }
    }
}

/// Faults' words may name what was there until then; their kinds may not differ.
fn kind_of(read: Result<(usize, bool), Fault>) -> Result<(usize, bool), Kind> {
    read.map_err(|fault| fault.kind())
}

#[test]
fn what_follows_is_left() {
    let mut input = join(&[OK, b"Content-Length: 10\r\n\r\n", body(10)]);
    let whole = input.len();
    input.extend_from_slice(b"HTTP/1.1");
    assert_eq!(read(&input, &[], &expected(10)), Ok((whole, true)));
    assert_eq!(read(&input, &[whole - 3], &expected(10)), Ok((whole, true)));
}

#[test]
fn each_wrong_byte_is_found_where_it_is() {
    let bytes = 5000;
    for at in [0, 1, 17, 2500, 4999] {
        let mut wrong = body(bytes).to_vec();
        wrong[at] = wrong[at].wrapping_add(1);
        let input = join(&[OK, b"Content-Length: 5000\r\n\r\n", &wrong]);
        for cut in [0, 45, 1000, 4000] {
            let fault = read(&input, &[cut], &expected(bytes as u64)).unwrap_err();
            let Fault::WrongByte { at: place, .. } = fault else {
                panic!("{fault}");
            };
            assert_eq!(place, at as u64);
        }
    }
    assert!(
        Fault::WrongByte {
            at: 3,
            received: 0x41,
            expected: 7
        }
        .to_string()
        .contains("byte 3 of the body (counted from 0) is 0x41 instead of 0x07")
    );
}

#[test]
fn without_expectations_only_the_framing_counts() {
    let any = Expected::default();
    let input = join(&[OK, b"Content-Length: 3\r\n\r\nabc"]);
    assert_eq!(read(&input, &[], &any), Ok((input.len(), true)));
    let short = join(&[OK, b"Content-Length: 4\r\n\r\nabc"]);
    assert_eq!(
        read(&short, &[], &any).unwrap_err().kind(),
        Kind::ClosedEarly
    );
}

#[test]
fn an_answer_to_connect_has_no_body() {
    let connect = Expected {
        to_connect: true,
        ..Expected::default()
    };
    let input = b"HTTP/1.1 204 Fine\r\nContent-Length: 3\r\n\r\n\x16abc";
    assert_eq!(read(input, &[], &connect).unwrap().0, input.len() - 4);
    assert_eq!(
        read(b"HTTP/1.1 403 No\r\n\r\n", &[], &connect)
            .unwrap_err()
            .kind(),
        Kind::Status(403)
    );
}

#[test]
fn endless_heads_are_refused() {
    let mut response = Response::default();
    let mut result = response.take(OK, &expected(10));
    let mut sent = 0;
    while result.is_ok() && sent < 10 * HEAD_BYTES_MAX {
        sent += 1000;
        result = response.take(
            format!("X-{sent}: {}\r\n", "y".repeat(990)).as_bytes(),
            &expected(10),
        );
    }
    assert_eq!(result.unwrap_err().kind(), Kind::Garbled);
    assert!(sent < 2 * HEAD_BYTES_MAX);
}
