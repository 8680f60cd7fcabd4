//! Which requests cache peers are not asked for.
use super::{asked, asking, fetch, origin, request};
use crate::support::message::field;
use crate::support::server::answer_requests;
use crate::support::{Place, Server};

#[test]
fn what_is_not_for_others_goes_to_the_origin_alone() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = Server::listen(&far).serve(|peer, _| {
        answer_requests(peer, |head| {
            assert_ne!(
                field(head, "cache-control").as_deref(),
                Some("only-if-cached")
            );
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
        });
    });
    let cache_peer = Server::listen(&far);
    let carrick = asking(&near, cache_peer.address());
    for (method, lines) in [
        ("GET", "Authorization: Basic eDp5\r\n"),
        ("GET", "Cache-Control: no-store\r\n"),
        ("GET", "If-Match: \"a\"\r\n"),
        ("POST", "Content-Length: 0\r\n"),
        ("DELETE", ""),
        ("OPTIONS", ""),
    ] {
        let mut client = carrick.connect_forward();
        client.send(request(method, origin.address(), "/a", lines));
        assert_eq!(client.read_response(method).status, 200, "{method} {lines}");
        cache_peer.expect_no_connection();
    }
}

#[test]
fn a_reload_in_the_browser_is_answered_by_the_origin() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let cache_peer = Server::listen(&far);
    let carrick = asking(&near, cache_peer.address());
    let (mut client, mut peer) = asked(&carrick, origin.address(), &cache_peer);
    peer.send(super::MISS);
    client.read_response("GET");
    let lines = "Cache-Control: no-cache\r\n";
    let again = client.ask(&request("GET", origin.address(), "/a", lines));
    assert_eq!(again.text(), "/a");
    assert!(!peer_has_something(&mut peer), "the cache peer was asked");
    assert_eq!(fetch(&carrick, origin.address(), "/a").status, 200);
    cache_peer.expect_no_connection();
}

fn peer_has_something(peer: &mut crate::support::Peer) -> bool {
    peer.stream()
        .set_nonblocking(true)
        .expect("a socket option");
    peer.stream().peek(&mut [0]).is_ok_and(|count| count > 0)
}

#[test]
fn what_was_not_stored_lately_is_not_asked_for_elsewhere() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = Server::listen(&far).serve(|peer, _| {
        answer_requests(peer, |_| {
            b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 2\r\n\r\nok".to_vec()
        });
    });
    let cache_peer = Server::listen(&far);
    let carrick = asking(&near, cache_peer.address());
    let (mut client, mut peer) = asked(&carrick, origin.address(), &cache_peer);
    peer.send(super::MISS);
    assert_eq!(client.read_response("GET").text(), "ok");
    for _ in 0..3 {
        assert_eq!(fetch(&carrick, origin.address(), "/a").text(), "ok");
    }
    assert!(!peer_has_something(&mut peer));
    cache_peer.expect_no_connection();
}

#[test]
fn what_has_to_be_validated_each_time_is_asked_of_the_origin_alone() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = Server::listen(&far).serve(|peer, _| {
        answer_requests(peer, |head| {
            let lines = "Cache-Control: no-cache\r\nETag: \"v\"\r\n";
            if field(head, "if-none-match").is_some() {
                format!("HTTP/1.1 304 Not Modified\r\n{lines}\r\n").into_bytes()
            } else {
                format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok").into_bytes()
            }
        });
    });
    let cache_peer = Server::listen(&far);
    let carrick = asking(&near, cache_peer.address());
    let (mut client, mut peer) = asked(&carrick, origin.address(), &cache_peer);
    peer.send(super::MISS);
    assert_eq!(client.read_response("GET").text(), "ok");
    for _ in 0..3 {
        let again = client.ask(&request("GET", origin.address(), "/a", ""));
        assert_eq!(again.text(), "ok");
        assert!(crate::caching::status(&again).contains("fwd-status=304"));
    }
    assert!(!peer_has_something(&mut peer));
    cache_peer.expect_no_connection();
}
