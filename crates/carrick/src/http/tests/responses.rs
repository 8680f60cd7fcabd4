//! Responses as clients get them: framing, interim ones, those without bodies.
use super::stage::{
    FIRST, FORWARD, GET, OK, SWITCH, all_at_rest, ask_once, idle_nearly, play, timed,
};
use carrick_splice::{Drain, Pacer};

/// A method, and a response without a body, whatever its head says.
const WITHOUT_BODY: &[(&str, &str)] = &[
    (
        "HEAD",
        "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 5\r\n\r\n",
    ),
    (
        "HEAD",
        "HTTP/1.1 200 OK\r\nDate: d\r\nTransfer-Encoding: chunked\r\n\r\n",
    ),
    ("GET", "HTTP/1.1 204 No Content\r\nDate: d\r\n\r\n"),
    (
        "GET",
        "HTTP/1.1 304 Not Modified\r\nDate: d\r\nContent-Length: 5\r\n\r\n",
    ),
    (
        "GET",
        "HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 0\r\n\r\n",
    ),
];

#[test]
fn responses_without_a_body_end_with_their_head() {
    for (method, response) in WITHOUT_BODY {
        play(SWITCH, async |stage| {
            let mut server = stage.server(FIRST);
            let client = stage.client();
            client.say(GET.replace("GET", method)).await;
            let connection = server.accept().await;
            for _ in 0..2 {
                connection.hear("\r\n\r\n").await;
                connection.say(response).await;
                let answer = client.hear("\r\n\r\n").await;
                assert_eq!(answer.lines().next(), response.lines().next());
                // Both connections are good for another one.
                client.say(GET.replace("GET", method)).await;
            }
            assert!(server.is_alone(), "{response:?}");
        });
    }
}

#[test]
fn chunks_pass_as_they_are_trailers_included() {
    const CHUNKS: &str = "3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\nT: u\r\n\r\n";
    let log = play(SWITCH, async |stage| {
        let response =
            format!("HTTP/1.1 200 OK\r\nTrailer: T\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKS}");
        let (_, (answer, is_reset)) = ask_once(stage, (GET, "\r\n\r\n"), &response).await;
        assert!(!is_reset);
        assert!(answer.contains("\r\n\r\n3\r\nabc\r\n10"), "{answer}");
        assert!(answer.ends_with("0\r\nT: u\r\n\r\n"), "{answer}");
    });
    assert_eq!(log[0].number("sent"), 19);
}

#[test]
fn chunks_may_come_in_whatever_pieces() {
    const CHUNKS: &str = "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
    for cut in 0..CHUNKS.len() {
        play(SWITCH, async |stage| {
            let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
            connection
                .say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                .await;
            connection.say(&CHUNKS[..cut]).await;
            tokio::task::yield_now().await;
            connection.say(&CHUNKS[cut..]).await;
            let answer = client.hear("0\r\n\r\n").await;
            assert!(answer.ends_with(CHUNKS), "{cut}: {answer}");
        });
    }
}

#[test]
fn an_old_client_gets_content_without_chunks() {
    play(SWITCH, async |stage| {
        let request = GET.replace("HTTP/1.1", "HTTP/1.0");
        let response =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let (_, (answer, is_reset)) = ask_once(stage, (&request, "\r\n\r\n"), response).await;
        assert!(answer.ends_with("\r\n\r\nabcde") && !is_reset, "{answer}");
        assert!(!answer.contains("chunked"), "{answer}");
    });
}

#[test]
fn a_body_until_the_close_ends_with_the_clients_connection_at_a_switch() {
    let log = play(SWITCH, async |stage| {
        let response = "HTTP/1.1 200 OK\r\n\r\nabc";
        let (_, (answer, is_reset)) = ask_once(stage, (GET, "\r\n\r\n"), response).await;
        assert!(answer.ends_with("\r\n\r\nabc") && !is_reset, "{answer}");
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
    });
    assert_eq!(
        (log[0].end(), log[0].number("sent")),
        ((200, "complete"), 3)
    );
}

#[test]
fn the_end_of_a_connection_goes_with_its_last_response() {
    for (asks, segments) in [("keep-alive", 2), ("close", 1)] {
        play(SWITCH, async |stage| {
            let mut server = stage.server(FIRST);
            let client = stage.client();
            let asked = GET.replace("\r\n\r\n", &format!("\r\nConnection: {asks}\r\n\r\n"));
            client.say(asked).await;
            let connection = server.accept().await;
            connection.hear("\r\n\r\n").await;
            connection.say(OK).await;
            assert!(client.hear("ok").await.starts_with("HTTP/1.1 200"));
            // It may have ended already.
            let _ = client.end();
            assert_eq!(client.hear_all().await, (String::new(), false));
            assert_eq!(client.segments(), segments, "{asks}");
        });
    }
}

#[test]
fn a_body_until_the_close_gets_chunks_from_a_forward_proxy() {
    play(FORWARD, async |stage| {
        let request = GET.replace("/a", "http://192.0.2.1/a");
        let response = "HTTP/1.1 200 OK\r\n\r\nabc";
        let (_, (answer, _)) = ask_once(stage, (&request, "\r\n\r\n"), response).await;
        assert!(
            answer.contains("Transfer-Encoding: chunked\r\n"),
            "{answer}"
        );
        assert!(
            answer.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
            "{answer}"
        );
        assert!(!answer.contains("Connection: close"), "{answer}");
    });
}

#[test]
fn more_than_the_length_goes_nowhere_and_ends_the_servers_connection() {
    play(SWITCH, async |stage| {
        let (mut server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        connection.say(format!("{OK}HTTP/1.1 200 OK\r\n\r\n")).await;
        let answer = client.hear("ok").await;
        assert_eq!(answer.matches("HTTP/1.1").count(), 1);
        client.say(GET).await;
        let other = server.accept().await;
        other.hear("\r\n\r\n").await;
        other.say(OK.replace("ok", "no")).await;
        let answer = client.hear("no").await;
        assert_eq!(answer.matches("HTTP/1.1").count(), 1);
    });
}

#[test]
fn a_long_body_passes_through_small_room() {
    const BYTES: usize = 1 << 20;
    let log = play(SWITCH, async |stage| {
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n{}",
            "x".repeat(BYTES)
        );
        let mut server = stage.server(FIRST);
        let client = stage.client();
        client.say(GET).await;
        client.end().unwrap();
        let connection = server.accept().await;
        connection.hear("\r\n\r\n").await;
        let (((), (answer, is_reset)), seconds) =
            timed(async { tokio::join!(connection.say(response), client.hear_all()) }).await;
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        assert_eq!((body.len(), is_reset, seconds), (BYTES, false, 0.0));
    });
    assert_eq!(log[0].number("sent"), BYTES as u64);
}

/// A long interim response: a client has room for two.
fn hints() -> String {
    let link = "y".repeat(30_000);
    format!("HTTP/1.1 103 Early Hints\r\nLink: {link}\r\n\r\n")
}

#[test]
fn interim_responses_pass_once_while_a_body_ends() {
    play(SWITCH, async |stage| {
        let (_server, client, connection) = stage
            .asked(
                "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx",
                "\r\n\r\nx",
            )
            .await;
        // More than there is room for: the client reads when it has sent everything.
        let saying = connection.say(hints().repeat(5) + OK);
        let sending = async {
            all_at_rest().await;
            client.say("y").await;
            all_at_rest().await;
            client.hear("ok").await
        };
        let ((), answer) = tokio::join!(saying, sending);
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 6);
        assert_eq!(answer.matches(&"y".repeat(30_000)).count(), 5);
    });
}

#[test]
fn no_reply_stands_in_the_midst_of_an_interim_response() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage
            .asked(
                "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
                "1\r\nx\r\n",
            )
            .await;
        // The client has room for a part of the third.
        connection.say(hints().repeat(3)).await;
        all_at_rest().await;
        client.say("no chunk\r\n").await;
        let (answer, _) = client.hear_all().await;
        assert!(answer.ends_with('y') && !answer.contains(" 400 "));
    });
    assert_eq!(log[0].text("ended"), "client_closed");
}

/// The server's end is noticed by the request's body, while the client reads nothing.
#[test]
fn no_reply_stands_in_the_midst_of_one_whose_server_has_gone() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage
            .asked(
                "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\nx",
                "\r\n\r\nx",
            )
            .await;
        connection.say(hints().repeat(3)).await;
        all_at_rest().await;
        connection.reset();
        client.say("y").await;
        idle_nearly().await;
        idle_nearly().await;
        let (answer, _) = client.hear_all().await;
        assert!(answer.ends_with('y') && !answer.contains(" 502 "));
    });
    assert_eq!(log[0].text("ended"), "client_reset");
}

#[test]
fn a_server_that_says_that_it_still_works_is_waited_for() {
    play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        for _ in 0..3 {
            idle_nearly().await;
            connection.say("HTTP/1.1 102 Processing\r\n\r\n").await;
        }
        idle_nearly().await;
        connection.say(OK).await;
        assert!(client.hear("ok").await.contains(" 200 "));
    });
}

#[test]
fn interim_responses_without_end_are_an_error() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        let flood = connection.say("HTTP/1.1 102 Processing\r\n\r\n".repeat(10_001));
        let ((), answer) = tokio::join!(flood, client.hear(" 502 "));
        assert_eq!(answer.matches(" 102 ").count(), 10_000);
    });
    assert_eq!(log[0].end(), (502, "bad_response"));
}

#[test]
fn interim_responses_pass_to_who_knows_them() {
    for (version, passes) in [("HTTP/1.1", true), ("HTTP/1.0", false)] {
        play(SWITCH, async |stage| {
            let request = GET.replace("HTTP/1.1", version);
            let response = format!("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{OK}");
            let (_, (answer, _)) = ask_once(stage, (&request, "\r\n\r\n"), &response).await;
            assert_eq!(answer.contains("103 Early Hints"), passes, "{answer}");
            assert!(
                answer.contains("200 OK") && answer.ends_with("ok"),
                "{answer}"
            );
        });
    }
}

#[test]
fn a_date_is_added_where_there_is_none_and_hop_fields_go() {
    play(SWITCH, async |stage| {
        let response = "HTTP/1.1 200 OK\r\nConnection: X\r\nX: y\r\nKeep-Alive: 1\r\nZ: z\r\nContent-Length: 0\r\n\r\n";
        let (_, (answer, _)) = ask_once(stage, (GET, "\r\n\r\n"), response).await;
        assert!(answer.contains("\r\nDate: "), "{answer}");
        assert!(answer.contains("\r\nZ: z\r\n"), "{answer}");
        for hop in ["\r\nX: y", "Keep-Alive"] {
            assert!(!answer.contains(hop), "{answer}");
        }
    });
}

/// A reset frees the port of carrick's end at once, and must not take anything from the server.
#[test]
fn the_servers_connection_is_reset_only_where_nothing_can_be_lost() {
    const POST: &str = "POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\n\r\n";
    let keeps_none = format!("{SWITCH}keepalive = 0\n");
    let closes = OK.replace("Date", "Connection: close\r\nDate");
    let until_close = "HTTP/1.1 200 OK\r\n\r\nok";
    for (configuration, request, unread, response, server_ends, is_reset) in [
        (&*keeps_none, GET, "", OK, false, true),
        (SWITCH, GET, "", &*closes, false, true),
        (SWITCH, GET, "", &OK.replace("1.1", "1.0"), false, true),
        // The server is still to read the body.
        (&keeps_none, POST, "body", OK, false, false),
        (SWITCH, POST, "body", &closes, false, false),
        // The server's end comes first: it has the port that waits.
        (SWITCH, GET, "", until_close, true, false),
        (SWITCH, GET, "", &closes, true, false),
    ] {
        play(configuration, async |stage| {
            let (_server, client, connection) =
                stage.asked(format!("{request}{unread}"), "\r\n\r\n").await;
            connection.say(response).await;
            if server_ends {
                connection.end().unwrap();
            }
            client.hear("ok").await;
            let ended = connection.hear_all().await;
            assert_eq!(ended, (unread.to_owned(), is_reset), "{response:?}");
        });
    }
}

#[test]
fn a_request_and_its_response_wait_for_the_worker_and_those_that_are_not_paced_do_not() {
    let paced = SWITCH.replace("upstream = \"u\"", "upstream = \"u\"\npace = \"held\"");
    let classes = "[pace.classes.held]\npolicy = \"conservative\"\n";
    for (configuration, is_held) in [(paced, true), (SWITCH.to_owned(), false)] {
        play(&format!("{classes}{configuration}"), async |stage| {
            let pacer = stage.worker.pacer.clone();
            // The worker is runnable from here on: only what is let go goes on.
            Pacer::on_thread_park();
            Pacer::on_thread_unpark();
            let let_go = async || {
                settle().await;
                assert_eq!(pacer.forward(Drain::Everything), usize::from(is_held));
            };
            let mut server = stage.server(FIRST);
            let client = stage.client();
            client.say(GET).await;
            let_go().await;
            let connection = server.accept().await;
            for _ in 0..3 {
                connection.hear("\r\n\r\n").await;
                connection.say(OK).await;
                let_go().await;
                client.hear("ok").await;
                client.say(GET).await;
                let_go().await;
            }
        });
    }
}

/// Lets everything go on that can.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
