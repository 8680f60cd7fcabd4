//! What the cache answers, and what it asks the server.
use super::stage::{
    FIRST, GET, OK, SWITCH, Server, Stage, all_at_rest, hear_slowly, idle_nearly, play, timed,
};
use crate::net::transport::testing::End;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn with_cache() -> String {
    let cached = SWITCH.replace("upstream = \"u\"", "upstream = \"u\"\ncache = true");
    format!("[cache]\nmemory = \"16 MB\"\n{cached}")
}

/// A response that stays fresh for a minute.
fn fresh() -> String {
    OK.replace("Date: today", "Cache-Control: max-age=60\r\nETag: \"e\"")
}

/// A client that has asked, and the server's end, which has the question.
async fn ask(stage: &Stage, server: &mut Server) -> (Rc<End>, Rc<End>) {
    let client = stage.client();
    client.say(GET).await;
    let connection = server.accept().await;
    connection.hear("\r\n\r\n").await;
    (client, connection)
}

#[test]
fn what_is_stored_is_sent_without_the_server() {
    let log = play(&with_cache(), async |stage| {
        let mut server = stage.server(FIRST);
        let (client, connection) = ask(stage, &mut server).await;
        connection.say(fresh()).await;
        client.hear("ok").await;
        for _ in 0..3 {
            client.say(GET).await;
            let answer = client.hear("ok").await;
            assert!(answer.contains("\r\nAge: "), "{answer}");
        }
    });
    let results: Vec<&str> = log.iter().map(|line| line.text("cache")).collect();
    assert_eq!(results, ["miss", "hit", "hit", "hit"]);
}

#[test]
fn a_client_that_takes_a_little_now_and_then_gets_all_that_is_stored() {
    let log = play(&with_cache(), async |stage| {
        let mut server = stage.server(FIRST);
        let (first, connection) = ask(stage, &mut server).await;
        let body = "x".repeat(300_000);
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 300001";
        let saying = connection.say(format!("{head}\r\n\r\n{body}!"));
        tokio::join!(saying, first.hear("!"));
        let slow = stage.client();
        slow.say(GET).await;
        hear_slowly(&slow).await;
    });
    assert_eq!(
        (log[1].text("cache"), log[1].end()),
        ("hit", (200, "complete"))
    );
}

#[test]
fn hits_are_pipelined() {
    play(&with_cache(), async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        client.say(GET.repeat(5)).await;
        client.end().unwrap();
        let connection = server.accept().await;
        connection.hear("\r\n\r\n").await;
        connection.say(fresh()).await;
        let (answers, is_reset) = client.hear_all().await;
        assert_eq!(answers.matches("\r\n\r\nok").count(), 5, "{answers}");
        assert!(!is_reset);
    });
}

#[test]
fn what_may_have_changed_is_validated() {
    let log = play(&with_cache(), async |stage| {
        let mut server = stage.server(FIRST);
        let (client, connection) = ask(stage, &mut server).await;
        connection
            .say(fresh().replace("max-age=60", "no-cache"))
            .await;
        client.hear("ok").await;
        client.say(GET).await;
        let heard = connection.hear("\r\n\r\n").await;
        assert!(heard.contains("If-None-Match: \"e\"\r\n"), "{heard}");
        connection
            .say("HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\nCache-Control: no-cache\r\n\r\n")
            .await;
        let answer = client.hear("ok").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    });
    assert_eq!(log[1].text("cache"), "revalidated");
}

#[test]
fn a_refresh_goes_on_after_an_interim_response() {
    let log = play(&with_cache(), async |stage| {
        let mut server = stage.server(FIRST);
        let (client, connection) = ask(stage, &mut server).await;
        let stale = "max-age=0, stale-while-revalidate=60";
        connection.say(fresh().replace("max-age=60", stale)).await;
        client.hear("ok").await;
        client.say(GET).await;
        client.hear("ok").await;
        connection.hear("\r\n\r\n").await;
        connection.say("HTTP/1.1 103 Early Hints\r\n\r\n").await;
        connection
            .say("HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\nCache-Control: max-age=60\r\n\r\n")
            .await;
        // Time is virtual: it passes once every task waits.
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.say(GET).await;
        client.hear("ok").await;
    });
    let results: Vec<&str> = log.iter().map(|line| line.text("cache")).collect();
    assert_eq!(results, ["miss", "stale", "hit"]);
}

#[test]
fn a_refresh_begins_with_a_proxy_header_where_servers_expect_one() {
    let play_with_header =
        with_cache().replace("servers = ", "send_proxy_protocol = \"v1\"\nservers = ");
    let log = play(&play_with_header, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        client.say(GET).await;
        let connection = server.accept().await;
        let heard = connection.hear("\r\n\r\n").await;
        assert!(heard.starts_with("PROXY TCP4 198.51.100.7 "), "{heard}");
        let stale = "max-age=0, stale-while-revalidate=60";
        connection.say(fresh().replace("max-age=60", stale)).await;
        client.hear("ok").await;
        client.say(GET).await;
        client.hear("ok").await;
        let connection = server.accept().await;
        let heard = connection.hear("\r\n\r\n").await;
        assert!(heard.starts_with("PROXY UNKNOWN\r\nGET "), "{heard}");
        connection.say(fresh()).await;
    });
    assert_eq!(log[1].text("cache"), "stale");
}

#[test]
fn those_who_ask_at_the_same_time_share_one_answer() {
    play(&with_cache(), async |stage| {
        let mut server = stage.server(FIRST);
        let clients: Vec<_> = (0..5).map(|_| stage.client()).collect();
        for client in &clients {
            client.say(GET).await;
        }
        let connection = server.accept().await;
        connection.hear("\r\n\r\n").await;
        connection.say(fresh()).await;
        for client in &clients {
            client.hear("ok").await;
        }
        assert!(server.is_alone());
    });
}

#[test]
fn those_who_must_validate_do_not_wait_for_each_other() {
    let no_cache = "Cache-Control: no-cache\r\n\r\n";
    let reload = GET.replace("\r\n\r\n", &format!("\r\n{no_cache}"));
    for (lifetime, request) in [("no-cache", GET), ("max-age=60", &*reload)] {
        play(&with_cache(), async |stage| {
            let mut server = stage.server(FIRST);
            let clients: Vec<_> = (0..3).map(|_| stage.client()).collect();
            clients[0].say(GET).await;
            let connection = server.accept().await;
            connection.hear("\r\n\r\n").await;
            connection
                .say(fresh().replace("max-age=60", lifetime))
                .await;
            clients[0].hear("ok").await;
            connection.end().unwrap();
            drop(connection);
            for client in &clients {
                client.say(request).await;
            }
            // Time is virtual: none passes while somebody has something to do.
            let (connections, seconds) = timed(async {
                [
                    server.accept().await,
                    server.accept().await,
                    server.accept().await,
                ]
            })
            .await;
            assert!(seconds < 1.0, "{seconds}");
            for connection in connections {
                connection.hear("\r\n\r\n").await;
                connection.say(fresh()).await;
            }
            for client in &clients {
                client.hear("ok").await;
            }
        });
    }
}

#[test]
fn a_long_body_is_filled_and_read_at_the_same_time() {
    const BYTES: usize = 600 << 10;
    let log = play(&with_cache(), async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        let body = format!("{}z", "x".repeat(BYTES - 1));
        let response = fresh().replace("Length: 2", &format!("Length: {BYTES}"));
        let response = response.replace("ok", &body);
        client.say(GET).await;
        let connection = server.accept().await;
        connection.hear("\r\n\r\n").await;
        let ((), answer) = tokio::join!(connection.say(response), client.hear("z"));
        assert!(answer.ends_with(&body));
        client.say(GET).await;
        assert!(client.hear("z").await.ends_with(&body));
    });
    assert_eq!(log[1].text("cache"), "hit");
    assert_eq!(log[1].number("sent"), BYTES as u64);
}

#[test]
fn an_answer_that_breaks_off_is_not_stored() {
    let log = play(&with_cache(), async |stage| {
        let mut server = stage.server(FIRST);
        for _ in 0..2 {
            let client = stage.client();
            client.say(GET).await;
            let connection = server.accept().await;
            connection.hear("\r\n\r\n").await;
            connection
                .say(fresh().replace("Length: 2", "Length: 9"))
                .await;
            drop(connection);
            assert!(client.hear_all().await.1);
        }
    });
    assert_eq!(log[1].end(), (200, "upstream_closed"));
}

#[test]
fn a_client_that_leaves_is_no_failure_of_the_server() {
    play(&with_cache(), async |stage| {
        let mut server = stage.server(FIRST);
        let failures = || {
            let state = Rc::clone(&stage.worker.live().groups[0]);
            state.state.servers[0].failures.load(Relaxed)
        };
        for (leaves, expected) in [(true, 0), (false, 1)] {
            let client = stage.client();
            client.say(GET).await;
            let connection = server.accept().await;
            connection.hear("\r\n\r\n").await;
            let beginning = fresh().replace("Length: 2", "Length: 1500000");
            connection.say(beginning).await;
            client.hear("ok").await;
            if leaves {
                client.reset();
                for _ in 0..2 {
                    connection.say("x".repeat(1000)).await;
                    all_at_rest().await;
                }
                // It is not asked for the rest.
                connection.hear_all().await;
            } else {
                drop(connection);
                client.hear_all().await;
            }
            all_at_rest().await;
            assert_eq!(failures(), expected);
        }
    });
}

#[test]
fn a_range_of_what_is_still_coming_waits_as_long_as_it_comes() {
    let log = play(&with_cache(), async |stage| {
        let mut server = stage.server(FIRST);
        let (first, connection) = ask(stage, &mut server).await;
        let head =
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60000\r\nContent-Length: 300001\r\n\r\n";
        connection.say(format!("{head}?")).await;
        first.hear("?").await;
        let second = stage.client();
        second
            .say(GET.replace("\r\n\r\n", "\r\nRange: bytes=300000-300000\r\n\r\n"))
            .await;
        for _ in 0..10 {
            idle_nearly().await;
            connection.say("x".repeat(1000)).await;
            first.hear_some(1000).await;
        }
        let rest = format!("{}!", "x".repeat(289_999));
        tokio::join!(connection.say(rest), first.hear("!"));
        let answer = second.hear("!").await;
        assert!(answer.starts_with("HTTP/1.1 206 "), "{answer}");
        drop(connection);
    });
    let ends: Vec<_> = log.iter().map(|line| line.end().1).collect();
    assert_eq!(ends, ["complete"; 2]);
}

/// RFC 9111 section 4.4.
#[test]
fn an_unsafe_request_by_a_route_without_a_cache_invalidates_what_others_have_stored() {
    let routes = "[[listener.route]]\npath = \"/other/\"\nupstream = \"u\"\n\
        [[listener.route]]\nupstream = \"u\"\ncache = true\ncache_key = { query = \"none\" }\n";
    let before = "[[listener.route]]\nupstream = \"u\"\ncache = true\n";
    let log = play(&with_cache().replace(before, routes), async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        client.say(GET).await;
        let connection = server.accept().await;
        for _ in 0..2 {
            connection.hear("\r\n\r\n").await;
            connection.say(fresh()).await;
            client.hear("ok").await;
            client.say(GET).await;
            client.hear("ok").await;
            let post = GET.replace("GET /a", "POST /other/b");
            client
                .say(post.replace("\r\n\r\n", "\r\nContent-Length: 0\r\n\r\n"))
                .await;
            connection.hear("\r\n\r\n").await;
            connection
                .say("HTTP/1.1 201 Created\r\nLocation: /a?x\r\nContent-Length: 0\r\n\r\n")
                .await;
            client.hear("\r\n\r\n").await;
            client.say(GET).await;
        }
        connection.hear("\r\n\r\n").await;
        connection.say(fresh()).await;
        client.hear("ok").await;
    });
    let results: Vec<&str> = log.iter().map(|line| line.text("cache")).collect();
    assert_eq!(results, ["miss", "hit", "-", "miss", "hit", "-", "miss"]);
}

/// The first one's body is as slow as its client, and nobody knows its length.
#[test]
fn only_one_request_waits_in_vain_for_another_ones_answer() {
    let stale =
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"1\"\r\nContent-Length: 2\r\n\r\nok";
    for answer in [OK, stale] {
        play(&with_cache(), async |stage| {
            let mut server = stage.server(FIRST);
            let slow = stage.client();
            slow.say(GET).await;
            let slow_connection = server.accept().await;
            slow_connection.hear("\r\n\r\n").await;
            slow_connection
            .say("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n?\r\n")
            .await;
            slow.hear("?").await;
            for seconds in [10, 0, 0] {
                let other = stage.client();
                let begun = tokio::time::Instant::now();
                other
                    .say(GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
                    .await;
                let connection = server.accept().await;
                assert_eq!(begun.elapsed().as_secs(), seconds);
                connection.hear("\r\n\r\n").await;
                connection.say(answer).await;
                other.hear("ok").await;
                drop(connection);
            }
            slow_connection.say("0\r\n\r\n").await;
            slow.hear("0\r\n\r\n").await;
        });
    }
}
