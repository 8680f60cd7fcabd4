//! Several ranges in one response: `multipart/byteranges` (RFC 9110 section 14.6), as texts between pieces of the
//! stored body.
use super::ContentRange;
use std::ops::Range;

/// A body of several parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multipart {
    /// What to send, in order.
    pub parts: Vec<Part>,
    /// What comes after the last part.
    pub end: Vec<u8>,
    /// Bytes of the body, all texts included: `Content-Length`.
    pub body_bytes: u64,
    /// The value of the response's `Content-Type`.
    pub content_type: Vec<u8>,
}

/// A part: a text, and bytes of the stored body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The boundary and the part's own field lines.
    pub head: Vec<u8>,
    /// The bytes of the whole representation that follow.
    pub range: Range<u64>,
}

/// Lays out the body for these ranges of a representation of `total_bytes`. `content_type` is the stored one, if any.
///
/// `boundary` must be random, and new for each response: whoever could guess it could put it into the stored body.
#[must_use]
pub fn multipart(
    ranges: Vec<Range<u64>>,
    total_bytes: u64,
    content_type: Option<&[u8]>,
    boundary: u128,
) -> Multipart {
    let boundary = format!("{boundary:032x}");
    let mut body_bytes = 0;
    let mut parts = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut head = Vec::new();
        if !parts.is_empty() {
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"--");
        head.extend_from_slice(boundary.as_bytes());
        if let Some(content_type) = content_type {
            head.extend_from_slice(b"\r\nContent-Type: ");
            head.extend_from_slice(content_type);
        }
        head.extend_from_slice(b"\r\nContent-Range: ");
        ContentRange {
            start: range.start,
            end: range.end,
            total_bytes: Some(total_bytes),
        }
        .write(&mut head);
        head.extend_from_slice(b"\r\n\r\n");
        body_bytes += head.len() as u64 + range.end.saturating_sub(range.start);
        parts.push(Part { head, range });
    }
    let end = format!("\r\n--{boundary}--\r\n").into_bytes();
    body_bytes += end.len() as u64;
    let content_type = format!("multipart/byteranges; boundary={boundary}").into_bytes();
    Multipart {
        parts,
        end,
        body_bytes,
        content_type,
    }
}

#[cfg(test)]
mod tests {
    use super::multipart;

    #[test]
    fn rfc_9110_15_3_7_2_layout() {
        let content = b"0123456789";
        let multipart = multipart(vec![7..9, 0..2], 10, Some(b"text/plain"), 0xabc);
        let mut body = Vec::new();
        for part in &multipart.parts {
            body.extend_from_slice(&part.head);
            body.extend_from_slice(&content[part.range.start as usize..part.range.end as usize]);
        }
        body.extend_from_slice(&multipart.end);
        let boundary = "00000000000000000000000000000abc";
        let expected = format!(
            "--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 7-8/10\r\n\r\n78\r\n\
             --{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\r\n--{boundary}--\r\n"
        );
        assert_eq!(std::str::from_utf8(&body).unwrap(), expected);
        assert_eq!(multipart.body_bytes, body.len() as u64);
        assert_eq!(
            multipart.content_type,
            format!("multipart/byteranges; boundary={boundary}").into_bytes()
        );
    }
}
