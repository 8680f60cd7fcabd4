//! The chunked coding: grammar, limits, and reads that end anywhere.
use super::*;

/// Reads `body` in pieces of at most `step` bytes; returns the content, and the length of the body.
fn read(body: &[u8], step: usize) -> Result<(Vec<u8>, Option<usize>), &'static str> {
    let mut chunked = Chunked::new();
    let (mut content, mut position) = (Vec::new(), 0);
    while position < body.len() {
        let bytes = &body[position..body.len().min(position.saturating_add(step))];
        match chunked.next(bytes).map_err(|refusal| refusal.label)? {
            Piece::Framing(length) => position += length,
            Piece::Data(length) => {
                content.extend_from_slice(&bytes[..length]);
                position += length;
            }
            Piece::End(length) => return Ok((content, Some(position + length))),
            Piece::NeedMore => panic!("the buffer was not empty"),
        }
    }
    Ok((content, None))
}

/// Reads in pieces of every size, which must all give the same result.
fn read_all_ways(body: &[u8]) -> Result<(Vec<u8>, Option<usize>), &'static str> {
    let whole = read(body, usize::MAX);
    for step in 1..=body.len().min(40) {
        assert_eq!(
            read(body, step),
            whole,
            "{} in steps of {step}",
            body.escape_ascii()
        );
    }
    whole
}

#[test]
fn bodies_that_are_accepted() {
    let long_line = format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(252));
    #[rustfmt::skip]
    let table: [(&[u8], &[u8]); 15] = [
        (b"0\r\n\r\n", b""),
        (b"0000000000000000\r\n\r\n", b""),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"05\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", b"01234567890123456789"),
        (b"2\r\n\r\n\r\n0\r\n\r\n", b"\r\n"),
        (b"1;a\r\nx\r\n0;b=c\r\n\r\n", b"x"),
        (b"1 ; a = b\t;c\r\nx\r\n0\r\n\r\n", b"x"),
        (b"1;a=\"b;\\\"\\\\ c\xff\";d\r\nx\r\n0\r\n\r\n", b"x"),
        (b"0\r\nA: b\r\nEmpty:\r\nC:d \r\n\r\n", b""),
        (b"0\r\nHos: a\r\nHosts: b\r\nX-Hostess: c\r\n\r\n", b""),
        (b"0\r\nT: a\r\nTEE: b\r\nETag: c\r\n\r\n", b""),
        (b"0\r\nServer-Timing: \xe9\tx\r\n\r\n", b""),
        (long_line.as_bytes(), b"x"),
        (b"000000000000001\r\nx\r\n0\r\n\r\n", b"x"),
    ];
    for (body, content) in table {
        let with_rest = [body, b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(
            read_all_ways(&with_rest),
            Ok((content.to_vec(), Some(body.len()))),
            "{}",
            body.escape_ascii()
        );
        for end in 0..body.len() {
            let (_, length) = read(&body[..end], usize::MAX).unwrap();
            assert_eq!(length, None, "{} is not over at {end}", body.escape_ascii());
        }
    }
}

#[test]
fn bodies_that_are_refused() {
    let too_long_line = format!("1;{}\r\nx", "e".repeat(253));
    let too_long_trailers = format!("0\r\nA: {}", "x".repeat(8190));
    let many_trailers = format!("0\r\n{}", "a: b\r\n".repeat(2000));
    let table: [(&[u8], &str); 49] = [
        (b"\r\n", "bad_chunk_size"),
        (b" 5\r\n", "bad_chunk_size"),
        (b";a\r\n", "bad_chunk_size"),
        (b"+5\r\n", "bad_chunk_size"),
        (b"-5\r\n", "bad_chunk_size"),
        (b"0x5\r\n", "bad_chunk_size"),
        (b"5h\r\n", "bad_chunk_size"),
        (b"5_0\r\n", "bad_chunk_size"),
        (b"g\r\n", "bad_chunk_size"),
        (b"5\n", "bad_chunk_size"),
        (b"5\x00\r\n", "bad_chunk_size"),
        (b"5 \r\n", "bad_chunk_extension"),
        (b"5 5\r\n", "bad_chunk_extension"),
        (b"5\r5", "bare_cr"),
        (b"5\r\r\n", "bare_cr"),
        (b"00000000000000005\r\n", "chunk_size_too_large"),
        (b"1000000000000001\r\n", "chunk_size_too_large"),
        (b"ffffffffffffffff\r\n", "chunk_size_too_large"),
        (b"10000000000000000\r\n", "chunk_size_too_large"),
        (b"5;\r\n", "bad_chunk_extension"),
        (b"5;;\r\n", "bad_chunk_extension"),
        (b"5;a\n", "bad_chunk_extension"),
        (b"5;\n", "bad_chunk_extension"),
        (b"5;a\rb", "bare_cr"),
        (b"5;=b\r\n", "bad_chunk_extension"),
        (b"5;a=\r\n", "bad_chunk_extension"),
        (b"5;a=b=c\r\n", "bad_chunk_extension"),
        (b"5;a b\r\n", "bad_chunk_extension"),
        (b"5;a \r\n", "bad_chunk_extension"),
        (b"5;a=\"b\r\n", "bad_chunk_extension"),
        (b"5;a=\"b\"c\r\n", "bad_chunk_extension"),
        (b"5;a=\"\\\r\"\r\n", "bad_chunk_extension"),
        (b"5;a=\"\n\"\r\n", "bad_chunk_extension"),
        (too_long_line.as_bytes(), "chunk_line_too_long"),
        (b"1\r\nxy\r\n", "bad_chunk_end"),
        (b"1\r\nx\n0\r\n", "bad_chunk_end"),
        (b"1\r\nx\rz", "bad_chunk_end"),
        (b"1\r\nx0\r\n\r\n", "bad_chunk_end"),
        (b"0\r\n\n", "bad_trailer"),
        (b"0\r\n\rx", "bad_trailer"),
        (b"0\r\nA: b\n\r\n", "bad_trailer"),
        (b"0\r\nA: b\rc", "bad_trailer"),
        (b"0\r\nA : b\r\n", "bad_trailer"),
        (b"0\r\n: b\r\n", "bad_trailer"),
        (b"0\r\n A: b\r\n", "bad_trailer"),
        (b"0\r\nA: b\r\n c\r\n", "bad_trailer"),
        (b"0\r\nA: \x00\r\n", "bad_trailer"),
        (too_long_trailers.as_bytes(), "trailers_too_long"),
        (many_trailers.as_bytes(), "trailers_too_long"),
    ];
    for (body, label) in table {
        assert_eq!(read_all_ways(body), Err(label), "{}", body.escape_ascii());
    }
}

#[test]
fn trailers_that_change_framing_or_routing_are_refused() {
    let names = [
        "Transfer-Encoding",
        "content-length",
        "HOST",
        "Connection",
        "Te",
        "Trailer",
        "Upgrade",
        "Cookie",
        "Set-Cookie",
        "Authorization",
        "Proxy-Authorization",
        "Content-Type",
        "Content-Encoding",
        "Content-Range",
        "Expect",
        "Max-Forwards",
        "Cache-Control",
        "Range",
        "X-Forwarded-For",
        "Forwarded",
        "Location",
        "WWW-Authenticate",
    ];
    for name in names {
        let body = format!("0\r\nx-good: a\r\n{name}: b\r\n\r\n");
        assert_eq!(
            read_all_ways(body.as_bytes()),
            Err("forbidden_trailer"),
            "{name}"
        );
    }
}

/// The result for a trailer with this name: "passed", "dropped", or why the body is refused; however the body is cut.
fn fate_of_trailer(chunked: &Chunked, name: &str) -> &'static str {
    let line = format!("{name}: b\r\n");
    let body = format!("3\r\nabc\r\n0\r\nx-good: a\r\n{line}x-last: c\r\n\r\n");
    let mut fate = None;
    for piece_bytes in [1, 2, 7, body.len()] {
        let mut chunked = chunked.clone();
        let (mut buffer, mut out) = (b"HEAD".to_vec(), String::new());
        let mut pieces = body.as_bytes().chunks(piece_bytes);
        let now = loop {
            buffer.extend_from_slice(pieces.next().expect("it ends"));
            match chunked.tidy(&mut buffer, 4, &mut 0) {
                Ok(Followed { bytes, is_over }) => {
                    out.push_str(std::str::from_utf8(&buffer[4..4 + bytes]).unwrap());
                    buffer.drain(4..4 + bytes);
                    assert!(buffer.starts_with(b"HEAD"));
                    if is_over && out == body {
                        break "passed";
                    } else if is_over {
                        assert_eq!(out, body.replace(&line, ""), "{name}");
                        break "dropped";
                    }
                }
                Err(refusal) => break refusal.label,
            }
        };
        assert_eq!(*fate.get_or_insert(now), now, "{name}");
    }
    fate.unwrap()
}

#[test]
fn trailers_of_requests_that_proxies_write_or_gateways_take_for_others_do_not_pass() {
    let fate = |policy, name: &str| fate_of_trailer(&Chunked::of_request(policy), name);
    let (odd, forbidden) = ("odd_field_name", "forbidden_trailer");
    for (name, by_default, refusing, passing, of_response) in [
        ("X-Checksum", "passed", "passed", "passed", "passed"),
        ("X_Checksum", "dropped", odd, "passed", "passed"),
        ("X.Checksum", "dropped", odd, "passed", "passed"),
        (
            "A-name-longer-than-all-that-are-looked-for",
            "passed",
            "passed",
            "passed",
            "passed",
        ),
        (
            "A-name-longer-than-all-that-are_looked-for",
            "dropped",
            odd,
            "passed",
            "passed",
        ),
        ("X_Forwarded_For", "dropped", odd, "dropped", "passed"),
        (
            "x-forwarded_some-thing-that-is-not-known",
            "dropped",
            odd,
            "dropped",
            "passed",
        ),
        ("X_REAL.IP", "dropped", odd, "dropped", "passed"),
        ("CDN_Loop", "dropped", odd, "dropped", "passed"),
        ("Content_Type", "dropped", odd, forbidden, "passed"),
        ("Content-Type", forbidden, forbidden, forbidden, forbidden),
        (
            "Transfer-Encoding",
            forbidden,
            forbidden,
            forbidden,
            forbidden,
        ),
        ("X-Real-Ip", "dropped", "dropped", "dropped", forbidden),
        (
            "x-forwarded-port",
            "dropped",
            "dropped",
            "dropped",
            forbidden,
        ),
        ("Forwarded", "dropped", "dropped", "dropped", forbidden),
        ("Via", "dropped", "dropped", "dropped", "passed"),
        ("cdn-loop", "dropped", "dropped", "dropped", "passed"),
        ("Proxy", "dropped", "dropped", "dropped", "passed"),
        ("Proxy-Status", "passed", "passed", "passed", "passed"),
    ] {
        assert_eq!(fate(OddNames::Drop, name), by_default, "{name}");
        assert_eq!(fate(OddNames::Refuse, name), refusing, "{name}");
        assert_eq!(fate(OddNames::Pass, name), passing, "{name}");
        // Servers' own field names pass, except those that carrick itself uses.
        assert_eq!(
            fate_of_trailer(&Chunked::lenient(), name),
            of_response,
            "{name}"
        );
    }
}

#[test]
fn trailers_may_be_as_long_as_is_allowed() {
    let section = format!("{}: b\r\n\r\n", "a".repeat(70_000));
    let body = format!("0\r\n{section}");
    let end_of = |allowed| {
        let (mut chunked, mut rest) = (Chunked::new().with_trailers_of(allowed), body.as_bytes());
        loop {
            match chunked.next(rest).map_err(|refusal| refusal.label)? {
                Piece::End(count) => return Ok(rest.len() - count),
                Piece::Framing(count) => rest = &rest[count..],
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(end_of(section.len()), Ok(0));
    assert_eq!(end_of(section.len() - 1), Err("trailers_too_long"));
}

#[test]
fn content_can_go_by_unseen() {
    let mut chunked = Chunked::new();
    assert_eq!(chunked.data_left(), 0);
    assert_eq!(
        chunked.next(b"1000000000000000\r\nabc"),
        Ok(Piece::Framing(18))
    );
    assert_eq!(chunked.data_left(), 1 << 60);
    assert_eq!(chunked.next(b"abc"), Ok(Piece::Data(3)));
    chunked.skip_data((1 << 60) - 4);
    assert_eq!(chunked.data_left(), 1);
    assert_eq!(chunked.next(b""), Ok(Piece::NeedMore));
    assert_eq!(chunked.next(b"x\r\n"), Ok(Piece::Data(1)));
    assert_eq!(chunked.data_left(), 0);
    assert_eq!(chunked.next(b"\r\n2\r\nab\r\n"), Ok(Piece::Framing(2)));
    assert_eq!(chunked.next(b"2\r\nab\r\n"), Ok(Piece::Framing(3)));
    chunked.skip_data(2);
    assert_eq!(chunked.next(b"\r\n0\r\n\r\n"), Ok(Piece::Framing(2)));
    assert_eq!(chunked.next(b"0\r\n\r\nmore"), Ok(Piece::Framing(3)));
    assert_eq!(chunked.next(b"\r\nmore"), Ok(Piece::End(2)));
    assert_eq!(chunked.next(b"more"), Ok(Piece::End(0)));
}

#[test]
fn a_refused_body_stays_refused() {
    let mut chunked = Chunked::new();
    assert_eq!(
        chunked.next(b"xyz").map_err(|refusal| refusal.label),
        Err("bad_chunk_size")
    );
    for _ in 0..1000 {
        assert_eq!(
            chunked.next(b"0\r\n\r\n").map_err(|refusal| refusal.status),
            Err(400)
        );
    }
}

#[test]
fn sizes_that_are_written_are_read_again() {
    for bytes in [1, 9, 10, 15, 16, 255, 256, 65_535, 1 << 20, CHUNK_BYTES_MAX] {
        let mut out = Vec::new();
        write_chunk_size(&mut out, bytes);
        assert_eq!(out, format!("{bytes:x}\r\n").into_bytes());
        let mut chunked = Chunked::new();
        assert_eq!(chunked.next(&out), Ok(Piece::Framing(out.len())));
        assert_eq!(chunked.data_left(), bytes);
    }
    let mut chunked = Chunked::new();
    assert_eq!(chunked.next(LAST_CHUNK), Ok(Piece::Framing(3)));
    assert_eq!(chunked.next(b"\r\n"), Ok(Piece::End(2)));
}

/// The forwarded form of `body` when it arrives in pieces of at most `step` bytes, and the bytes left at its end.
fn tidied(body: &[u8], step: usize) -> Result<(Vec<u8>, Option<Vec<u8>>), &'static str> {
    let mut chunked = Chunked::lenient();
    let (mut out, mut buffer, mut content_bytes) = (Vec::new(), Vec::new(), 0);
    let mut pieces = body.chunks(step);
    for piece in pieces.by_ref() {
        buffer.extend_from_slice(piece);
        let followed = chunked
            .tidy(&mut buffer, 0, &mut content_bytes)
            .map_err(|refusal| refusal.label)?;
        out.extend(buffer.drain(..followed.bytes));
        if followed.is_over {
            buffer.extend(pieces.flatten());
            return Ok((out, Some(buffer)));
        }
    }
    Ok((out, None))
}

#[test]
fn responses_in_lax_chunks_go_on_in_strict_ones() {
    let zeros = format!("{}5\r\nhello\r\n0\r\n\r\n", "0".repeat(253));
    #[rustfmt::skip]
    let table: [(&str, &str); 13] = [
        ("5\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("5 \r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("5\t \r\nhello\r\n0 \r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("05\r\nhello\r\n00\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("000000000000000000005\r\nhello\r\n0000000000000000000000\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        (&zeros, "5\r\nhello\r\n0\r\n\r\n"),
        ("00A \r\n0123456789\r\nA\r\n0123456789\r\n1 \r\nx\r\n0\r\n\r\n", "a\r\n0123456789\r\nA\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n"),
        ("1;a=b\r\nx\r\n0;c\r\n\r\n", "1;a=b\r\nx\r\n0;c\r\n\r\n"),
        ("1;a=b \r\nx\r\n01;c\r\ny\r\n0\r\n\r\n", "1\r\nx\r\n1\r\ny\r\n0\r\n\r\n"),
        ("5 \r\n5 \r\n \r\n0 \r\n\r\n", "5\r\n5 \r\n \r\n0\r\n\r\n"),
        ("1 ;a= b\r\nx\r\n0\r\n\r\n", "1\r\nx\r\n0\r\n\r\n"),
        ("0 \r\nA: b\r\n\r\n", "0\r\nA: b\r\n\r\n"),
        ("00\r\nA: b\r\nC: d\r\n\r\n", "0\r\nA: b\r\nC: d\r\n\r\n"),
    ];
    for (body, expected) in table {
        let with_rest = format!("{body}0 \r\n\r\n");
        let expected = (expected.into(), Some(b"0 \r\n\r\n".to_vec()));
        for step in [1, 2, 3, 4, 5, 7, 11, 4096] {
            let seen = tidied(with_rest.as_bytes(), step);
            assert_eq!(seen.as_ref(), Ok(&expected), "{body:?} in steps of {step}");
        }
    }
}

#[test]
fn a_size_line_goes_on_only_when_it_is_whole() {
    for begun in ["5", "5 ", "000", "5;a=\"b"] {
        assert_eq!(tidied(begun.as_bytes(), 1), Ok((vec![], None)), "{begun:?}");
        let body = format!("1\r\nx\r\n{begun}");
        let (out, rest) = tidied(body.as_bytes(), 1).unwrap();
        assert_eq!(
            (out.as_slice(), rest),
            (b"1\r\nx\r\n".as_slice(), None),
            "{begun:?}"
        );
    }
}

#[test]
fn responses_in_chunks_that_can_be_read_in_two_ways_are_refused() {
    let long = format!("{}5\r\n", "0".repeat(254));
    for (body, label) in [
        (" 5\r\n", "bad_chunk_size"),
        ("5\n", "bad_chunk_size"),
        ("5 \n", "bad_chunk_extension"),
        ("5 \r ", "bare_cr"),
        ("5 5\r\n", "bad_chunk_extension"),
        ("5;\r\n", "bad_chunk_extension"),
        ("5; \r\n", "bad_chunk_extension"),
        ("5;a= \r\n", "bad_chunk_extension"),
        ("0x5\r\n", "bad_chunk_size"),
        ("-5\r\n", "bad_chunk_size"),
        ("5\x0b\r\n", "bad_chunk_size"),
        ("01000000000000001\r\n", "chunk_size_too_large"),
        ("00ffffffffffffffff\r\n", "chunk_size_too_large"),
        ("0000010000000000000000\r\n", "chunk_size_too_large"),
        (&long, "chunk_line_too_long"),
        ("1\r\nxy\r\n", "bad_chunk_end"),
        ("1 \r\nx\n", "bad_chunk_end"),
        ("0 \r\nA : b\r\n", "bad_trailer"),
        ("0 \r\nContent-Length: 5\r\n", "forbidden_trailer"),
    ] {
        for step in [1, 2, 3, 4096] {
            let seen = tidied(body.as_bytes(), step);
            assert_eq!(seen, Err(label), "{body:?} in steps of {step}");
        }
    }
}
