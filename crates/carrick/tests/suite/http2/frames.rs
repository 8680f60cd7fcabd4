//! A client that sends frames one by one, wrong ones, too (RFC 9113).
use crate::support::Peer;
use std::net::SocketAddr;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const PROTOCOL_ERROR: u32 = 1;
pub const ENHANCE_YOUR_CALM: u32 = 11;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The connection.
#[derive(Debug)]
pub struct RawClient {
    pub peer: Peer,
}

/// A frame that has come.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub content: Vec<u8>,
}

/// How a stream ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// With a response.
    Status(u16, Vec<u8>),
    /// With RST_STREAM.
    Reset(u32),
    /// With GOAWAY.
    Closed(u32),
}

impl Frame {
    /// The error of RST_STREAM, or GOAWAY.
    pub fn error(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.content[at..at + 4].try_into().expect("four bytes"))
    }
}

impl RawClient {
    /// Connects, and exchanges settings.
    pub fn connect(to: SocketAddr, settings: &[u8]) -> Self {
        Self::over(Peer::connect(to), settings)
    }

    /// Exchanges settings.
    pub fn over(peer: Peer, settings: &[u8]) -> Self {
        let mut client = Self { peer };
        let settings = frame(SETTINGS, 0, 0, settings);
        client.peer.send([PREFACE, settings.as_slice()].concat());
        client
    }

    /// The server's side of a connection: takes the preface, and sends its settings.
    pub fn accept(mut peer: Peer, settings: &[u8]) -> Self {
        peer.read_exact(PREFACE.len());
        let mut server = Self { peer };
        server.send(SETTINGS, 0, 0, settings);
        server
    }

    /// Sends a frame.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, content: &[u8]) {
        self.peer.send(frame(kind, flags, stream, content));
    }

    /// Sends a request without a body.
    pub fn ask(&mut self, stream: u32, fields: &[(&str, &str)]) {
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, &block(fields));
    }

    /// The next frame; `None`: the connection has ended.
    pub fn read(&mut self) -> Option<Frame> {
        if !self.peer.waits_for_head() {
            return None;
        }
        let head = self.peer.read_exact(9);
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let frame = Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes(head[5..].try_into().expect("four bytes")),
            content: self.peer.read_exact(length as usize),
        };
        Some(frame)
    }

    /// The next frame of this kind.
    pub fn read_kind(&mut self, kind: u8) -> Frame {
        loop {
            match self.read() {
                Some(frame) if frame.kind == kind => return frame,
                Some(_) => {}
                None => panic!("the connection ended before a frame of kind {kind}"),
            }
        }
    }

    /// What becomes of a stream.
    pub fn read_answer(&mut self, stream: u32) -> Answer {
        let (mut status, mut body) = (0, Vec::new());
        while let Some(frame) = self.read() {
            match frame.kind {
                GOAWAY => return Answer::Closed(frame.error()),
                RST_STREAM if frame.stream == stream => return Answer::Reset(frame.error()),
                HEADERS if frame.stream == stream && status == 0 => status = known_status(&frame),
                DATA if frame.stream == stream => body.extend_from_slice(&frame.content),
                _ => continue,
            }
            if frame.stream == stream && frame.flags & END_STREAM != 0 {
                return Answer::Status(status, body);
            }
        }
        panic!("the connection ended after status {status}");
    }
}

/// A frame's bytes (RFC 9113 section 4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("short").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// A field block of literal fields, neither indexed nor compressed (RFC 7541 section 6.2.2).
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            integer(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// RFC 7541 section 5.1, with a prefix of seven bits.
fn integer(block: &mut Vec<u8>, number: usize) {
    let Some(mut rest) = number.checked_sub(127) else {
        return block.push(u8::try_from(number).expect("small"));
    };
    block.push(127);
    while rest >= 128 {
        block.push(u8::try_from(rest % 128).expect("small") | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).expect("small"));
}

/// The status, if it has a place in the static table (RFC 7541 appendix A); 1 if not.
fn known_status(frame: &Frame) -> u16 {
    match frame.content.first() {
        Some(0x88) => 200,
        Some(0x89) => 204,
        Some(0x8b) => 304,
        Some(0x8c) => 400,
        Some(0x8d) => 404,
        Some(0x8e) => 500,
        _ => 1,
    }
}

/// The pseudo-fields of a request for `path`.
pub fn get(path: &'static str) -> [(&'static str, &'static str); 4] {
    [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", path),
    ]
}

/// The same with further fields.
pub fn get_with<'f>(fields: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    [&get("/"), fields].concat()
}
