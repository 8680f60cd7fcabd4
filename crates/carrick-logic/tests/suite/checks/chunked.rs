//! Chunked bodies: reads may end anywhere, and a laxer reader gets the same content.
use super::heads::is_well_put;
use carrick_logic::http1::{Chunked, LAST_CHUNK, Piece, Refusal, write_chunk_size};

/// Reads a chunked body in pieces of at most `step` bytes; returns its content, and its length if it ended.
fn read_chunked(body: &[u8], step: usize) -> Result<(Vec<u8>, Option<usize>), Refusal> {
    let mut chunked = Chunked::new();
    let (mut content, mut position) = (Vec::new(), 0);
    while position < body.len() {
        let bytes = &body[position..body.len().min(position.saturating_add(step))];
        let left = chunked.data_left();
        let moved = match chunked.next(bytes)? {
            Piece::Framing(length) => length,
            Piece::Data(length) => {
                assert!(length as u64 <= left);
                content.extend_from_slice(&bytes[..length]);
                length
            }
            Piece::End(length) => return Ok((content, Some(position + length))),
            Piece::NeedMore => unreachable!("there are bytes"),
        };
        assert!(0 < moved && moved <= bytes.len());
        position += moved;
    }
    Ok((content, None))
}

/// The forwarded form of a response's body that arrives in pieces of at most `step` bytes, and whether it has ended.
fn tidied(body: &[u8], step: usize) -> Result<(Vec<u8>, bool), Refusal> {
    let mut chunked = Chunked::lenient();
    let (mut out, mut buffer, mut content_bytes) = (Vec::new(), Vec::new(), 0);
    for piece in body.chunks(step) {
        buffer.extend_from_slice(piece);
        let followed = chunked.tidy(&mut buffer, 0, &mut content_bytes)?;
        out.extend(buffer.drain(..followed.bytes));
        if followed.is_over {
            return Ok((out, true));
        }
    }
    Ok((out, false))
}

/// A chunked response: reads may end anywhere; the forwarded form is strict; if the original is strict, its content is the same.
fn chunked_response(body: &[u8]) {
    let whole = tidied(body, usize::MAX);
    for step in [1, 2, 3, 7, 64] {
        assert_eq!(tidied(body, step), whole, "in steps of {step}");
    }
    let strict = read_chunked(body, usize::MAX);
    let Ok((out, is_over)) = whole else {
        assert!(strict.is_err(), "the lenient reader is stricter");
        return;
    };
    let (content, length) = read_chunked(&out, usize::MAX).expect("the forwarded form is valid");
    assert_eq!(length.is_some(), is_over);
    assert!(length.is_none_or(|length| length == out.len()));
    if let Ok((same, _)) = strict {
        assert_eq!(content, same);
    }
}

/// A chunked body: reads may end anywhere; a laxer reader gets the same content; our own encoding can be read back.
pub fn chunked(body: &[u8]) {
    chunked_response(body);
    let whole = read_chunked(body, usize::MAX);
    for step in [1, 2, 3, 7, 64] {
        assert_eq!(read_chunked(body, step), whole, "in steps of {step}");
    }
    let (content, length) = match whole {
        Ok(read) => read,
        Err(refusal) => {
            assert_eq!(refusal.status, 400);
            return is_well_put(&refusal);
        }
    };
    if let Some(length) = length {
        assert_eq!(lax_chunks(&body[..length]), content);
    }
    let mut written = Vec::new();
    for piece in content.chunks(5) {
        write_chunk_size(&mut written, piece.len() as u64);
        written.extend_from_slice(piece);
        written.extend_from_slice(b"\r\n");
    }
    written.extend_from_slice(LAST_CHUNK);
    let length = written.len();
    assert_eq!(
        read_chunked(&written, usize::MAX),
        Ok((content, Some(length)))
    );
}

/// The content according to a reader that takes LF for a line end, and ignores what follows the size.
fn lax_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = body
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(body.len(), |line_feed| line_feed + 1);
        let digits = body
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let size = u64::from_str_radix(&String::from_utf8_lossy(&body[..digits]), 16)
            .map_or(0, |size| size as usize);
        assert!(matches!(
            httparse::parse_chunk_size(body),
            Ok(httparse::Status::Complete(_))
        ));
        if size == 0 {
            return content;
        }
        content.extend_from_slice(&body[end..end + size]);
        body = &body[end + size..];
        body = body
            .strip_prefix(b"\r")
            .unwrap_or(body)
            .strip_prefix(b"\n")
            .unwrap_or_default();
    }
}
