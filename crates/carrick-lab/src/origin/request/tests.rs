//! Heads as tables: what they mean, and which are refused.

use super::*;

fn with<T>(head: &str, look: impl FnOnce(Result<Option<(usize, Head<'_>)>, Refusal>) -> T) -> T {
    let mut storage: FieldStorage<'_> = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    look(parse(head.as_bytes(), &mut storage))
}

#[test]
fn targets_lose_scheme_and_authority() {
    for (target, path, length) in [
        ("/b/5", "/b/5", None),
        ("/b/5?length=6", "/b/5", Some(6)),
        ("http://origin:80/b/5?length=6", "/b/5", Some(6)),
        ("HTTP://origin", "/", None),
        ("http://origin?length=7", "/", Some(7)),
        ("/go?to=http://elsewhere/b/1", "/go", None),
        ("*", "*", None),
    ] {
        with(
            &format!("GET {target} HTTP/1.1\r\nHost: o\r\n\r\n"),
            |parsed| {
                let (_, head) = parsed.unwrap().unwrap();
                assert_eq!(head.path, path, "{target}");
                if !target.starts_with("/go") {
                    assert_eq!(head.wishes.unwrap().length, length, "{target}");
                }
            },
        );
    }
}

#[test]
fn keep_alive_follows_version_and_connection() {
    for (version, connection, keeps_alive) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: foo, CLOSE\r\n", false),
        (
            "1.1",
            "Connection: close\r\nConnection: keep-alive\r\n",
            false,
        ),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ] {
        let text = format!("GET / HTTP/{version}\r\nHost: o\r\n{connection}\r\n");
        with(&text, |parsed| {
            let (length, head) = parsed.unwrap().unwrap();
            assert_eq!(
                (length, head.keeps_alive),
                (text.len(), keeps_alive),
                "{text}"
            );
        });
    }
}

#[test]
fn framing_and_expectations() {
    for (version, fields, upload, expects) in [
        ("1.1", "", Decoder::Length(0), false),
        ("1.1", "Content-Length: 12\r\n", Decoder::Length(12), false),
        (
            "1.1",
            "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
            Decoder::Chunked(Default::default()),
            true,
        ),
        (
            "1.0",
            "Content-Length: 12\r\nExpect: 100-continue\r\n",
            Decoder::Length(12),
            false,
        ),
    ] {
        with(
            &format!("POST / HTTP/{version}\r\nHost: o\r\n{fields}\r\n"),
            |parsed| {
                let (_, head) = parsed.unwrap().unwrap();
                assert_eq!(
                    (head.upload, head.expects_continue),
                    (upload, expects),
                    "{fields}"
                );
            },
        );
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let many = "A: b\r\n".repeat(FIELDS_MAX + 1);
    let long = format!("A: {}\r\n", "b".repeat(HEAD_BYTES_MAX));
    for (head, status, part) in [
        ("\0\r\n\r\n", 400, "not an HTTP/1 request"),
        ("GET /\r\n\r\n", 400, "not an HTTP/1 request"),
        ("GET / HTTP/2.0\r\n\r\n", 400, "version"),
        ("GET / HTTP/1.1\r\n\r\n", 400, "Host"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "Host"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
            400,
            "Content-Length",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
            400,
            "Content-Length",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            400,
            "twice",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "both",
        ),
        (
            "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "HTTP/1.0",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            501,
            "chunked",
        ),
        (
            &format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"),
            431,
            "fields",
        ),
        (
            &format!("GET / HTTP/1.1\r\nHost: a\r\n{long}\r\n"),
            431,
            "longer",
        ),
    ] {
        with(head, |parsed| {
            let refusal = parsed.unwrap_err();
            assert_eq!(refusal.status, status, "{head:?}: {}", refusal.reason);
            assert!(
                refusal.reason.contains(part),
                "{head:?}: {}",
                refusal.reason
            );
        });
    }
}

#[test]
fn a_head_is_waited_for_and_fields_win_over_the_query() {
    with("GET / HTTP/1.1\r\nHost: o\r\n", |parsed| {
        assert!(parsed.unwrap().is_none())
    });
    with(
        "GET /?length=5&seed=1 HTTP/1.1\r\nHost: o\r\nX-Lab-Length: 6\r\n\r\n",
        |parsed| {
            let wishes = parsed.unwrap().unwrap().1.wishes.unwrap();
            assert_eq!((wishes.length, wishes.seed), (Some(6), Some(1)));
        },
    );
}
