//! Bodies of requests, whole and byte by byte.

use super::*;
use crate::content::framing::{Decoder as Framing, HEAD_BYTES_MAX};

/// Feeds a decoder pieces of `piece` bytes; bytes used, and what was received.
fn decode(
    upload: &Framing,
    stream: &[u8],
    piece: usize,
) -> Result<(usize, Option<Received>), Garbled> {
    let mut decoder = Decoder::new(upload.clone(), true);
    let mut used = 0;
    let mut end = 0;
    while end < stream.len() && decoder.finished().is_none() {
        end = stream.len().min(end + piece);
        used += decoder.take(&stream[used..end])?;
    }
    Ok((used, decoder.finished()))
}

#[test]
fn a_body_ends_where_it_should() {
    // CRC-32 of "123456789": the check value of the algorithm's catalogue entry.
    let check = 0xcbf4_3926;
    let chunked = Framing::Chunked(Default::default());
    for piece in [1, 2, 3, 5, 1000] {
        for (upload, stream, used) in [
            (&Framing::Length(9), &b"123456789GET"[..], 9),
            (&chunked, b"9\r\n123456789\r\n0\r\n\r\nGET", 19),
            (
                &chunked,
                b"4;a=b\r\n1234\r\n005 \r\n56789\r\n0\r\nA: b\r\nC: d\r\n\r\nGET",
                43,
            ),
        ] {
            let (really, received) = decode(upload, stream, piece).unwrap();
            let received = received.unwrap();
            assert_eq!((really, received.bytes, received.crc32()), (used, 9, check));
            assert_eq!(&stream[really..], b"GET");
        }
    }
    assert_eq!(decode(&Framing::Length(10), b"123456789", 4), Ok((9, None)));
}

#[test]
fn a_wrong_chunk_is_refused() {
    let chunked = Framing::Chunked(Default::default());
    let long = [b"1;".as_slice(), &[b'a'; HEAD_BYTES_MAX + 1]].concat();
    let trailers = [b"0\r\n".to_vec(), b"A: bcdefg\r\n".repeat(8000)].concat();
    for piece in [1, 7, 100_000] {
        for stream in [
            &b"x\r\n"[..],
            b"\r\n",
            b"-1\r\n",
            b"ffffffffffffffffff\r\n",
            b"1\n2\r\n",
            b"1\r\n22\r\n",
            &long,
            &trailers,
        ] {
            assert!(decode(&chunked, stream, piece).is_err());
        }
    }
}
