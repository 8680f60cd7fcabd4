//! Bodies of requests: what of them reaches the server, and what is answered before they are whole.
use super::stage::{FIRST, GET, OK, SECOND, SWITCH, TWO_SERVERS, play, timed};

/// A request with a body of so many bytes that does not come with its head.
fn post(bytes: usize) -> String {
    format!("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n")
}

const CHUNKED: &str = "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn a_body_passes_to_its_last_byte_and_not_one_further() {
    for (head, body) in [
        (post(3), "abc"),
        (post(0), ""),
        (CHUNKED.to_owned(), "3\r\nabc\r\n0\r\n\r\n"),
        (CHUNKED.to_owned(), "0\r\nT: u\r\n\r\n"),
    ] {
        play(SWITCH, async |stage| {
            let mut server = stage.server(FIRST);
            let client = stage.client();
            client.say(format!("{head}{body}{GET}")).await;
            let connection = server.accept().await;
            let heard = connection.hear("\r\n\r\n").await;
            assert!(heard.starts_with("POST /p HTTP/1.1\r\n"), "{heard}");
            if !body.is_empty() {
                assert_eq!(connection.hear(&body[body.len() - 3..]).await, body);
            }
            connection.say(OK).await;
            client.hear("ok").await;
            let heard = connection.hear("\r\n\r\n").await;
            assert!(heard.starts_with("GET /a HTTP/1.1\r\n"), "{heard}");
        });
    }
}

#[test]
fn a_body_may_come_in_whatever_pieces() {
    const BODY: &str = "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
    for cut in 0..BODY.len() {
        play(SWITCH, async |stage| {
            let (_server, client, connection) = stage
                .asked(format!("{CHUNKED}{}", &BODY[..cut]), "\r\n\r\n")
                .await;
            client.say(&BODY[cut..]).await;
            assert_eq!(connection.hear("0\r\n\r\n").await, BODY, "{cut}");
        });
    }
}

#[test]
fn a_request_of_which_chunks_have_gone_is_not_sent_again() {
    const LATE: &str = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n";
    for first in ["3\r\nabc\r\n", "40\r\nabc"] {
        let log = play(TWO_SERVERS, async |stage| {
            let (mut server, mut other) = (stage.server(FIRST), stage.server(SECOND));
            let client = stage.client();
            client.say(format!("{CHUNKED}{first}")).await;
            let connection = server.accept().await;
            connection.hear("abc").await;
            // All at once: the next piece finds the server gone, which had answered before.
            let ((), ()) = tokio::join!(client.say("0\r\n\r\n"), connection.say(LATE));
            connection.reset();
            let answer = client.hear("\r\n\r\n").await;
            assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
            assert!(other.is_alone());
        });
        assert_eq!(log[0].status(), 413);
    }
}

#[test]
fn a_long_body_passes_through_small_room() {
    const BYTES: usize = 1 << 20;
    let log = play(SWITCH, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        let sending = client.say(format!("{}{}z", post(BYTES), "x".repeat(BYTES - 1)));
        let receiving = async {
            let connection = server.accept().await;
            connection.hear("\r\n\r\n").await;
            let body = connection.hear("z").await;
            connection.say(OK).await;
            body.len()
        };
        let (((), bytes), seconds) = timed(async { tokio::join!(sending, receiving) }).await;
        assert_eq!((bytes, seconds), (BYTES, 0.0));
        client.hear("ok").await;
    });
    assert_eq!(log[0].number("received"), BYTES as u64);
}

#[test]
fn a_wrong_chunk_is_answered_400_and_the_server_gets_no_end() {
    for body in ["x\r\n", "-1\r\n", "3\r\nabcd\r\n0\r\n\r\n", "3 \r\nabc\r\n"] {
        let log = play(SWITCH, async |stage| {
            let mut server = stage.server(FIRST);
            let client = stage.client();
            client.say(format!("{CHUNKED}{body}")).await;
            client.end().unwrap();
            let connection = server.accept().await;
            let (heard, _) = connection.hear_all().await;
            assert!(!heard.ends_with("0\r\n\r\n"), "{heard}");
            let (answer, _) = client.hear_all().await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{body:?}: {answer}");
            assert!(answer.contains("Connection: close"), "{answer}");
        });
        assert_eq!(log[0].status(), 400);
    }
}

#[test]
fn a_body_that_stops_is_answered_408_after_the_idle_time() {
    for head in [post(9), CHUNKED.to_owned()] {
        let log = play(SWITCH, async |stage| {
            let (_server, client, _connection) = stage.asked(head, "\r\n\r\n").await;
            let (answer, seconds) = timed(client.hear("\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
            assert_eq!(seconds.round(), 60.0);
        });
        assert_eq!(log[0].status(), 408);
    }
}

#[test]
fn a_client_that_goes_within_its_body_takes_the_servers_connection_with_it() {
    for (head, part) in [(post(9), "abc"), (CHUNKED.to_owned(), "9\r\nabc")] {
        let log = play(SWITCH, async |stage| {
            let (_server, client, connection) = stage.asked(format!("{head}{part}"), "abc").await;
            drop(client);
            connection.hear_all().await;
        });
        assert_eq!(log[0].end(), (499, "client_closed"), "{head:?}");
    }
}

#[test]
fn a_client_that_waits_for_100_gets_it_from_the_server() {
    let log = play(SWITCH, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        client
            .say(post(3).replace("Host", "Expect: 100-continue\r\nHost"))
            .await;
        let connection = server.accept().await;
        let heard = connection.hear("\r\n\r\n").await;
        assert!(heard.contains("100-continue"), "{heard}");
        connection.say("HTTP/1.1 100 Continue\r\n\r\n").await;
        let interim = client.hear("\r\n\r\n").await;
        assert!(interim.starts_with("HTTP/1.1 100 "), "{interim}");
        client.say("abc").await;
        connection.hear("abc").await;
        connection.say(OK).await;
        let answer = client.hear("ok").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(!answer.contains("Connection: close"), "{answer}");
    });
    assert_eq!(log[0].end(), (200, "complete"));
}

#[test]
fn a_refused_expectation_ends_the_connection() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage
            .asked(
                post(3).replace("Host", "Expect: 100-continue\r\nHost"),
                "\r\n\r\n",
            )
            .await;
        connection
            .say("HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno")
            .await;
        let answer = client.hear("no").await;
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
        let (heard, _) = connection.hear_all().await;
        assert_eq!(heard, "", "no part of a body");
    });
    assert_eq!(log[0].status(), 417);
}

#[test]
fn an_early_response_passes_and_the_rest_of_the_body_is_still_sent() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(format!("{}abc", post(6)), "abc").await;
        connection.say(OK).await;
        client.hear("ok").await;
        client.say("def").await;
        assert_eq!(connection.hear("def").await, "def");
    });
    assert_eq!(log[0].end(), (200, "complete"));
    assert_eq!(log[0].number("received"), 6);
}

#[test]
fn an_early_response_of_a_server_that_closes_cuts_the_body_off() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(format!("{}abc", post(6)), "abc").await;
        let response = OK
            .replace("200 OK", "413 Large")
            .replace("Date", "Connection: close\r\nDate");
        connection.say(response).await;
        let answer = client.hear("ok").await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
        let (heard, _) = connection.hear_all().await;
        assert_eq!(heard, "");
    });
    assert_eq!(log[0].status(), 413);
}

#[test]
fn what_a_server_says_before_it_stops_reading_is_passed_on() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(format!("{}abc", post(6)), "abc").await;
        connection.say(OK.replace("200 OK", "413 Large")).await;
        drop(connection);
        client.say("def").await;
        let answer = client.hear("ok").await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    });
    assert_eq!(log[0].status(), 413);
}

#[test]
fn a_request_with_a_body_is_not_sent_twice() {
    let log = play(SWITCH, async |stage| {
        let (mut server, client, connection) = stage.asked(format!("{}abc", post(3)), "abc").await;
        drop(connection);
        let answer = client.hear("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(server.is_alone());
    });
    assert_eq!(log[0].end(), (502, "upstream_closed"));
}

/// An old client may be waiting for the close, which is the end of its response.
#[test]
fn an_old_client_gets_an_early_response_and_the_close_at_once() {
    let log = play(SWITCH, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        let request = format!("{}abc", post(6)).replace("HTTP/1.1", "HTTP/1.0");
        client.say(request).await;
        let connection = server.accept().await;
        connection.hear("abc").await;
        connection.say(OK).await;
        let ((answer, is_reset), seconds) = timed(client.hear_all()).await;
        assert!(answer.ends_with("ok") && !is_reset, "{answer}");
        assert_eq!(seconds, 0.0);
        assert_eq!(
            connection.hear_all().await.0,
            "",
            "nothing more of the body"
        );
    });
    assert_eq!(log[0].end(), (200, "complete"));
}
