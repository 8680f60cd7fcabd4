//! A shared cache that dies, does not answer, or has foreign data.
use super::{FRESH, Play, is_from_second_level, origin, server};
use crate::support::{Place, Redis, Server, wait_until};

#[test]
fn a_server_that_dies_is_not_missed_and_used_again() {
    let (server, far) = server();
    let origin = origin(&far, FRESH);
    let play = Play::begin(server.address());
    play.fetch(origin.address(), "/a");
    play.wait_until_written(1);
    assert_eq!(play.carrick.metric("carrick_shared_up", &[]), 1.0);
    drop(server);
    for number in 0..20 {
        let path = format!("/{number}");
        assert_eq!(
            play.fetch(origin.address(), &path).text(),
            format!("{path} ")
        );
    }
    assert_eq!(play.carrick.metric("carrick_shared_up", &[]), 0.0);
    assert_eq!(
        play.carrick.status()["cache"]["shared"]["state"],
        "left out"
    );
    let back = Redis::start(&far, &[]);
    let mut number = 100;
    wait_until("the server is used again", || {
        number += 1;
        let path = format!("/{number}");
        assert_eq!(
            play.fetch(origin.address(), &path).text(),
            format!("{path} ")
        );
        play.carrick.metric("carrick_shared_up", &[]) == 1.0
    });
    let other = Play::begin(back.address());
    wait_until("a newly written response", || {
        number += 1;
        let path = format!("/{number}");
        play.fetch(origin.address(), &path);
        is_from_second_level(&other.fetch(origin.address(), &path))
    });
    let log = play.carrick.standard_error();
    assert!(log.wait_for("answers again").is_ok());
    let log = log.text();
    assert_eq!(log.matches("is not used for a while").count(), 1, "{log}");
    assert_eq!(log.matches("answers again").count(), 1, "{log}");
}

#[test]
fn one_that_never_answers_costs_one_time_out() {
    let far = Place::claim();
    let origin = origin(&far, FRESH);
    let silent = Server::listen(&far);
    let play = Play::begin_with(&format!(
        "servers = \"{}\", timeout = \"100ms\"",
        silent.address()
    ));
    assert_eq!(play.fetch(origin.address(), "/a").text(), "/a ");
    assert!(play.asked("failed") >= 1.0);
    assert_eq!(play.carrick.metric("carrick_shared_up", &[]), 0.0);
    // Counted after the response was sent.
    play.carrick
        .wait_for_metric("carrick_request_seconds_sum", &[], 0.1);
    for number in 0..5 {
        let path = format!("/{number}");
        assert_eq!(
            play.fetch(origin.address(), &path).text(),
            format!("{path} ")
        );
    }
    assert!(silent.try_accept().is_some());
}

#[test]
fn one_that_is_busy_for_longer_than_a_second_is_waited_for_if_timeout_allows_it() {
    let (server, far) = server();
    let origin = origin(&far, FRESH);
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    // `timeout` is 10 s in these tests.
    let be_busy = || assert_eq!(server.ask(&["CLIENT", "PAUSE", "1500"]), "OK");
    be_busy();
    one.fetch(origin.address(), "/a");
    one.wait_until_written(1);
    be_busy();
    let found = two.fetch(origin.address(), "/a");
    assert!(is_from_second_level(&found), "{}", found.head);
}

#[test]
fn garbage_is_a_miss() {
    let (server, far) = server();
    let origin = origin(&far, FRESH);
    let one = Play::begin(server.address());
    one.fetch(origin.address(), "/a");
    one.wait_until_written(1);
    let keys = server.keys();
    let key = keys.iter().find(|key| !key.ends_with(":generation"));
    let key = key.expect("a key").as_str();
    let field = server.ask(&["HKEYS", key]);
    let mut fields: Vec<&[&str]> = Vec::new();
    let garbage = ["HSET", key, field.as_str(), "carrick\u{1}garbage"];
    let empty = ["HSET", key, field.as_str(), ""];
    fields.extend([garbage.as_slice(), empty.as_slice()]);
    for command in fields {
        server.ask(command);
        let two = Play::begin(server.address());
        let fetched = two.fetch(origin.address(), "/a");
        assert_eq!(fetched.text(), "/a ");
        assert!(!is_from_second_level(&fetched));
        assert_eq!(two.asked("garbage"), 1.0, "{command:?}");
        // It is overwritten.
        two.wait_until_written(1);
        let three = Play::begin(server.address());
        assert!(is_from_second_level(&three.fetch(origin.address(), "/a")));
    }
    // A value of another type, which cannot be overwritten.
    server.ask(&["SET", key, "a string"]);
    let two = Play::begin(server.address());
    assert_eq!(two.fetch(origin.address(), "/a").text(), "/a ");
    let label = ["result=\"not_written\""];
    (two.carrick).wait_for_metric("carrick_shared_writes_total", &label, 1.0);
    assert_eq!(two.carrick.metric("carrick_shared_up", &[]), 1.0);
}

#[test]
fn a_generation_that_is_garbage_or_gone_takes_everything_out() {
    let (server, far) = server();
    let origin = origin(&far, FRESH);
    for command in [
        ["SET", "carrick:generation", "x"].as_slice(),
        &["DEL", "carrick:generation"],
    ] {
        let one = Play::begin(server.address());
        let reload = "Cache-Control: no-cache\r\n";
        one.fetch_with(origin.address(), "/a", reload);
        one.wait_until_written(1);
        server.ask(command);
        let two = Play::begin(server.address());
        let fetched = two.fetch(origin.address(), "/a");
        assert_eq!(fetched.text(), "/a ");
        assert!(!is_from_second_level(&fetched), "{}", fetched.head);
        // From then on there is a generation again.
        two.fetch(origin.address(), "/b");
        two.wait_until_written(if command[0] == "SET" { 1 } else { 2 });
        let three = Play::begin(server.address());
        assert!(is_from_second_level(&three.fetch(origin.address(), "/b")));
    }
}

#[test]
fn a_reload_begins_and_ends_its_use() {
    let (server, far) = server();
    let origin = origin(&far, FRESH);
    let play = Play::begin(server.address());
    play.fetch(origin.address(), "/a");
    play.wait_until_written(1);
    let text = format!("[cache]\n{}", crate::support::carrick::FORWARD_TEXT);
    play.carrick.reload_as(&play.place, &text, "ok");
    assert_eq!(play.carrick.metric("carrick_shared_up", &[]), 0.0);
    play.fetch(origin.address(), "/b");
    assert_eq!(server.keys().len(), 2);
    let with = text.replace(
        "[cache]",
        &format!(
            "[cache]\nshared = {{ servers = \"{}\", timeout = \"10s\" }}",
            server.address()
        ),
    );
    play.carrick.reload_as(&play.place, &with, "ok");
    play.fetch(origin.address(), "/c");
    play.wait_until_written(1);
    assert_eq!(server.keys().len(), 3);
}
