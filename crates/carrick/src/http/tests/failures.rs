//! Servers that cannot be reached, do not answer, or answer wrongly: what the client gets, and what is tried again.
use super::stage::{
    FIRST, FORWARD, GET, OK, SECOND, SWITCH, TWO_SERVERS, ask_once, hear_reply, hear_slowly, play,
    timed,
};
use crate::net::io::write_all;

#[test]
fn a_server_that_refuses_is_answered_502_and_the_connection_lasts() {
    let log = play(SWITCH, async |stage| {
        let client = stage.client();
        for _ in 0..2 {
            client.say(GET).await;
            let answer = hear_reply(&client).await;
            assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
            assert!(!answer.contains("Connection: close"), "{answer}");
        }
    });
    assert_eq!(log[0].end(), (502, "connect"));
    assert_eq!(log.len(), 2);
}

#[test]
fn the_only_server_is_asked_however_often_it_has_failed_unless_checks_say_that_it_is_down() {
    let log = play(SWITCH, async |stage| {
        let client = stage.client();
        for number in 0..6 {
            if number == 5 {
                stage.worker.live().groups[0].state.servers[0].set_healthy(false);
            }
            client.say(GET).await;
            hear_reply(&client).await;
        }
    });
    let statuses: Vec<u64> = log.iter().map(|line| line.status()).collect();
    assert_eq!(statuses, [502, 502, 502, 502, 502, 503]);
}

#[test]
fn the_next_server_is_asked_where_one_refuses() {
    let log = play(TWO_SERVERS, async |stage| {
        let mut second = stage.server(SECOND);
        for _ in 0..2 {
            let client = stage.client();
            client.say(GET).await;
            let connection = second.accept().await;
            connection.hear("\r\n\r\n").await;
            connection
                .say(OK.replace("Date", "Connection: close\r\nDate"))
                .await;
            client.hear("ok").await;
        }
    });
    for line in &log {
        assert_eq!((line.status(), line.text("server")), (200, "192.0.2.2:80"));
    }
    assert_eq!(log.len(), 2);
}

#[test]
fn a_server_that_does_not_accept_in_time_is_answered_504() {
    let log = play(SWITCH, async |stage| {
        stage.servers.silence(FIRST);
        let client = stage.client();
        client.say(GET).await;
        let (answer, seconds) = timed(client.hear("\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
        // Three attempts, if they were made; there is but one server.
        assert_eq!(seconds.round(), 5.0);
    });
    assert_eq!(log[0].status(), 504);
}

#[test]
fn a_server_that_does_not_answer_in_time_is_answered_504_and_not_asked_again() {
    let log = play(SWITCH, async |stage| {
        let (mut server, client, _connection) = stage.asked(GET, "\r\n\r\n").await;
        let (answer, seconds) = timed(client.hear("\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
        assert_eq!(seconds.round(), 60.0);
        assert!(server.is_alone());
    });
    assert_eq!(log[0].end(), (504, "upstream_timeout"));
}

#[test]
fn a_head_that_stops_is_no_answer_either() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        connection.say("HTTP/1.1 200 OK\r\nConte").await;
        let (answer, seconds) = timed(client.hear("\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
        assert_eq!(seconds.round(), 60.0);
    });
    assert_eq!(log[0].end(), (504, "upstream_timeout"));
}

#[test]
fn a_server_that_closes_without_an_answer_is_answered_502() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        drop(connection);
        let answer = client.hear("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        // There was nobody else to ask.
        assert_eq!(stage.worker.metrics().retries.get(), 0);
    });
    assert_eq!(log[0].end(), (502, "upstream_closed"));
    assert_eq!(log[0].text("server"), FIRST.to_string());
}

/// The server closes its connection just when it is used again.
#[test]
fn an_idle_connection_that_dies_says_nothing_about_its_server() {
    for (method, is_sent_again) in [
        ("GET", true),
        ("DELETE", true),
        ("POST", false),
        ("PATCH", false),
    ] {
        let log = play(SWITCH, async |stage| {
            let (mut server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
            connection.say(OK).await;
            client.hear("ok").await;
            client.say(GET.replace("GET", method)).await;
            connection.hear("\r\n\r\n").await;
            drop(connection);
            if is_sent_again {
                let connection = server.accept().await;
                connection.hear("\r\n\r\n").await;
                connection.say(OK).await;
                client.hear("ok").await;
            } else {
                client.hear("\r\n\r\n").await;
                assert!(server.is_alone());
            }
        });
        let status = if is_sent_again { 200 } else { 502 };
        assert_eq!(log[1].status(), status, "{method}");
    }
}

#[test]
fn an_idle_connection_on_which_something_came_is_not_used_again() {
    play(SWITCH, async |stage| {
        let (mut server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        connection.say(OK).await;
        client.hear("ok").await;
        connection.say(OK.replace("ok", "no")).await;
        client.say(GET).await;
        let other = server.accept().await;
        other.hear("\r\n\r\n").await;
        other.say(OK).await;
        client.hear("ok").await;
    });
}

/// Heads that are no response; the first part of the status line is what the client gets.
const WRONG: &[&str] = &[
    "nonsense\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
];

#[test]
fn wrong_responses_are_answered_502() {
    for response in WRONG {
        let log = play(SWITCH, async |stage| {
            let (_, (answer, _)) = ask_once(stage, (GET, "\r\n\r\n"), response).await;
            assert!(
                answer.starts_with("HTTP/1.1 502 "),
                "{response:?}: {answer}"
            );
            assert_eq!(answer.matches("\r\n\r\n").count(), 1, "{answer}");
        });
        assert_eq!(log[0].end(), (502, "bad_response"), "{response:?}");
    }
}

/// What came before the end, and how the log tells it.
const BROKEN_OFF: &[(&str, &str)] = &[
    (
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        "upstream_closed",
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "upstream_closed",
    ),
    (
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
        "upstream_closed",
    ),
];

#[test]
fn a_body_that_breaks_off_resets_the_client() {
    for (response, ended) in BROKEN_OFF {
        let log = play(SWITCH, async |stage| {
            let (_, (answer, is_reset)) = ask_once(stage, (GET, "\r\n\r\n"), response).await;
            assert!(is_reset, "{answer}");
        });
        assert_eq!(log[0].end(), (200, *ended), "{response:?}");
    }
}

#[test]
fn a_wrong_chunk_behind_good_ones_resets_the_client() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        connection
            .say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            .await;
        client.hear("abc\r\n").await;
        connection.say("xyz\r\n").await;
        assert_eq!(client.hear_all().await, (String::new(), true));
    });
    assert_eq!(log[0].end(), (200, "bad_chunk"));
}

#[test]
fn a_server_that_stops_within_a_body_resets_the_client_after_the_idle_time() {
    for body in ["Content-Length: 9", "Transfer-Encoding: chunked"] {
        let log = play(SWITCH, async |stage| {
            let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
            connection
                .say(format!("HTTP/1.1 200 OK\r\n{body}\r\n\r\n5\r\na"))
                .await;
            let ((_, is_reset), seconds) = timed(client.hear_all()).await;
            assert!(is_reset);
            assert_eq!(seconds.round(), 60.0);
        });
        assert_eq!(log[0].end(), (200, "idle_timeout"), "{body}");
    }
}

#[test]
fn a_client_that_takes_nothing_is_given_up_after_the_idle_time() {
    let log = play(SWITCH, async |stage| {
        let (_server, _client, connection) = stage.asked(GET, "\r\n\r\n").await;
        let body = "x".repeat(1 << 20);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.say(head).await;
        let (refused, seconds) = timed(write_all(&*connection, body.as_bytes())).await;
        assert!(refused.is_err());
        assert_eq!(seconds.round(), 60.0);
    });
    assert_eq!(log[0].end(), (200, "idle_timeout"));
}

#[test]
fn a_client_that_takes_a_little_now_and_then_keeps_its_response() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        let body = "x".repeat(300_000) + "!";
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.say(head).await;
        let sending = write_all(&*connection, body.as_bytes());
        let ((), written) = tokio::join!(hear_slowly(&client), sending);
        assert!(written.is_ok());
    });
    assert_eq!(log[0].end(), (200, "complete"));
}

#[test]
fn a_server_that_takes_a_little_now_and_then_gets_the_whole_request() {
    let log = play(SWITCH, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        let body = "x".repeat(300_000) + "!";
        let head = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.say(head).await;
        let connection = server.accept().await;
        let sending = write_all(&*client, body.as_bytes());
        let ((), written) = tokio::join!(hear_slowly(&connection), sending);
        assert!(written.is_ok());
        connection.say("HTTP/1.1 204 No Content\r\n\r\n").await;
        client.hear("\r\n\r\n").await;
    });
    assert_eq!(log[0].end(), (204, "complete"));
}

#[test]
fn a_name_that_cannot_be_asked_for_is_answered_503() {
    let log = play(FORWARD, async |stage| {
        let client = stage.client();
        client.say(GET.replace("/a", "http://a.example/")).await;
        let answer = client.hear("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    });
    assert_eq!(log[0].status(), 503);
}
