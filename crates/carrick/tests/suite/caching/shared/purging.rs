//! Purging, by the administrator and by unsafe methods.
use super::{Play, is_from_second_level, origin, request, server};
use crate::support::carrick::FORWARD_TEXT;
use crate::support::{Peer, Redis, Response, Server, wait_until};
use std::net::SocketAddr;

const TAGGED: &str = "Cache-Control: max-age=60\r\nCache-Tag: news\r\n";

fn purge(play: &Play, query: &str) -> Response {
    let admin = play.carrick.admin();
    Peer::connect(admin).ask(&format!(
        "DELETE /cache?{query} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"
    ))
}

/// Purges, and purges again where a busy machine keeps the shared cache from answering in time. Returns the first answer.
fn purge_everywhere(play: &Play, query: &str) -> Response {
    let first = purge(play, query);
    if first.text().contains("it does not answer") {
        wait_until("the shared cache", || purge(play, query).status == 200);
    } else {
        assert_eq!(first.status, 200, "{}", first.text());
    }
    first
}

#[test]
fn a_purge_reaches_what_others_would_find() {
    let (server, far) = server();
    let origin = origin(&far, TAGGED);
    let address = origin.address();
    for query in [
        format!("url=http://{address}/a"),
        format!("prefix=http://{address}/a"),
        "tag=news".to_owned(),
        "all=yes".to_owned(),
        format!("url=http://{address}/a&how=outdate"),
    ] {
        let (one, two, three) = (
            Play::begin(server.address()),
            Play::begin(server.address()),
            Play::begin(server.address()),
        );
        one.fetch(address, "/a");
        one.fetch(address, "/b");
        one.wait_until_written(2);
        assert!(is_from_second_level(&two.fetch(address, "/a")));
        purge_everywhere(&one, &query);
        let (a, b) = (three.fetch(address, "/a"), three.fetch(address, "/b"));
        assert!(!is_from_second_level(&a), "{query}: {}", a.head);
        // A purge of more than one URL removes everything.
        assert_eq!(
            is_from_second_level(&b),
            query.starts_with("url="),
            "{query}"
        );
        purge_everywhere(&one, "all=yes");
    }
}

#[test]
fn a_purge_by_url_reaches_what_is_stored_without_its_query() {
    let (server, far) = server();
    let origin = origin(&far, TAGGED);
    let address = origin.address();
    for query in ["\"none\"", "[\"x\"]"] {
        let begin = || {
            Play::begin_as(
                &format!("servers = \"{}\"", server.address()),
                &format!("cache_key = {{ query = {query} }}\n"),
            )
        };
        let (one, two, three) = (begin(), begin(), begin());
        one.fetch(address, "/a?x=1");
        one.wait_until_written(1);
        assert!(is_from_second_level(&two.fetch(address, "/a?x=1")));
        let purged = purge_everywhere(&one, &format!("url=http://{address}/a"));
        assert_eq!(purged.text().split_whitespace().next(), Some("1"));
        let again = three.fetch(address, "/a?x=1");
        assert!(!is_from_second_level(&again), "{query}: {}", again.head);
        purge_everywhere(&one, "all=yes");
    }
}

#[test]
fn a_failed_purge_is_reported() {
    let (server, far) = server();
    let origin = origin(&far, TAGGED);
    let play = Play::begin(server.address());
    play.fetch(origin.address(), "/a");
    play.wait_until_written(1);
    drop(server);
    let purged = purge(&play, "all=yes");
    assert_eq!(purged.status, 502);
    assert!(
        purged.text().starts_with("1 objects were purged here."),
        "{}",
        purged.text()
    );
}

#[test]
fn what_an_unsafe_method_changes_is_taken_out() {
    let (server, far) = server();
    let origin = origin(&far, TAGGED);
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    one.fetch(origin.address(), "/a");
    one.wait_until_written(1);
    assert_eq!(server.keys().len(), 2);
    let mut client = two.carrick.connect_forward();
    client.send(request("DELETE", origin.address(), "/a", ""));
    assert_eq!(client.read_response("DELETE").status, 200);
    wait_until("it is taken out", || server.keys().len() == 1);
    assert!(!is_from_second_level(&two.fetch(origin.address(), "/a")));
}

/// An unsafe request, while the server deletes nothing.
fn delete_in_vain(server: &Redis, play: &Play, origin: SocketAddr) {
    assert_eq!(server.ask(&["ACL", "SETUSER", "default", "-del"]), "OK");
    let mut client = play.carrick.connect_forward();
    client.send(request("DELETE", origin, "/a", ""));
    assert_eq!(client.read_response("DELETE").status, 200);
    let refused = ["result=\"not_written\""];
    let name = "carrick_shared_writes_total";
    play.carrick.wait_for_metric(name, &refused, 1.0);
}

#[test]
fn what_could_not_be_taken_out_is_not_found_again() {
    let (server, far) = server();
    let origin = origin(&far, TAGGED);
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    one.fetch(origin.address(), "/a");
    one.wait_until_written(1);
    delete_in_vain(&server, &two, origin.address());
    assert_eq!(server.keys().len(), 2);
    assert!(!is_from_second_level(&two.fetch(origin.address(), "/a")));
}

#[test]
fn what_could_not_be_taken_out_at_first_is_taken_out_alone() {
    let (server, far) = server();
    let origin = origin(&far, TAGGED);
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    one.fetch(origin.address(), "/a");
    one.fetch(origin.address(), "/b");
    one.wait_until_written(2);
    delete_in_vain(&server, &two, origin.address());
    assert_eq!(server.ask(&["ACL", "SETUSER", "default", "+del"]), "OK");
    // Before it reads this, it deletes the other.
    let found = two.fetch(origin.address(), "/b");
    assert!(is_from_second_level(&found), "{}", found.head);
    assert_eq!(server.keys().len(), 2);
    assert!(!is_from_second_level(&two.fetch(origin.address(), "/a")));
}

/// Without the rules, nothing that changes it would have been noticed.
#[test]
fn a_reload_that_takes_rules_away_empties_it_though_it_changes_the_time_out_as_well() {
    let (server, far) = server();
    let origin = origin(&far, TAGGED);
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    one.fetch(origin.address(), "/a");
    one.wait_until_written(1);
    let shared = format!("servers = \"{}\", timeout = \"9s\"", server.address());
    for listener in ["cache = false\n", ""] {
        let text = format!("[cache]\nshared = {{ {shared} }}\n{FORWARD_TEXT}{listener}");
        one.carrick.reload_as(&one.place, &text, "ok");
    }
    // The next look-up does it.
    one.fetch(origin.address(), "/b");
    let a = two.fetch(origin.address(), "/a");
    assert!(!is_from_second_level(&a), "{}", a.head);
}

#[test]
fn what_was_on_its_way_when_an_unsafe_method_changed_it_is_not_written() {
    let (server, far) = server();
    let origin = Server::listen(&far);
    let address = origin.address();
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    let mut client = one.carrick.connect_forward();
    let fresh = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\n";
    client.send(request("GET", address, "/a", ""));
    let mut slow = origin.accept();
    slow.read_head();
    slow.send(format!("{fresh}ol"));
    client.read_head();
    let mut other = one.carrick.connect_forward();
    other.send(request("DELETE", address, "/a", ""));
    let mut upstream = origin.accept();
    upstream.read_head();
    upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    assert_eq!(other.read_response("DELETE").status, 204);
    slow.send("d.");
    client.expect("old.");
    drop(slow);
    // Were it written, this would be behind it.
    client.send(request("GET", address, "/b", ""));
    let mut upstream = origin.accept();
    upstream.read_head();
    upstream.send(format!("{fresh}more"));
    assert_eq!(client.read_response("GET").text(), "more");
    one.wait_until_written(1);
    let mut late = two.carrick.connect_forward();
    late.send(request("GET", address, "/a", ""));
    let mut upstream = origin.accept();
    upstream.read_head();
    upstream.send(format!("{fresh}new."));
    assert_eq!(late.read_response("GET").text(), "new.");
}
