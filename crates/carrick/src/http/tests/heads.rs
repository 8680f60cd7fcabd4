//! Reading a request's head: which are refused, how, and how long one is waited for.
use super::stage::{FIRST, FORWARD, GET, OK, SWITCH, ask_once, play, timed};

/// A head, the status of its answer, and the label of the metric.
const REFUSED: &[(&str, u64)] = &[
    ("nonsense\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\nHost : b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n", 400),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        501,
    ),
    ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405),
    (
        "TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n",
        405,
    ),
];

#[test]
fn what_is_no_request_is_answered_and_never_passed_on() {
    for (head, status) in REFUSED {
        let log = play(SWITCH, async |stage| {
            let mut server = stage.server(FIRST);
            let client = stage.client();
            client.say(head).await;
            client.end().unwrap();
            let (answer, is_reset) = client.hear_all().await;
            let line = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&line), "{head:?}: {answer:?}");
            assert!(!is_reset, "{head:?}");
            assert!(server.is_alone(), "{head:?}");
        });
        assert_eq!(log[0].status(), *status, "{head:?}");
        assert_eq!(log.len(), 1, "{head:?}");
    }
}

#[test]
fn what_follows_a_refused_head_is_not_taken_for_a_request() {
    let log = play(SWITCH, async |stage| {
        let client = stage.client();
        client.say(format!("nonsense\r\n\r\n{GET}")).await;
        let (answer, _) = client.hear_all().await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    });
    assert_eq!(log.len(), 1);
}

#[test]
fn heads_beyond_the_limits_are_refused_before_they_are_whole() {
    let name = "a".repeat(3000);
    for (head, status) in [
        (format!("GET /{name}"), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nA: {name}"), 431),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(9)),
            431,
        ),
    ] {
        let limits = "[limits]\nrequest_head = 2048\nheaders = 8\n";
        let log = play(&format!("{limits}{SWITCH}"), async |stage| {
            let client = stage.client();
            client.say(head).await;
            client.hear("\r\n\r\n").await;
        });
        assert_eq!(log[0].status(), status);
    }
}

#[test]
fn empty_lines_before_a_request_are_skipped() {
    play(SWITCH, async |stage| {
        let request = format!("\r\n\r\n{GET}");
        let (heard, (answer, _)) = ask_once(stage, (&request, "\r\n\r\n"), OK).await;
        assert!(heard.starts_with("GET /a HTTP/1.1\r\n"), "{heard}");
        assert!(answer.ends_with("ok"), "{answer}");
    });
}

#[test]
fn a_head_may_come_byte_by_byte() {
    play(SWITCH, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        for byte in GET.bytes() {
            client.say([byte]).await;
            tokio::task::yield_now().await;
        }
        let connection = server.accept().await;
        connection.hear("\r\n\r\n").await;
    });
}

#[test]
fn what_came_before_the_session_belongs_to_the_head() {
    play(SWITCH, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client_after(&GET.as_bytes()[..7]);
        client.say(&GET[7..]).await;
        let heard = server.accept().await.hear("\r\n\r\n").await;
        assert!(heard.starts_with("GET /a HTTP/1.1\r\n"), "{heard}");
    });
}

#[test]
fn a_head_that_does_not_come_in_time_is_answered_408() {
    let log = play(SWITCH, async |stage| {
        let client = stage.client();
        client.say("GET / HTTP/1.1\r\nHo").await;
        let (answer, seconds) = timed(client.hear("\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert_eq!(seconds.round(), 10.0);
    });
    assert_eq!(log[0].end(), (408, "head_timeout"));
}

#[test]
fn a_head_that_trickles_gets_no_more_time() {
    let log = play(SWITCH, async |stage| {
        let client = stage.client();
        let trickling = async {
            loop {
                client.say("a").await;
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        };
        let (answer, seconds) = timed(async {
            tokio::select! {
                answer = client.hear("\r\n\r\n") => answer,
                () = trickling => String::new(),
            }
        })
        .await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!((10.0..11.0).contains(&seconds), "{seconds}");
    });
    assert_eq!(log[0].end(), (408, "head_timeout"));
}

/// The time begins with the request; between requests the idle time-out applies.
#[test]
fn the_second_head_has_its_own_time() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        connection.say(OK).await;
        client.hear("\r\n\r\nok").await;
        for (pause, part) in [(30, &GET[..8]), (8, &GET[8..])] {
            tokio::time::sleep(std::time::Duration::from_secs(pause)).await;
            client.say(part).await;
        }
        connection.hear("\r\n\r\n").await;
        connection.say(OK).await;
        client.hear("\r\n\r\nok").await;
        client.say(&GET[..8]).await;
        let (answer, seconds) = timed(client.hear("\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert_eq!(seconds.round(), 10.0);
    });
    assert_eq!(log[2].end(), (408, "head_timeout"));
}

#[test]
fn a_client_that_says_nothing_is_closed_without_a_word() {
    let log = play(SWITCH, async |stage| {
        let client = stage.client();
        let (heard, seconds) = timed(client.hear_all()).await;
        assert_eq!(heard, (String::new(), false));
        assert_eq!(seconds.round(), 10.0);
    });
    assert!(log.is_empty());
}

#[test]
fn a_client_that_ends_within_a_head_is_logged() {
    let log = play(SWITCH, async |stage| {
        let client = stage.client();
        client.say("GET / HTTP/1.1\r\nHo").await;
        client.end().unwrap();
        assert_eq!(client.hear_all().await, (String::new(), false));
    });
    assert_eq!(log[0].end(), (499, "client_closed"));
}

#[test]
fn a_forward_proxy_needs_a_whole_url() {
    let log = play(FORWARD, async |stage| {
        let client = stage.client();
        client.say(GET).await;
        let answer = client.hear("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    });
    assert_eq!(log[0].status(), 400);
}

#[test]
fn the_next_hop_gets_its_own_form_of_the_head() {
    const REQUEST: &str = "GET http://192.0.2.1/a?b HTTP/1.1\r\nHost: other\r\nProxy-Authorization: x\r\nConnection: a\r\nA: b\r\nC: d\r\n\r\n";
    play(FORWARD, async |stage| {
        let (heard, _) = ask_once(stage, (REQUEST, "\r\n\r\n"), OK).await;
        assert!(heard.starts_with("GET /a?b HTTP/1.1\r\n"), "{heard}");
        assert!(heard.contains("Host: 192.0.2.1\r\n"), "{heard}");
        assert!(heard.contains("C: d\r\n"), "{heard}");
        assert!(heard.contains("Via: 1.1 "), "{heard}");
        for hop in ["other", "Proxy-Authorization", "A: b"] {
            assert!(!heard.contains(hop), "{hop}: {heard}");
        }
    });
}

#[test]
fn a_request_that_no_route_takes_is_answered_404() {
    let routes = SWITCH.replace("[[listener.route]]", "[[listener.route]]\npath = \"/b\"");
    let log = play(&routes, async |stage| {
        let client = stage.client();
        client.say(GET).await;
        let answer = client.hear("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        assert!(!answer.contains("Connection: close"), "{answer}");
    });
    assert_eq!(log[0].status(), 404);
}
