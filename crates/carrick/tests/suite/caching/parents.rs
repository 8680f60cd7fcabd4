//! A cache whose requests go through another proxy.
use super::status;
use crate::support::carrick::FORWARD_TEXT;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server, Squid};

fn with_parent(place: &Place, parent: std::net::SocketAddr, more: &str) -> Carrick {
    Carrick::start(
        place,
        &format!("[cache]\n{more}\n{FORWARD_TEXT}parent = {{ proxy = \"{parent}\" }}\n"),
    )
}

#[test]
fn what_came_through_a_squid_is_stored() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = Server::listen(&far).serve(|peer, _| {
        answer_requests(peer, |_| {
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok".to_vec()
        });
    });
    let squid = Squid::start(&far);
    let carrick = with_parent(&near, squid.address(), "");
    let request = format!(
        "GET http://{}/a HTTP/1.1\r\nHost: {0}\r\n\r\n",
        origin.address()
    );
    let mut client = carrick.connect_forward();
    let first = client.ask(&request);
    assert_eq!((first.status, first.text().as_str()), (200, "ok"));
    assert!(
        first.field("via").is_some_and(|via| via.contains("squid")),
        "{}",
        first.head
    );
    drop(squid);
    let second = client.ask(&request);
    assert!(status(&second).contains("carrick; hit"), "{}", second.head);
    assert_eq!(second.text(), "ok");
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn a_parent_that_never_answers_costs_one_time_out() {
    let (near, far) = (Place::claim(), Place::claim());
    let parent = Server::listen(&far);
    let carrick = with_parent(
        &near,
        parent.address(),
        "[timeouts]\ndrain = \"2s\"\nidle = \"200ms\"",
    );
    let mut client = carrick.connect_forward();
    client.send("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let mut silent = parent.accept();
    silent.read_head();
    assert_eq!(client.read_response("GET").status, 504);
    parent.expect_no_connection();
    assert_eq!(carrick.metric("carrick_retries_total", &[]), 0.0);
}
