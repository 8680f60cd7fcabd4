//! Several responses from the store in as few segments as possible, without one waiting for another.
use super::{Play, get, ok};
use crate::support::Peer;
use std::os::fd::AsRawFd;

/// Number of segments with data that this connection has received: `tcpi_data_segs_in` (linux/tcp.h).
#[expect(unsafe_code, reason = "no library reads this field of TCP_INFO")]
fn segments(peer: &Peer) -> u32 {
    const OFFSET: usize = 152;
    let mut info = [0_u8; 256];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `info` has.
    let outcome = unsafe {
        libc::getsockopt(
            peer.stream().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert!(outcome == 0 && length as usize >= OFFSET + 4);
    u32::from_ne_bytes(info[OFFSET..OFFSET + 4].try_into().unwrap())
}

const FRESH: &str = "Cache-Control: max-age=60\r\nETag: \"v\"\r\n";

#[test]
fn pipelined_hits_share_segments() {
    let play = Play::begin("");
    let bodies: Vec<String> = (0..20).map(|n| format!("body {n}").repeat(n)).collect();
    for (number, body) in bodies.iter().enumerate() {
        play.fetch(&format!("/{number}"), &ok(FRESH, body));
    }
    let mut client = play.carrick.connect();
    let requests: String = (0..20).map(|n| get(&format!("/{n}"), "")).collect();
    client.send(requests);
    let mut bytes = 0;
    for body in &bodies {
        let response = client.read_response("GET");
        assert_eq!(response.text(), *body);
        bytes += response.head.len() + response.raw_body.len();
    }
    // Segments on loopback have up to 64 KB.
    assert!(bytes < 60_000);
    let count = segments(&client);
    assert!(count <= 2, "{bytes} bytes in {count} segments");
    // The same for responses without a body.
    let requests: String = (0..10)
        .map(|n| get(&format!("/{n}"), "If-None-Match: \"v\"\r\n"))
        .collect();
    client.send(requests);
    for _ in 0..10 {
        assert_eq!(client.read_response("GET").status, 304);
    }
    let more = segments(&client) - count;
    assert!(more <= 2, "304s in {more} segments");
}

#[test]
fn one_small_answer_is_one_segment() {
    let play = Play::begin("");
    let body = "x".repeat(3000);
    for path in ["/a", "/b"] {
        let (mut client, mut upstream) = play.carrick.asked(&play.server, get(path, ""));
        upstream.send(ok(FRESH, &body));
        assert_eq!(client.read_response("GET").text(), body);
        assert_eq!(segments(&client), 1, "a miss");
        assert_eq!(client.ask(&get(path, "")).text(), body);
        assert_eq!(segments(&client), 2, "a hit");
    }
    let (mut client, mut upstream) = play.carrick.asked(&play.server, get("/c", ""));
    upstream.send(ok("Cache-Control: no-store\r\n", &body));
    assert_eq!(client.read_response("GET").text(), body);
    assert_eq!(segments(&client), 1, "what passes");
}

/// Responses are not delayed while carrick waits: for the origin, for the rest of a head, or for another response.
#[test]
fn an_answer_does_not_wait_for_the_next_one() {
    let play = Play::begin("");
    play.fetch("/a", &ok(FRESH, "a"));
    let next = [
        get("/miss", ""),
        "GET /half HTTP/1.1\r\n".to_owned(),
        // The end of a head, but not of this one.
        "POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\nab\r\n\r\n".to_owned(),
    ];
    for next in next {
        let mut client = play.carrick.connect();
        client.send(get("/a", "") + &next);
        let begun = std::time::Instant::now();
        assert_eq!(client.read_response("GET").text(), "a");
        // The kernel sends a delayed segment after 200 ms by itself; see tcp_sendmsg(). Not a speed test: it must not come to that.
        let took = begun.elapsed();
        eprintln!("{next:?}: {took:?}");
        assert_eq!(segments(&client), 1);
    }
}
