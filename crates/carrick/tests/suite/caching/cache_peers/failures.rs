//! Cache peers that are down, slow, or break off.
use super::{MISS, answers, asked, asking, cache_peers, fetch, forward, origin, wait_for_answers};
use crate::support::message::field;
use crate::support::server::answer_requests;
use crate::support::{Ending, Place, Server, wait_until};

#[test]
fn a_dead_one_is_left_out_and_tried_again() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let (refusing, guard) = far.refusing();
    let carrick = asking(&near, refusing);
    assert_eq!(fetch(&carrick, origin.address(), "/first").text(), "/first");
    wait_for_answers(&carrick, "failed", 1.0);
    assert_eq!(carrick.metric("carrick_cache_peer_up", &[]), 0.0);
    assert_eq!(carrick.status()["cache"]["peers"][0]["state"], "left out");
    for number in 0..20 {
        let path = format!("/{number}");
        assert_eq!(fetch(&carrick, origin.address(), &path).text(), path);
    }
    // Only the trials reach it, at most one per second.
    assert!(answers(&carrick, "failed") < 10.0);
    drop(guard);
    let back = Server::listen_at(refusing)
        .serve(|peer, _| answer_requests(peer, |_| MISS.as_bytes().to_vec()));
    let mut number = 100;
    wait_until("the cache peer is asked again", || {
        number += 1;
        let path = format!("/{number}");
        assert_eq!(fetch(&carrick, origin.address(), &path).text(), path);
        carrick.metric("carrick_cache_peer_up", &[]) == 1.0
    });
    assert!(back.accepted() > 0);
    let log = carrick.standard_error();
    assert!(log.wait_for("answers again").is_ok());
    let log = log.text();
    assert_eq!(log.matches("is not used for a while").count(), 1, "{log}");
    assert_eq!(log.matches("answers again").count(), 1, "{log}");
}

#[test]
fn one_that_never_answers_costs_one_time_out() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let cache_peer = Server::listen(&far);
    // The first trial comes a second later, which is longer than the rest takes on any working machine.
    let carrick = forward(
        &near,
        &cache_peers(&[cache_peer.address()], ", answer = \"100ms\""),
    );
    assert_eq!(fetch(&carrick, origin.address(), "/a").text(), "/a");
    let mut silent = cache_peer.accept();
    assert!(silent.read_head().contains("only-if-cached"));
    wait_for_answers(&carrick, "failed", 1.0);
    assert!(carrick.status()["cache"]["peers"][0]["failed"] == 1);
    assert_eq!(fetch(&carrick, origin.address(), "/b").text(), "/b");
    // Counted after the response was sent.
    carrick.wait_for_metric("carrick_request_seconds_sum", &[], 0.1);
    // A connection that timed out is not reused.
    assert!(silent.read_ending().bytes().is_empty());
}

#[test]
fn one_that_comes_and_goes_never_fails_a_request() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    // Every other connection is closed at once, the others after their first response.
    let cache_peer = Server::listen(&far).serve(|mut peer, number| {
        if number % 2 == 1 && peer.waits_for_head() {
            peer.read_head();
            peer.send(MISS);
        }
    });
    let carrick = asking(&near, cache_peer.address());
    let mut number = 0;
    wait_until("failures and answers", || {
        number += 1;
        let path = format!("/{number}");
        assert_eq!(fetch(&carrick, origin.address(), &path).text(), path);
        answers(&carrick, "failed") >= 2.0 && answers(&carrick, "miss") >= 1.0
    });
}

#[test]
fn what_ends_too_early_is_never_stored_as_whole() {
    for (framing, part) in [
        ("Content-Length: 100000", "a part".to_owned()),
        (
            "Transfer-Encoding: chunked",
            format!("6\r\na part\r\n{:x}\r\nmore", 1000),
        ),
    ] {
        let (near, far) = (Place::claim(), Place::claim());
        let origin = origin(&far);
        let cache_peer = Server::listen(&far);
        let carrick = asking(&near, cache_peer.address());
        let (mut client, mut peer) = asked(&carrick, origin.address(), &cache_peer);
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nAge: 1\r\n{framing}\r\n\r\n{part}"
        ));
        assert!(client.read_head().starts_with("HTTP/1.1 200"));
        drop(peer);
        assert!(
            matches!(client.read_ending(), Ending::Reset(_)),
            "{framing}: the client sees the failure"
        );
        wait_for_answers(&carrick, "failed", 1.0);
        drop(cache_peer);
        let whole = fetch(&carrick, origin.address(), "/a");
        assert_eq!((whole.status, whole.text().as_str()), (200, "/a"));
    }
}

#[test]
fn what_is_no_answer_to_the_question_is_not_passed_on() {
    for answer in [
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        // It is unclear whether this is complete.
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nperhaps a part",
    ] {
        let (near, far) = (Place::claim(), Place::claim());
        let origin = origin(&far);
        let cache_peer = Server::listen(&far);
        let carrick = asking(&near, cache_peer.address());
        let (mut client, mut peer) = asked(&carrick, origin.address(), &cache_peer);
        peer.send(answer);
        drop(peer);
        let response = client.read_response("GET");
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "/a"),
            "{answer}"
        );
        assert_eq!(field(&response.head, "proxy-authenticate"), None);
        wait_for_answers(&carrick, "refused", 1.0);
    }
}

#[test]
fn what_is_no_http_is_not_passed_on() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let cache_peer = Server::listen(&far);
    let carrick = asking(&near, cache_peer.address());
    let (mut client, mut peer) = asked(&carrick, origin.address(), &cache_peer);
    peer.send("SSH-2.0-OpenSSH_9.2\r\n");
    assert_eq!(client.read_response("GET").text(), "/a");
    wait_for_answers(&carrick, "failed", 1.0);
}
