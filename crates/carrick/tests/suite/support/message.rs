//! Responses as a client sees them. Deliberately simple and separate from carrick's own parser, as an independent check.
use super::Peer;

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// The status.
    pub status: u16,
    /// The head, unchanged.
    pub head: String,
    /// The content, without framing.
    pub body: Vec<u8>,
    /// The body with its framing.
    pub raw_body: Vec<u8>,
    /// The lines of the trailer section.
    pub trailers: Vec<String>,
    /// The heads of the interim responses before it.
    pub interim: Vec<String>,
}

impl Response {
    /// A field's value; several lines are joined by `, `.
    pub fn field(&self, name: &str) -> Option<String> {
        field(&self.head, name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The value of a field in a head; several lines are joined by `, `.
pub fn field(head: &str, name: &str) -> Option<String> {
    let values: Vec<&str> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .filter(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
        .collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// The value of `Via` without carrick's loop marks.
pub fn via(head: &str) -> Option<String> {
    let value = field(head, "via")?;
    let mut parts = value.split(" (");
    let first = parts.next()?.to_owned();
    Some(parts.fold(first, |mut text, part| {
        let (mark, rest) = part.split_once(')').expect("a comment");
        assert!(mark.len() == 16 && mark.bytes().all(|digit| digit.is_ascii_hexdigit()));
        text.push_str(rest);
        text
    }))
}

/// The position behind a head's empty line.
pub fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|start| start + 4)
}

pub(super) fn read_response(peer: &mut Peer, method: &str) -> Response {
    let mut interim = Vec::new();
    loop {
        let head = peer.read_head();
        let mut words = head.split([' ', '\r']);
        let version = words.next().unwrap_or_default().to_owned();
        let status: u16 = words
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("not a status line: {head:?}"));
        if (100..200).contains(&status) && status != 101 {
            interim.push(head);
            continue;
        }
        let mut response = Response {
            version,
            status,
            head,
            body: Vec::new(),
            raw_body: Vec::new(),
            trailers: Vec::new(),
            interim,
        };
        let is_tunnel = method == "CONNECT" && (200..300).contains(&status);
        if method == "HEAD" || is_tunnel || matches!(status, 101 | 204 | 304) {
            return response;
        }
        if response.field("transfer-encoding").is_some() {
            read_chunked(peer, &mut response);
        } else if let Some(length) = response.field("content-length") {
            response.body = peer.read_exact(length.parse().expect("a length"));
            response.raw_body.clone_from(&response.body);
        } else {
            response.body = peer.read_to_end();
            response.raw_body.clone_from(&response.body);
        }
        return response;
    }
}

fn read_chunked(peer: &mut Peer, response: &mut Response) {
    let mut take = |peer: &mut Peer, count: usize| {
        let bytes = peer.read_exact(count);
        response.raw_body.extend_from_slice(&bytes);
        bytes
    };
    loop {
        let line = String::from_utf8(take_line(peer, &mut take)).expect("a size line");
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16)
            .unwrap_or_else(|_| panic!("expected a chunk size: {line:?}"));
        if size == 0 {
            break;
        }
        let data = take(peer, size);
        response.body.extend_from_slice(&data);
        assert_eq!(take(peer, 2), b"\r\n", "the end of a chunk");
    }
    loop {
        let line = String::from_utf8_lossy(&take_line(peer, &mut take)).into_owned();
        if line.is_empty() {
            return;
        }
        response.trailers.push(line);
    }
}

/// A line without its CRLF.
fn take_line(peer: &mut Peer, take: &mut impl FnMut(&mut Peer, usize) -> Vec<u8>) -> Vec<u8> {
    loop {
        if let Some(end) = peer
            .buffered()
            .windows(2)
            .position(|window| window == b"\r\n")
        {
            let mut line = take(peer, end + 2);
            line.truncate(end);
            return line;
        }
        peer.fill_or_fail("a line");
    }
}
