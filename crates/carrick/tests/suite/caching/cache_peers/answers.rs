//! Responses of cache peers, and how carrick uses them.
use super::{MISS, answers, asking, fetch, fetch_with, forward, origin, request, wait_for_answers};
use crate::caching::{age, status};
use crate::support::message::{field, via};
use crate::support::{Place, Server, Squid};

#[test]
fn what_a_cache_peer_has_is_passed_on_and_stored() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let other = forward(&far, "");
    let carrick = asking(&near, other.forward_address());
    fetch(&other, origin.address(), "/a");
    let found = fetch(&carrick, origin.address(), "/a");
    assert_eq!((found.status, found.text().as_str()), (200, "/a"));
    assert!(age(&found).is_some(), "{}", found.head);
    let said = status(&found);
    assert!(
        said.contains("carrick; hit; ttl=")
            && said.ends_with("carrick; fwd=uri-miss; stored; detail=peer"),
        "{said}"
    );
    assert_eq!(
        found.field("via").as_deref(),
        Some("1.1 carrick, 1.1 carrick")
    );
    wait_for_answers(&carrick, "hit", 1.0);
    // From now on it is stored here, too.
    let again = fetch(&carrick, origin.address(), "/a");
    assert!(status(&again).contains("carrick; hit; ttl="));
    assert_eq!(answers(&carrick, "hit"), 1.0);
    assert_eq!(origin.accepted(), 1);
    let mut results: Vec<_> = carrick
        .access_log(2)
        .iter()
        .map(|line| line.text("cache").to_owned())
        .collect();
    // Two workers write the log in any order.
    results.sort();
    assert_eq!(results, ["hit", "peer"]);
    let cache_peer = &carrick.status()["cache"]["peers"][0];
    assert_eq!(
        (
            &cache_peer["state"],
            &cache_peer["hits"],
            &cache_peer["misses"]
        ),
        (&"up".into(), &1.into(), &0.into())
    );
}

#[test]
fn what_a_cache_peer_has_not_is_asked_of_the_origin_at_once() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let cache_peer = Server::listen(&far);
    let carrick = asking(&near, cache_peer.address());
    let mut kept = None;
    // One client, because each worker has its own connections.
    let mut client = carrick.connect_forward();
    for number in 0..5 {
        client.send(request(
            "GET",
            origin.address(),
            &format!("/{number}"),
            "Cookie: a=b\r\nCache-Control: max-stale=1\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\n",
        ));
        // One connection for all requests.
        let peer = kept.get_or_insert_with(|| cache_peer.accept());
        let head = peer.read_head();
        let first = format!("GET http://{}/{number} HTTP/1.1\r\n", origin.address());
        assert!(head.starts_with(&first), "{head}");
        assert_eq!(
            field(&head, "cache-control").as_deref(),
            Some("max-stale=1, only-if-cached")
        );
        assert_eq!(field(&head, "cookie").as_deref(), Some("a=b"));
        assert_eq!(field(&head, "proxy-authorization"), None);
        assert_eq!(field(&head, "proxy-connection"), None);
        assert_eq!(via(&head).as_deref(), Some("1.1 carrick"));
        peer.send(MISS);
        let response = client.read_response("GET");
        assert_eq!(response.text(), format!("/{number}"));
        assert!(
            status(&response).ends_with("fwd=uri-miss; stored; detail=peer-miss"),
            "{}",
            response.head
        );
    }
    cache_peer.expect_no_connection();
    wait_for_answers(&carrick, "miss", 5.0);
}

#[test]
fn what_is_out_of_date_here_may_be_fresh_there() {
    let (near, far) = (Place::claim(), Place::claim());
    let (cache_peer, server) = (Server::listen(&far), Server::listen(&far));
    let carrick = asking(&near, cache_peer.address());
    let mut client = carrick.connect_forward();
    let ask = request("GET", server.address(), "/a", "");
    client.send(&ask);
    let mut peer = cache_peer.accept();
    peer.read_head();
    // At the end of its lifetime, or behind it: it is relayed, and must be validated for the next client.
    peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nAge: 60\r\nETag: \"v\"\r\nContent-Length: 3\r\n\r\nold");
    let first = client.read_response("GET");
    assert_eq!(first.text(), "old");
    assert!(age(&first) >= Some(60), "{}", first.head);
    client.send(&ask);
    let head = peer.read_head();
    assert_eq!(field(&head, "if-none-match").as_deref(), Some("\"v\""));
    peer.send(
        "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nAge: 20\r\nETag: \"v\"\r\n\r\n",
    );
    let second = client.read_response("GET");
    assert_eq!((second.status, second.text().as_str()), (200, "old"));
    let third = client.ask(&ask);
    assert!(status(&third).contains("hit"), "{}", third.head);
    assert!(age(&third).is_some_and(|age| (20..60).contains(&age)));
    server.expect_no_connection();
}

#[test]
fn ranges_and_heads_are_answered_by_cache_peers_too() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let other = forward(&far, "");
    let carrick = asking(&near, other.forward_address());
    fetch(&other, origin.address(), "/abcdef");
    let part = fetch_with(
        &carrick,
        origin.address(),
        "/abcdef",
        "Range: bytes=1-2\r\n",
    );
    assert_eq!((part.status, part.text().as_str()), (206, "ab"));
    let mut client = carrick.connect_forward();
    client.send(request("HEAD", origin.address(), "/abcdef", ""));
    let head = client.read_response("HEAD");
    assert_eq!(head.field("content-length").as_deref(), Some("7"));
    wait_for_answers(&carrick, "hit", 2.0);
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn a_squid_can_be_the_cache_peer() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let squid = Squid::start(&far);
    let carrick = asking(&near, squid.address());
    let mut client = crate::support::Peer::connect(squid.address());
    let first = client.ask(&request("GET", origin.address(), "/a", ""));
    assert_eq!(first.text(), "/a");
    let found = fetch(&carrick, origin.address(), "/a");
    assert_eq!((found.status, found.text().as_str()), (200, "/a"));
    assert!(
        found.field("via").is_some_and(|via| via.contains("squid")),
        "{}",
        found.head
    );
    wait_for_answers(&carrick, "hit", 1.0);
    assert_eq!(origin.accepted(), 1);
    for path in ["/b", "/c"] {
        assert_eq!(fetch(&carrick, origin.address(), path).text(), path);
    }
    wait_for_answers(&carrick, "miss", 2.0);
    drop(squid);
    assert_eq!(fetch(&carrick, origin.address(), "/d").text(), "/d");
    wait_for_answers(&carrick, "failed", 1.0);
}
