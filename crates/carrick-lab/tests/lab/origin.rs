//! The origin end to end over loopback: curl as a client that is not ours, and raw sockets for what curl hides.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic there is the failure report"
)]

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use carrick_lab::content::Body;
use carrick_lab::load::plan::RequestsPerConnection;
use carrick_lab::origin::body_seed;
use carrick_lab::origin::counters::Summary;
use carrick_lab::origin::handshake::{Exchange, Handshake, Party, Step};
use carrick_lab::origin::page::Page;
use carrick_lab::origin::server::{Running, Settings};
use carrick_lab::testbed::command::find;

const LAB: &str = env!("CARGO_BIN_EXE_carrick-lab");
const PATIENCE: Duration = Duration::from_secs(20);

macro_rules! skip_without_curl {
    () => {
        if find("curl").is_none() {
            eprintln!("SKIPPED: needs curl");
            return;
        }
    };
}

fn start() -> Running {
    Running::start(&Settings::new(vec![([127, 0, 0, 1], 0).into()])).unwrap()
}

/// What curl prints: with `-i` or `-I` the head too.
fn curl(origin: &Running, arguments: &[&str], target: &str) -> Vec<u8> {
    let url = format!("http://{}{target}", origin.addresses()[0]);
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20"])
        .args(arguments)
        .arg(url)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?} {target}: {said}");
    output.stdout
}

/// The same as text, without line ends in the way.
fn curl_text(origin: &Running, arguments: &[&str], target: &str) -> String {
    String::from_utf8_lossy(&curl(origin, arguments, target)).replace('\r', "")
}

fn is_body_of(path: &str, offset: u64, received: &[u8]) {
    let difference = Body::of_seed(body_seed(path)).first_difference(offset, received);
    assert_eq!(difference, None, "{path}");
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request on a connection of its own, and reads to its end: head, body, and whether it ended by a reset.
fn raw(origin: &Running, request: &str) -> (String, Vec<u8>, bool) {
    let mut stream = connect(origin.addresses()[0]);
    stream.write_all(request.as_bytes()).unwrap();
    let mut received = Vec::new();
    let is_reset = match stream.read_to_end(&mut received) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(
                error.kind(),
                ErrorKind::ConnectionReset,
                "{request}: {error}"
            );
            true
        }
    };
    let end = received.windows(4).position(|four| four == b"\r\n\r\n");
    let body = received.split_off(end.map_or(0, |end| end + 4));
    (
        String::from_utf8_lossy(&received).into_owned(),
        body,
        is_reset,
    )
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: o\r\nConnection: close\r\n\r\n")
}

#[test]
fn curl_gets_the_right_bytes_in_every_framing() {
    skip_without_curl!();
    let origin = start();
    for path in ["/b/0", "/b/1/x.gif", "/b/70000.cgi", "/b/3000000"] {
        let bytes: usize = path[3..].split(['/', '.']).next().unwrap().parse().unwrap();
        for query in [
            "",
            "?framing=chunked",
            "?framing=chunked&chunk_bytes=777",
            "?framing=close",
            "?trailers=3",
        ] {
            for version in ["--http1.1", "--http1.0"] {
                let body = curl(&origin, &[version], &format!("{path}{query}"));
                assert_eq!(body.len(), bytes, "{path}{query} {version}");
                is_body_of(path, 0, &body);
            }
        }
    }
    let raw = curl_text(&origin, &["--raw", "-i"], "/b/0?trailers=2");
    assert!(
        raw.ends_with("\n\n0\nX-Lab-Trailer-1: 1\nX-Lab-Trailer-2: 2\n\n"),
        "{raw}"
    );
    let body = curl(
        &origin,
        &["-H", "X-Lab-Length: 500", "-H", "X-Lab-Seed: 9"],
        "/any/thing",
    );
    assert_eq!(body, Body::of_seed(9).piece(0, 500));
}

#[test]
fn curl_asks_for_heads_ranges_and_validators() {
    skip_without_curl!();
    let origin = start();
    let head = curl_text(
        &origin,
        &["-I"],
        "/b/1234?etag=1&last_modified=1&cache=max-age=60",
    );
    for part in [
        "HTTP/1.1 200 OK",
        "Content-Length: 1234",
        "Cache-Control: max-age=60",
    ] {
        assert!(head.contains(part), "{head}");
    }
    let value = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} is missing in {head}"))
            .to_owned()
    };
    let tag = format!("If-None-Match: {}", value("ETag: "));
    let status = ["-o", "/dev/null", "-w", "%{http_code}"];
    let code = |more: &[&str], target: &str| curl_text(&origin, &[&status, more].concat(), target);
    assert_eq!(code(&["-H", &tag], "/b/1234?etag=1"), "304");
    assert_eq!(code(&["-H", &tag], "/b/1235?etag=1"), "200");
    assert_eq!(
        code(
            &["-z", &value("Last-Modified: ")],
            "/b/1234?last_modified=1"
        ),
        "304"
    );
    assert_eq!(
        code(&["-z", "1999-01-01"], "/b/1234?last_modified=1"),
        "200"
    );

    for (range, from, bytes) in [
        ("100-199", 100, 100),
        ("-5", 299_995, 5),
        ("150000-", 150_000, 150_000),
    ] {
        let body = curl(&origin, &["--range", range], "/b/300000");
        assert_eq!(body.len(), bytes, "{range}");
        is_body_of("/b/300000", from, &body);
    }
    assert_eq!(code(&["--range", "5-9"], "/b/10"), "206");
    assert_eq!(code(&["--range", "10-"], "/b/10"), "416");
    let page = Page::of_table_a1(40).unwrap();
    assert_eq!(
        curl(&origin, &["--range", "0-99"], "/a1/40"),
        page.base()[..100]
    );
}

#[test]
fn curl_sends_bodies() {
    skip_without_curl!();
    let origin = start();
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes = 3_000_000;
    let body = Body::of_seed(1);
    let mut whole = Vec::new();
    while whole.len() < bytes {
        whole.extend_from_slice(body.piece(whole.len() as u64, bytes - whole.len()));
    }
    std::fs::write(file.path(), &whole).unwrap();
    let checksum = format!(
        "X-Lab-Received-Crc32: {:08x}",
        crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(&whole)
    );
    let path = file.path().to_str().unwrap();
    // curl asks for `100 Continue` with so long a body.
    for more in [
        &["-X", "POST"][..],
        &["-H", "Transfer-Encoding: chunked"],
        &["--http1.0"],
    ] {
        let answer = curl_text(
            &origin,
            &[&["-i", "-T", path], more].concat(),
            "/b/0?echo=1",
        );
        assert!(
            answer.contains("X-Lab-Received-Bytes: 3000000\n"),
            "{more:?}: {answer}"
        );
        assert!(
            answer.contains(&checksum),
            "{more:?}: {answer}, not {checksum}"
        );
    }
    let answer = curl_text(
        &origin,
        &["-i", "-T", path, "-H", "Expect: 100-continue"],
        "/b/0?echo=1",
    );
    assert!(answer.starts_with("HTTP/1.1 100 Continue\n"), "{answer}");
    assert_eq!(origin.stop().unwrap().received_bytes, 4 * 3_000_000);
}

#[test]
fn curl_keeps_a_connection_and_takes_the_origin_for_a_proxy() {
    skip_without_curl!();
    let origin = start();
    let url = format!("http://{}/b/10", origin.addresses()[0]);
    let connects = |version| {
        curl_text(
            &origin,
            &[
                version,
                "-w",
                "%{num_connects}\n",
                "-o",
                "/dev/null",
                &url,
                "-o",
                "/dev/null",
            ],
            "/b/11",
        )
    };
    assert_eq!(connects("--http1.1"), "1\n0\n");
    assert_eq!(connects("--http1.0"), "1\n1\n");
    let output = Command::new("curl")
        .args([
            "--silent",
            "--proxy",
            &url,
            "http://origin.example/b/100/a?seed=3",
        ])
        .output()
        .unwrap();
    assert_eq!(output.stdout, Body::of_seed(3).piece(0, 100));
}

#[test]
fn pages_have_the_bytes_that_they_promise() {
    let origin = start();
    for page in [
        Page::of_table_a1(35).unwrap(),
        Page::new(3, 30_001).unwrap(),
    ] {
        let (head, base, _) = raw(&origin, &get(page.path()));
        assert!(head.contains("Content-Type: text/html"), "{head}");
        assert_eq!(base, page.base());
        for number in 1..=page.embedded() {
            let path = page.object_path(number);
            let (_, object, _) = raw(&origin, &get(&path));
            assert_eq!(object.len() as u64, page.object_bytes());
            is_body_of(&path, 0, &object);
        }
    }
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let origin = start();
    let mut stream = connect(origin.addresses()[0]);
    let paths: Vec<String> = (0..200)
        .map(|number| format!("/b/{}", number * 997))
        .collect();
    let mut sender = stream.try_clone().unwrap();
    let requests: Vec<String> = paths
        .iter()
        .map(|path| get(path).replace("close", "keep-alive"))
        .collect();
    let sending = std::thread::spawn(move || {
        sender.write_all(requests.concat().as_bytes()).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    sending.join().unwrap();
    let mut rest = &received[..];
    for (number, path) in paths.iter().enumerate() {
        let end = rest
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap()
            + 4;
        let body = &rest[end..end + number * 997];
        is_body_of(path, 0, body);
        rest = &rest[end + number * 997..];
    }
    assert!(rest.is_empty());
    assert_eq!(origin.stop().unwrap().requests, 200);
}

#[test]
fn faults_look_as_described() {
    let origin = start();
    let path = "/b/100000";
    for after in [0, 5000, 99_999] {
        for framing in ["length", "chunked", "close"] {
            let target =
                format!("{path}?fault=reset&after={after}&framing={framing}&chunk_bytes=30000");
            let (head, body, is_reset) = raw(&origin, &get(&target));
            assert!(is_reset && head.starts_with("HTTP/1.1 200"), "{target}");
            if framing != "chunked" {
                assert_eq!(body.len(), after, "{target}");
                is_body_of(path, 0, &body);
            }
        }
        let (head, body, is_reset) =
            raw(&origin, &get(&format!("{path}?fault=close&after={after}")));
        assert!(head.contains("Content-Length: 100000\r\n") && !is_reset);
        assert_eq!(body.len(), after);
        is_body_of(path, 0, &body);
    }
    // A long body goes by sendfile: its reset is as exact.
    let (_, body, is_reset) = raw(&origin, &get("/b/9000000?fault=reset&after=4000001"));
    assert_eq!((body.len(), is_reset), (4_000_001, true));
    is_body_of("/b/9000000", 0, &body);
    assert_eq!(
        origin.summary().sendfile_bytes > 0,
        cfg!(target_os = "linux")
    );

    let started = Instant::now();
    let (_, body, _) = raw(
        &origin,
        &get(&format!("{path}?fault=stall&after=7&stall_ms=300")),
    );
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert_eq!(body.len(), 100_000);
    is_body_of(path, 0, &body);

    let (_, garbage, is_reset) = raw(&origin, &get("/b/5?fault=garbage"));
    assert_eq!((garbage.len(), is_reset), (256, false));
    is_body_of("/b/5", 0, &garbage);
    let (head, nothing, is_reset) = raw(&origin, &get("/b/5?fault=refuse"));
    assert_eq!((head.len(), nothing.len(), is_reset), (0, 0, false));
    let (head, body, _) = raw(&origin, &get("/b/5?fault=long&after=3"));
    assert!(head.contains("Content-Length: 5\r\n"));
    assert_eq!(body.len(), 8);
    let (_, body, is_reset) = raw(&origin, &get("/b/50?fault=bad-chunk&after=10"));
    let expected = [
        b"a\r\n",
        Body::of_seed(body_seed("/b/50")).piece(0, 10),
        b"\r\nzz\r\n",
    ]
    .concat();
    assert_eq!((body, is_reset), (expected, false));

    let made = origin.stop().unwrap().faults;
    let count = |name: &str| made.get(name).copied().unwrap_or(0);
    assert_eq!(
        [
            count("reset"),
            count("close"),
            count("stall"),
            count("garbage")
        ],
        [10, 3, 1, 1]
    );
    assert_eq!(
        [count("refuse"), count("long"), count("bad-chunk")],
        [1, 1, 1]
    );
}

#[test]
fn delay_and_rate_take_their_time() {
    let origin = start();
    let started = Instant::now();
    let (_, body, _) = raw(&origin, &get("/b/10?delay_ms=250"));
    assert!(started.elapsed() >= Duration::from_millis(250));
    assert_eq!(body.len(), 10);
    for framing in ["length", "chunked"] {
        let started = Instant::now();
        // 50 kB at 1 Mbit/s are 400 ms, less the last 10 ms, which are sent at once.
        let (_, body, _) = raw(
            &origin,
            &get(&format!("/b/50000?rate_kbit=1000&framing={framing}")),
        );
        assert!(
            started.elapsed() >= Duration::from_millis(385),
            "{:?}",
            started.elapsed()
        );
        assert!(body.len() >= 50_000);
    }
}

#[test]
fn what_is_no_http_is_refused_and_the_connection_closed() {
    let origin = start();
    for (request, status) in [
        ("GET /\r\n\r\n", "400"),
        (
            "GET / HTTP/1.1\r\n\r\nGET /b/5 HTTP/1.1\r\nHost: o\r\n\r\n",
            "400",
        ),
        (
            "POST / HTTP/1.1\r\nHost: o\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "400",
        ),
        (
            &format!(
                "GET / HTTP/1.1\r\nHost: o\r\nA: {}\r\n\r\n",
                "b".repeat(1_000_000)
            ),
            "431",
        ),
        (&format!("\u{16}{}", "x".repeat(200)), "400"),
    ] {
        let (head, body, is_reset) = raw(&origin, request);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:.60}: {head}"
        );
        assert!(head.contains("Connection: close") && !is_reset && !body.is_empty());
    }
    let summary = origin.stop().unwrap();
    assert_eq!(
        (summary.malformed, summary.requests, summary.aborted),
        (5, 0, 0)
    );
}

#[test]
fn a_handshake_goes_before_http() {
    let origin = start();
    for handshake in [
        Handshake::Full,
        Handshake::Abbreviated,
        Handshake::Abbreviated,
    ] {
        let mut stream = connect(origin.addresses()[0]);
        let mut exchange = Exchange::new(handshake, Party::Client);
        loop {
            match exchange.step() {
                Step::Done => break,
                Step::Send(message) => {
                    stream.write_all(&message).unwrap();
                    exchange.sent();
                }
                Step::Receive(bytes) => {
                    let mut message = vec![0; bytes];
                    stream.read_exact(&mut message).unwrap();
                    assert_eq!(exchange.received(&message), Ok(bytes));
                }
            }
        }
        stream.write_all(get("/b/700").as_bytes()).unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        is_body_of("/b/700", 0, &received[received.len() - 700..]);
    }
    let summary = origin.stop().unwrap();
    assert_eq!(
        (summary.handshakes_full, summary.handshakes_abbreviated),
        (1, 2)
    );
    assert_eq!((summary.requests, summary.malformed), (3, 0));
}

#[test]
fn a_connection_carries_as_many_requests_as_it_may() {
    let mut settings = Settings::new(vec![([127, 0, 0, 1], 0).into()]);
    settings.requests_per_connection = RequestsPerConnection::Fixed(3);
    settings.threads = 2;
    let origin = Running::start(&settings).unwrap();
    for _ in 0..20 {
        let mut stream = connect(origin.addresses()[0]);
        stream
            .write_all(b"GET /b/1 HTTP/1.1\r\nHost: o\r\n\r\n".repeat(5).as_slice())
            .unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        let text = String::from_utf8_lossy(&received);
        let heads: Vec<&str> = text.split("HTTP/1.1 ").skip(1).collect();
        assert_eq!(heads.len(), 3, "{text}");
        let closes = heads.iter().map(|head| head.contains("Connection: close"));
        assert_eq!(closes.collect::<Vec<_>>(), [false, false, true], "{text}");
    }
    let summary = origin.stop().unwrap();
    assert_eq!(
        (summary.connections, summary.requests, summary.body_bytes),
        (20, 60, 60)
    );
}

#[test]
fn the_command_says_when_it_is_ready_and_what_it_did() {
    for signal in ["-TERM", "-INT"] {
        let mut child = Command::new(LAB)
            .args([
                "origin",
                "--listen",
                "127.0.0.1:0",
                "--listen",
                "[::1]:0",
                "--threads",
                "2",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let addresses: Vec<SocketAddr> = (0..2)
            .map(|_| {
                let mut line = String::new();
                output.read_line(&mut line).unwrap();
                line.strip_prefix("ready ").unwrap().trim().parse().unwrap()
            })
            .collect();
        // A connection that is open does not keep it.
        let mut idle = connect(addresses[0]);
        for address in &addresses {
            let mut stream = connect(*address);
            stream
                .write_all(get("/b/1000?fault=close&after=10").as_bytes())
                .unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
        }
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert!(child.wait().unwrap().success());
        let summary: Summary = serde_json::from_str(&rest).unwrap();
        assert_eq!(
            (summary.connections, summary.requests, summary.body_bytes),
            (3, 2, 20)
        );
        assert_eq!(summary.faults.get("close"), Some(&2));
        assert_eq!(
            idle.read(&mut [0]).unwrap_or(0),
            0,
            "its connections are closed"
        );
    }
}

#[test]
fn mistakes_are_explained() {
    let taken = start();
    let address = taken.addresses()[0].to_string();
    for (arguments, part) in [
        (&["--listen", &address][..], "its port free"),
        (&["--listen", &address, "--threads", "2"], "its port free"),
        (
            &["--listen", "192.0.2.1:80"],
            "the address must be this machine's",
        ),
        (
            &["--listen", "127.0.0.1:0", "--threads", "0"],
            "1 to 256 threads, not 0",
        ),
        (
            &[
                "--listen",
                "127.0.0.1:0",
                "--requests-per-connection",
                "zipf:1",
            ],
            "zipf:ALPHA:MAX",
        ),
        (&["--listen", "here"], "invalid socket address"),
        (&[], "--listen"),
    ] {
        let output = Command::new(LAB)
            .arg("origin")
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(part),
            "{arguments:?}: {said}"
        );
    }
}
