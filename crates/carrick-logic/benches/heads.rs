//! Times what every request costs in this crate: `cargo bench -p carrick-logic`. It prints figures and judges nothing.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]
use carrick_logic::http1::{
    Chunked, Forwarded, HeadLimits, Method, NamedIn, Piece, RequestHead, RequestRewrite,
    ResponseHead, ResponseRewrite, StatedIn, TargetForm, Version, write_request, write_response,
};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 64 * 1024,
    fields_max: 100,
};

const WRK: &[u8] = b"GET /1k HTTP/1.1\r\nHost: 10.0.1.1:8080\r\n\r\n";

const BROWSER: &[u8] = b"GET /articles/2024/index.html?page=2&order=date HTTP/1.1\r\n\
    Host: www.example.org\r\n\
    Connection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Linux\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-Dest: document\r\n\
    Referer: http://www.example.org/articles/\r\n\
    Accept-Encoding: gzip, deflate\r\n\
    Accept-Language: en-US,en;q=0.9\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\r\n";

const NGINX: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Content-Type: application/octet-stream\r\nContent-Length: 1024\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Connection: keep-alive\r\nETag: \"67000000-400\"\r\nAccept-Ranges: bytes\r\n\r\n";

/// Nanoseconds per call: the best of several rounds, which is the one that was disturbed least.
///
/// `cargo test` runs each call once, to see that it works.
fn time(name: &str, mut call: impl FnMut()) {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, calls) = if is_bench { (12, 50_000) } else { (1, 1) };
    let mut best_ns = f64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        best_ns = best_ns.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
    }
    println!("{name:<44} {best_ns:>8.1} ns");
}

fn main() {
    requests("wrk", WRK);
    requests("browser", BROWSER);
    responses();
    chunked();
}

fn requests(name: &str, bytes: &[u8]) {
    let mut how = RequestRewrite {
        form: TargetForm::Origin,
        default_host: "",
        name: "carrick",
        named_in: NamedIn::Via,
        mark: None,
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        forwarded: Forwarded::Unchanged,
        stated_in: StatedIn::default(),
        pass_proxy_authorization: false,
        pass_upgrade: true,
        pass_te_trailers: false,
        drop_expect: false,
        omitted: &[],
        added: &[],
    };
    let (mut head, mut out) = (RequestHead::new(), Vec::new());
    time(&format!("{name} request: parse"), || {
        let _ = black_box(head.parse(black_box(bytes), &LIMITS));
    });
    let mut rewrite = |how: &RequestRewrite<'_>| {
        out.clear();
        write_request(&mut out, black_box(bytes), &head, how);
        black_box(&out);
    };
    time(&format!("{name} request: rewrite"), || rewrite(&how));
    how.forwarded = Forwarded::XForwarded;
    time(&format!("{name} request: rewrite, X-Forwarded-*"), || {
        rewrite(&how)
    });
}

fn responses() {
    let how = ResponseRewrite {
        via: "carrick",
        client_version: Version::Http11,
        keep_alive: true,
        add_chunked: true,
        pass_upgrade: false,
    };
    let (mut head, mut out) = (ResponseHead::new(), Vec::new());
    time("nginx response: parse", || {
        let _ = black_box(head.parse(black_box(NGINX), Method::Get, &LIMITS));
    });
    time("nginx response: rewrite", || {
        out.clear();
        write_response(&mut out, black_box(NGINX), &head, &how);
        black_box(&out);
    });
}

fn chunked() {
    let body = [b"1000\r\n".as_slice(), &[b'x'; 4096], b"\r\n0\r\n\r\n"].concat();
    time("chunked body of one 4 KB chunk", || {
        let (mut chunked, mut rest) = (Chunked::new(), black_box(body.as_slice()));
        while let Ok(Piece::Framing(length) | Piece::Data(length)) = black_box(chunked.next(rest)) {
            rest = &rest[length..];
        }
    });
}
