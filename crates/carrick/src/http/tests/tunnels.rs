//! Connections that become tunnels: upgrades and CONNECT.
use super::stage::{FIRST, FORWARD, GET, OK, SWITCH, Stage, all_at_rest, hear_slowly, play, timed};
use crate::net::transport::testing::End;
use std::rc::Rc;

const UPGRADE: &str =
    "GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const CONNECT: &str = "CONNECT 192.0.2.1:80 HTTP/1.1\r\nHost: 192.0.2.1:80\r\n\r\n";

/// The two ends of a tunnel.
async fn tunnel(stage: &Stage) -> (Rc<End>, Rc<End>) {
    let mut server = stage.server(FIRST);
    let client = stage.client();
    client.say(CONNECT).await;
    let connection = server.accept().await;
    client.hear("\r\n\r\n").await;
    (client, connection)
}

#[test]
fn an_upgraded_connection_is_relayed_both_ways() {
    let log = play(SWITCH, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        // What comes behind the heads is the new protocol's.
        client.say(format!("{UPGRADE}first")).await;
        let connection = server.accept().await;
        let heard = connection.hear("\r\n\r\n").await;
        assert!(heard.contains("Upgrade: websocket\r\n"), "{heard}");
        connection.say(format!("{SWITCHED}hello")).await;
        assert_eq!(connection.hear("first").await, "first");
        let answer = client.hear("hello").await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        client.say("ping").await;
        connection.hear("ping").await;
        connection.say("pong").await;
        client.hear("pong").await;
        // A half-close passes, and the other direction goes on.
        client.end().unwrap();
        assert_eq!(connection.hear_all().await, (String::new(), false));
        connection.say("bye").await;
        drop(connection);
        assert_eq!(client.hear_all().await, ("bye".to_owned(), false));
    });
    let line = &log[0];
    assert_eq!(line.end(), (101, "complete"));
    assert_eq!([line.number("received"), line.number("sent")], [9, 12]);
}

#[test]
fn a_tunnel_begins_behind_the_whole_request() {
    let body = "x".repeat(300_000);
    let log = play(SWITCH, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        let length = format!("Content-Length: {}\r\n\r\n", body.len());
        let request =
            UPGRADE
                .replace("GET", "POST")
                .replacen("\r\n\r\n", &format!("\r\n{length}"), 1);
        let sending = client.say(format!("{request}{body}after"));
        let serving = async {
            let connection = server.accept().await;
            connection.hear("\r\n\r\n").await;
            // It answers before it has read the body.
            connection.say(SWITCHED).await;
            all_at_rest().await;
            assert_eq!(connection.hear("after").await, format!("{body}after"));
            connection
        };
        let ((), connection) = tokio::join!(sending, serving);
        client.hear("\r\n\r\n").await;
        client.end().unwrap();
        drop(connection);
    });
    assert_eq!(log[0].status(), 101);
    assert_eq!(log[0].number("received"), 300_005);
}

#[test]
fn a_refused_upgrade_is_an_ordinary_response() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(UPGRADE, "\r\n\r\n").await;
        connection.say(OK).await;
        client.hear("ok").await;
        client.say(GET).await;
        connection.hear("\r\n\r\n").await;
        connection.say(OK).await;
        client.hear("ok").await;
    });
    assert_eq!(log.len(), 2);
}

#[test]
fn an_upgrade_is_not_sent_twice() {
    let log = play(SWITCH, async |stage| {
        let (mut server, client, connection) = stage.asked(UPGRADE, "\r\n\r\n").await;
        drop(connection);
        client.hear("\r\n\r\n").await;
        assert!(server.is_alone());
    });
    assert_eq!(log[0].end(), (502, "upstream_closed"));
}

#[test]
fn connect_leads_to_the_server() {
    let log = play(FORWARD, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        client.say(CONNECT).await;
        let connection = server.accept().await;
        let answer = client.hear("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let long = "x".repeat(1 << 20);
        let sending = connection.say(format!("{long}z"));
        let (received, ()) = tokio::join!(client.hear("z"), sending);
        assert_eq!(received.len(), (1 << 20) + 1);
        client.say("ping").await;
        connection.hear("ping").await;
        drop(client);
        assert_eq!(connection.hear_all().await, (String::new(), false));
    });
    let line = &log[0];
    assert_eq!((line.status(), line.text("method")), (200, "CONNECT"));
    assert_eq!(
        [line.number("received"), line.number("sent")],
        [4, (1 << 20) + 1]
    );
}

#[test]
fn a_connect_to_nobody_is_answered_and_ends_the_connection() {
    let log = play(FORWARD, async |stage| {
        let client = stage.client();
        client.say(format!("{CONNECT}{GET}")).await;
        client.end().unwrap();
        let (answer, is_reset) = client.hear_all().await;
        assert!(answer.starts_with("HTTP/1.1 502 ") && !is_reset, "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    });
    assert_eq!((log[0].status(), log.len()), (502, 1));
}

#[test]
fn a_broken_side_of_a_tunnel_resets_the_other() {
    for (is_client, ended) in [(true, "client_reset"), (false, "upstream_reset")] {
        let log = play(FORWARD, async |stage| {
            let mut server = stage.server(FIRST);
            let client = stage.client();
            client.say(CONNECT).await;
            let connection = server.accept().await;
            client.hear("\r\n\r\n").await;
            let (broken, other) = if is_client {
                (client, connection)
            } else {
                (connection, client)
            };
            broken.reset();
            assert_eq!(other.hear_all().await, (String::new(), true));
        });
        assert_eq!(log[0].end(), (200, ended));
    }
}

#[test]
fn a_tunnel_without_a_byte_is_closed_after_its_idle_time() {
    let timeouts = "[timeouts]\ntunnel_idle = \"10m\"\n";
    let log = play(&format!("{timeouts}{FORWARD}"), async |stage| {
        let (client, connection) = tunnel(stage).await;
        tokio::time::sleep(std::time::Duration::from_secs(300)).await;
        connection.say("x").await;
        let (heard, seconds) = timed(client.hear_all()).await;
        assert_eq!(heard, ("x".to_owned(), false));
        assert_eq!(seconds.round(), 600.0);
    });
    assert_eq!(log[0].end(), (200, "tunnel_idle_timeout"));
}

#[test]
fn a_tunnel_whose_client_takes_nothing_is_reset_after_its_idle_time() {
    let timeouts = "[timeouts]\ntunnel_idle = \"10m\"\n";
    let log = play(&format!("{timeouts}{FORWARD}"), async |stage| {
        let (client, connection) = tunnel(stage).await;
        // More than the client's end has room for.
        connection.say("x".repeat(100_000)).await;
        connection.end().unwrap();
        assert_eq!(connection.hear_all().await, (String::new(), true));
        assert!(client.hear_all().await.1);
    });
    assert_eq!(log[0].end(), (200, "tunnel_idle_timeout"));
}

#[test]
fn a_tunnel_whose_client_takes_little_at_a_time_is_not_idle() {
    let timeouts = "[timeouts]\ntunnel_idle = \"1m\"\n";
    let log = play(&format!("{timeouts}{FORWARD}"), async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        client.say(CONNECT).await;
        let connection = server.accept().await;
        connection.say(format!("{}!", "x".repeat(100_000))).await;
        connection.end().unwrap();
        hear_slowly(&client).await;
        client.end().unwrap();
        assert_eq!(connection.hear_all().await, (String::new(), false));
    });
    assert_eq!(log[0].end(), (200, "complete"));
}

#[test]
fn a_tunnel_is_cut_off_at_the_end_of_a_drain() {
    let log = play(FORWARD, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        client.say(CONNECT).await;
        let _connection = server.accept().await;
        client.hear("\r\n\r\n").await;
        stage.worker.sessions.cut_off.set(true);
        stage.worker.sessions.cut_off_now.notify_waiters();
        assert_eq!(client.hear_all().await, (String::new(), true));
    });
    assert_eq!(log[0].end(), (200, "drain"));
}
