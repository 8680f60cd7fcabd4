//! A client's connection: request after request, and how it ends.
use super::stage::{
    CLIENT, FIRST, FORWARD, GET, OK, SWITCH, Stage, all_at_rest, ask_once, play, timed,
};
use crate::accept::arrival;
use crate::config::plan::Mode;
use crate::net::deadline::Deadline;
use crate::net::transport::testing::End;
use crate::tcp::by_name;
use crate::telemetry::metrics::Limit;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn requests_follow_each_other_on_both_connections() {
    let log = play(SWITCH, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        client.say(GET).await;
        let connection = server.accept().await;
        for _ in 0..3 {
            connection.hear("\r\n\r\n").await;
            connection.say(OK).await;
            client.hear("ok").await;
            client.say(GET).await;
        }
        assert!(server.is_alone(), "the connection was used again");
    });
    let reused: Vec<bool> = log.iter().map(|line| line.is("reused")).collect();
    assert_eq!(reused[..3], [false, true, true]);
}

#[test]
fn a_pipeline_is_answered_in_order_one_by_one() {
    const COUNT: usize = 10;
    let log = play(SWITCH, async |stage| {
        let mut server = stage.server(FIRST);
        let client = stage.client();
        let requests: Vec<String> = (0..COUNT)
            .map(|number| GET.replace("/a", &format!("/{number}")))
            .collect();
        client.say(requests.concat()).await;
        client.end().unwrap();
        let connection = server.accept().await;
        for number in 0..COUNT {
            let heard = connection.hear("\r\n\r\n").await;
            let line = format!("GET /{number} HTTP/1.1\r\n");
            assert!(heard.starts_with(&line), "{heard}");
            assert_eq!(heard.matches("GET ").count(), 1, "{heard}");
            connection
                .say(OK.replace("ok", &format!("{number:02}")))
                .await;
        }
        let (answers, is_reset) = client.hear_all().await;
        assert!(!is_reset);
        let bodies: Vec<&str> = answers.split("\r\n\r\n").skip(1).collect();
        for (number, body) in bodies.iter().enumerate() {
            assert!(body.starts_with(&format!("{number:02}")), "{answers}");
        }
        assert_eq!(bodies.len(), COUNT);
    });
    assert_eq!(log.len(), COUNT);
}

/// What a request says of its connection; and whether another one may follow.
const PERSISTENCE: &[(&str, bool)] = &[
    ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        false,
    ),
    (
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n",
        false,
    ),
    ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", false),
    (
        "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
        true,
    ),
];

#[test]
fn a_connection_lasts_as_long_as_the_client_has_it() {
    for (request, lasts) in PERSISTENCE {
        play(SWITCH, async |stage| {
            let (_server, client, connection) = stage.asked(request, "\r\n\r\n").await;
            connection.say(OK).await;
            let (answer, seconds) = timed(client.hear_all()).await;
            assert!(answer.0.ends_with("ok"), "{answer:?}");
            // An idle one is closed after a minute.
            let limit = if *lasts { 60.0 } else { 0.0 };
            assert_eq!(seconds.round(), limit, "{request:?}");
        });
    }
}

#[test]
fn a_client_that_has_ended_its_side_gets_its_response() {
    let log = play(SWITCH, async |stage| {
        let (_, answer) = ask_once(stage, (GET, "\r\n\r\n"), OK).await;
        assert!(answer.0.ends_with("\r\n\r\nok") && !answer.1, "{answer:?}");
    });
    assert_eq!(log[0].end(), (200, "complete"));
}

#[test]
fn a_client_that_resets_while_it_waits_ends_its_request() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        client.reset();
        let ((heard, _), seconds) = timed(connection.hear_all()).await;
        assert_eq!((heard.as_str(), seconds), ("", 0.0));
    });
    assert_eq!(log[0].end(), (499, "client_reset"));
}

/// A forward proxy with a user.
fn with_users(folder: &tempfile::TempDir) -> String {
    let file = folder.path().join("users");
    std::fs::write(&file, "alice:{SHA}L55TUjtiq8FBorTWAZ0jy6g129A=\n").expect("a file");
    format!("{FORWARD}users = \"{}\"\n", file.display())
}

/// Asks with a wrong password, while so many of the client's are waited for.
async fn ask_with_password(stage: &Stage, waiting: usize) -> (Rc<End>, impl Sized + use<>) {
    let live = stage.worker.live();
    let Mode::Forward(forward) = &live.plan().listeners[0].mode else {
        panic!("a forward proxy");
    };
    let users = forward.users.as_ref().expect("users");
    let held = users.hold(CLIENT.0.into(), waiting).await;
    let client = stage.client();
    client
        .say("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: Basic YTpi\r\n\r\n")
        .await;
    (client, held)
}

#[test]
fn a_client_that_resets_while_its_password_waits_ends_its_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = play(&with_users(&folder), async |stage| {
        let (client, _held) = ask_with_password(stage, 1).await;
        all_at_rest().await;
        client.reset();
        all_at_rest().await;
    });
    assert_eq!(log[0].end(), (499, "client_reset"));
}

#[test]
fn a_client_with_too_many_passwords_is_to_come_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = play(&with_users(&folder), async |stage| {
        let (client, _held) = ask_with_password(stage, 512).await;
        let answer = client.hear("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
    });
    assert_eq!(log[0].status(), 503);
}

#[test]
fn a_client_that_goes_within_a_response_is_logged() {
    let log = play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        connection
            .say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234")
            .await;
        client.hear("1234").await;
        client.reset();
        connection.say("56789").await;
    });
    assert_eq!(log[0].end(), (200, "client_reset"));
}

#[test]
fn a_drain_is_told_with_the_response() {
    play(SWITCH, async |stage| {
        let (_server, client, connection) = stage.asked(GET, "\r\n\r\n").await;
        stage.worker.sessions.draining.set(true);
        connection.say(OK).await;
        let (answer, seconds) = timed(client.hear_all()).await;
        assert!(answer.0.contains("Connection: close\r\n"), "{answer:?}");
        assert_eq!(seconds, 0.0);
    });
}

#[test]
fn idle_clients_are_dismissed() {
    play(SWITCH, async |stage| {
        let client = stage.client();
        tokio::task::yield_now().await;
        stage.worker.sessions.dismiss_idle.set(true);
        stage.worker.sessions.idle.wake_all();
        let (heard, seconds) = timed(client.hear_all()).await;
        assert_eq!((heard, seconds), ((String::new(), false), 0.0));
    });
}

#[test]
fn an_idle_client_holds_no_buffer() {
    play(SWITCH, async |stage| {
        let _clients: Vec<_> = (0..3).map(|_| stage.client()).collect();
        tokio::task::yield_now().await;
        assert_eq!(std::rc::Rc::strong_count(&stage.worker.scratch), 1);
    });
}

#[test]
fn a_log_line_tells_the_whole_story() {
    let log = play(SWITCH, async |stage| {
        let request = "POST /p?q HTTP/1.1\r\nHost: a\r\nUser-Agent: me\r\nReferer: r\r\nContent-Length: 3\r\n\r\nabc";
        ask_once(stage, (request, "abc"), OK).await;
    });
    let [line] = log.as_slice() else {
        panic!("{} lines", log.len());
    };
    for (key, value) in [
        ("client", "198.51.100.7"),
        ("mode", "switch"),
        ("method", "POST"),
        ("target", "/p?q"),
        ("version", "HTTP/1.1"),
        ("referer", "r"),
        ("user_agent", "me"),
        ("upstream", "u"),
        ("server", "192.0.2.1:80"),
        ("engine", "copy"),
        ("ended", "complete"),
    ] {
        assert_eq!(line.text(key), value, "{key}");
    }
    let numbers = ["port", "status", "received", "sent"].map(|key| line.number(key));
    assert_eq!(numbers, [4711, 200, 3, 2]);
}

#[test]
fn the_preface_of_http2_and_its_first_request_have_one_limit() {
    let text = format!("[timeouts]\nhead = \"10s\"\n{SWITCH}");
    play(&text, async |stage| {
        let client = stage.client();
        let ((), seconds) = timed(async {
            client.say("PRI * HTTP/2.0\r\n\r\n").await;
            tokio::time::sleep(Duration::from_secs(8)).await;
            // The rest, and no settings.
            client.say("SM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
            client.hear_all().await;
        })
        .await;
        assert!((10.0..11.0).contains(&seconds), "{seconds}");
        let limits = &stage.worker.telemetry.metrics.limits;
        assert_eq!(limits.get(Limit::HeadTimeout), 1);
    });
}

#[test]
fn a_proxy_header_and_what_follows_it_have_one_limit() {
    const TUNNEL: &str = r#"
[[listener]]
listen = "127.0.0.1:8443"
mode = "tunnel"
proxy_protocol = true
[[listener.route]]
sni = "a.example"
upstream = "u"
[upstream.u]
servers = ["192.0.2.1:443"]
"#;
    let log = play(TUNNEL, async |stage| {
        let client = stage.client_of(|mut client| async move {
            let mut deadline = Deadline::after(client.context.live.plan().timeouts.head);
            let header = arrival::read_proxy_header(&mut client, &mut deadline).await;
            let (_, rest) = header.expect("a header");
            by_name::run_listener(client, rest, deadline).await;
        });
        let ((), seconds) = timed(async {
            client.say("PROXY TC").await;
            tokio::time::sleep(Duration::from_secs(8)).await;
            // The rest, and the first byte of a ClientHello.
            client.say("P4 192.0.2.7 192.0.2.8 1 2\r\n\x16").await;
            client.hear_all().await;
        })
        .await;
        assert!((10.0..11.0).contains(&seconds), "{seconds}");
    });
    assert_eq!(log[0].end(), (408, "head_timeout"));
}
