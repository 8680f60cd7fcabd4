//! Properties of whole streams: random messages, cut anywhere, come out unchanged.
use crate::checks;
use carrick_logic::http1::{
    BodyLength, Chunked, HeadLimits, Method, Piece, Progress, RequestHead, ResponseBody,
    ResponseHead,
};
use proptest::collection::vec;
use proptest::prelude::*;

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 4096,
    fields_max: 64,
};

/// A body, and how it is framed.
#[derive(Debug, Clone)]
enum Body {
    None,
    Length(Vec<u8>),
    Chunked {
        chunks: Vec<Vec<u8>>,
        extension: bool,
        trailer: bool,
    },
}

impl Body {
    fn content(&self) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Length(content) => content.clone(),
            Self::Chunked { chunks, .. } => chunks.concat(),
        }
    }

    /// The framing field, and the body as sent.
    fn written(&self) -> (String, Vec<u8>) {
        match self {
            Self::None => (String::new(), Vec::new()),
            Self::Length(content) => (
                format!("Content-Length: {}\r\n", content.len()),
                content.clone(),
            ),
            Self::Chunked {
                chunks,
                extension,
                trailer,
            } => {
                let extension = if *extension { ";name=\"a value\"" } else { "" };
                let mut body = Vec::new();
                for chunk in chunks {
                    body.extend_from_slice(format!("{:X}{extension}\r\n", chunk.len()).as_bytes());
                    body.extend_from_slice(chunk);
                    body.extend_from_slice(b"\r\n");
                }
                body.extend_from_slice(if *trailer {
                    b"0\r\nX-Sum: 1\r\n\r\n"
                } else {
                    b"0\r\n\r\n"
                });
                ("transfer-encoding:chunked\r\n".to_owned(), body)
            }
        }
    }
}

fn body() -> impl Strategy<Value = Body> {
    let content = || vec(any::<u8>(), 1..60);
    prop_oneof![
        Just(Body::None),
        content().prop_map(Body::Length),
        (vec(content(), 0..5), any::<bool>(), any::<bool>()).prop_map(
            |(chunks, extension, trailer)| Body::Chunked {
                chunks,
                extension,
                trailer
            }
        ),
    ]
}

fn fields() -> impl Strategy<Value = String> {
    vec(
        "X-[A-Za-z0-9]{1,9}:[ \t]{0,2}[!-~]{0,12}[ \t]{0,2}\r\n",
        0..5,
    )
    .prop_map(|lines| lines.concat())
}

/// A connection's bytes, revealed by reads of the given sizes: `bytes()` is what has arrived and was not consumed.
struct Reader<'a> {
    stream: &'a [u8],
    position: usize,
    read: usize,
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
}

impl<'a> Reader<'a> {
    fn new(stream: &'a [u8], sizes: &'a [usize]) -> Self {
        Self {
            stream,
            position: 0,
            read: 0,
            sizes: sizes.iter().cycle(),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        &self.stream[self.position..self.read]
    }

    fn read_more(&mut self) {
        assert!(
            self.read < self.stream.len(),
            "the stream is over before the message"
        );
        self.read = self
            .stream
            .len()
            .min(self.read + self.sizes.next().copied().unwrap_or(1));
    }

    fn consume(&mut self, length: usize) -> &'a [u8] {
        let consumed = &self.bytes()[..length];
        self.position += length;
        consumed
    }

    fn take(&mut self, length: u64) -> Vec<u8> {
        while (self.bytes().len() as u64) < length {
            self.read_more();
        }
        self.consume(length as usize).to_vec()
    }

    fn take_chunked(&mut self) -> Vec<u8> {
        let mut chunked = Chunked::new();
        let mut content = Vec::new();
        loop {
            match chunked.next(self.bytes()).unwrap() {
                Piece::NeedMore => self.read_more(),
                Piece::Framing(length) => drop(self.consume(length)),
                Piece::Data(length) => content.extend_from_slice(self.consume(length)),
                Piece::End(length) => {
                    self.consume(length);
                    return content;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pipelined_requests_come_out_as_they_went_in(
        requests in vec((fields(), body(), 0..3_usize), 1..6),
        sizes in vec(1..90_usize, 1..8),
    ) {
        let mut stream = Vec::new();
        for (index, (fields, body, empty_lines)) in requests.iter().enumerate() {
            let (framing, content) = body.written();
            let empty_lines = "\r\n".repeat(*empty_lines);
            let head = format!("{empty_lines}PUT /{index} HTTP/1.1\r\n{fields}Host: h\r\n{framing}\r\n");
            stream.extend_from_slice(head.as_bytes());
            stream.extend_from_slice(&content);
        }
        let mut reader = Reader::new(&stream, &sizes);
        let mut head = RequestHead::new();
        for (index, (fields, body, _)) in requests.iter().enumerate() {
            loop {
                reader.consume(RequestHead::leading_empty_lines(reader.bytes()));
                if head.parse(reader.bytes(), &LIMITS).unwrap() == Progress::Complete {
                    break;
                }
                reader.read_more();
            }
            let bytes = reader.consume(head.head_bytes);
            let path = format!("/{index}");
            prop_assert_eq!(head.path.of(bytes), path.as_bytes());
            let framing_fields = usize::from(!matches!(body, Body::None));
            prop_assert_eq!(head.fields.len(), fields.matches('\n').count() + 1 + framing_fields);
            let content = match head.body {
                BodyLength::None => Vec::new(),
                BodyLength::Bytes(length) => reader.take(length),
                BodyLength::Chunked => reader.take_chunked(),
            };
            prop_assert_eq!(content, body.content());
        }
        prop_assert_eq!(reader.position, stream.len());
    }

    #[test]
    fn responses_come_out_as_they_went_in(
        responses in vec((fields(), body(), any::<bool>(), 200..600_u16), 1..6),
        sizes in vec(1..90_usize, 1..8),
    ) {
        let mut stream = Vec::new();
        for (fields, body, interim, status) in &responses {
            if *interim {
                stream.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            let (framing, content) = body.written();
            let framing = if framing.is_empty() { "Content-Length: 0\r\n".to_owned() } else { framing };
            stream.extend_from_slice(format!("HTTP/1.1 {status} R\r\n{fields}{framing}\r\n").as_bytes());
            if !matches!(status, 204 | 304) {
                stream.extend_from_slice(&content);
            }
        }
        let mut reader = Reader::new(&stream, &sizes);
        let mut head = ResponseHead::new();
        for (_, body, interim, status) in &responses {
            let mut interim_heads = 0;
            loop {
                match head.parse(reader.bytes(), Method::Get, &LIMITS).unwrap() {
                    Progress::Partial => reader.read_more(),
                    Progress::Complete => {
                        reader.consume(head.head_bytes);
                        if !head.is_interim() {
                            break;
                        }
                        interim_heads += 1;
                    }
                }
            }
            prop_assert_eq!((interim_heads, head.status), (usize::from(*interim), *status));
            let content = match head.body {
                ResponseBody::None => Vec::new(),
                ResponseBody::Bytes(length) => reader.take(length),
                ResponseBody::Chunked => reader.take_chunked(),
                ResponseBody::UntilClose | ResponseBody::Tunnel => unreachable!("all have a length"),
            };
            let expected = if matches!(status, 204 | 304) { Vec::new() } else { body.content() };
            prop_assert_eq!(content, expected);
        }
        prop_assert_eq!(reader.position, stream.len());
    }
}

/// Pieces of heads, valid and invalid, so that random sequences come close to interesting cases.
fn head_piece() -> impl Strategy<Value = String> {
    let known = [
        "GET ",
        "POST ",
        "CONNECT ",
        "OPTIONS ",
        "/",
        "*",
        "http://h",
        "a:1",
        "?q",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        " ",
        "\t",
        ":",
        ",",
        "Host: h\r\n",
        "Host: [::1]:8\r\n",
        "Content-Length: 3\r\n",
        "Content-Length: ",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: ",
        "chunked",
        "Connection: ",
        "close",
        "keep-alive",
        "upgrade",
        "X-A",
        "X-A: b\r\n",
        "Upgrade: websocket\r\n",
        "TE: x\r\n",
        "Expect: 100-continue\r\n",
        "Forwarded: for=x\r\n",
        "X-Forwarded-For: 1\r\n",
        "Via: 1.1 x\r\n",
        "Max-Forwards: 3\r\n",
        "Trailer: x\r\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 204 \r\n",
        "HTTP/1.1 101 S\r\n",
        "\u{0}",
        "\u{7f}",
        "\u{e9}",
        "5",
        "0",
        "\"",
    ];
    prop_oneof![
        8 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => "[ -~]{0,6}",
    ]
}

fn head_text(start: &'static str) -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), any::<bool>(), vec(head_piece(), 0..14)).prop_map(
        move |(first, begins, pieces)| {
            let mut bytes = vec![first];
            if begins {
                bytes.extend_from_slice(start.as_bytes());
            }
            bytes.extend_from_slice(pieces.concat().as_bytes());
            bytes.extend_from_slice(b"\r\n\r\n");
            bytes
        },
    )
}

fn chunk_piece() -> impl Strategy<Value = String> {
    let known = [
        "0",
        "1",
        "3",
        "a",
        "00",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        ";",
        "=",
        "\"",
        "\\",
        "x",
        "abc",
        " ",
        "1\r\nx\r\n",
        "0\r\n\r\n",
        "A: b\r\n",
        "Host: x\r\n",
        "ffffffff",
        ";a=b",
        ";a=\"b\"\r\n",
    ];
    proptest::sample::select(known.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn request_heads_of_likely_pieces(text in head_text("GET / HTTP/1.1\r\nHost: h\r\n")) {
        checks::request_head(&text[1..]);
        checks::rewrite_request(&text);
    }

    #[test]
    fn response_heads_of_likely_pieces(text in head_text("HTTP/1.1 200 OK\r\n")) {
        checks::response_head(&text);
        checks::rewrite_response(&text);
    }

    #[test]
    fn chunked_bodies_of_likely_pieces(pieces in vec(chunk_piece(), 0..12)) {
        checks::chunked(pieces.concat().as_bytes());
    }

    #[test]
    fn arbitrary_bytes(bytes in vec(any::<u8>(), 0..300)) {
        checks::request_head(&bytes);
        checks::response_head(&bytes);
        checks::chunked(&bytes);
        checks::rewrite_request(&bytes);
        checks::rewrite_response(&bytes);
    }

    #[test]
    fn any_words_keep_the_promises_of_the_cache(words in vec(cache_word(), 0..60)) {
        checks::cache(words.concat().as_bytes());
    }
}

/// Pieces that matter to caches, in an order that makes sense only sometimes.
fn cache_word() -> impl Strategy<Value = String> {
    let words = [
        "A0",
        "B1",
        "C7",
        "\n\n",
        "\n",
        "\r\n",
        "Cache-Control: ",
        "CDN-Cache-Control: ",
        "max-age=",
        "s-maxage=5",
        "no-store",
        "no-cache",
        "private",
        "=\"x",
        "\"",
        ", ",
        "must-understand",
        "max-stale",
        "stale-while-revalidate=9",
        "stale-if-error=",
        "60",
        "99999999999",
        "Vary: ",
        "*",
        "x",
        "X: 1",
        "ETag: \"a\"",
        "W/",
        "If-None-Match: \"a\"",
        "Range: bytes=",
        "0-1",
        "-5",
        "3-",
        "If-Range: ",
        "Content-Range: bytes 2-5/10",
        "Age: 3",
        "Date: ",
        "Expires: ",
        "Last-Modified: ",
        "Tue, 14 Nov 2023 22:13:20 GMT",
        "Tue, 14 Nov 2023 22:13:10 GMT",
        "Location: ",
        "../",
        "http://h/",
        "Connection: x",
        "Set-Cookie: a",
        "Accept-Language: ",
        "en;q=0.5",
        "Authorization: b",
        "Pragma: no-cache",
        "Content-Location: /a",
        "Cache-Tag: t",
        "If-Modified-Since: ",
        "only-if-cached",
    ];
    let known = proptest::sample::select(words.to_vec()).prop_map(str::to_owned);
    prop_oneof![9 => known, 1 => "[ -~]{1,3}"]
}
