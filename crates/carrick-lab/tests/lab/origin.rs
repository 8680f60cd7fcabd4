//! The origin end to end over loopback: curl as a client that is not ours, and raw sockets for what curl hides.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic there is the failure report"
)]

#[path = "origin_raw.rs"]
mod raw;

use carrick_test::PATIENCE;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use carrick_lab::command::find;
use carrick_lab::content::Body;
use carrick_lab::origin::body_seed;
use carrick_lab::origin::counters::Summary;
use carrick_lab::origin::page::Page;
use carrick_lab::origin::server::{Running, Settings};

const LAB: &str = env!("CARGO_BIN_EXE_carrick-lab");

macro_rules! skip_without_curl {
    () => {
        if find("curl").is_none() {
            carrick_test::skip!("needs curl");
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
        .args(["--silent", "--show-error", "--max-time", "600"])
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
        // An open connection does not keep it alive. Its request was answered, so it has been accepted.
        let mut idle = connect(addresses[0]);
        idle.write_all(get("/b/5").replace("Connection: close\r\n", "").as_bytes())
            .unwrap();
        let mut answer = Vec::new();
        while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
            let mut byte = [0];
            idle.read_exact(&mut byte).unwrap();
            answer.extend(byte);
        }
        idle.read_exact(&mut [0; 5]).unwrap();
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
            (3, 3, 25)
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
