//! Tests of what is asked of caches, and of the judgement over a run.

use super::*;

#[test]
fn hits_must_not_reach_the_origin_and_new_objects_must() {
    for asks in [Asks::One, Asks::Many] {
        assert_eq!(fault(asks, 1000, 0), None);
        assert!(fault(asks, 1000, 1).is_some_and(|fault| fault.contains("asked 1 times")));
    }
    assert_eq!(fault(Asks::New, 1000, 1016), None);
    assert!(fault(Asks::New, 1000, 999).is_some_and(|fault| fault.contains("only 999")));
    // How often it was asked is what is judged there.
    assert_eq!(fault(Asks::Crowd, 1000, 7), None);
}

#[test]
fn the_origin_says_how_many_requests_it_has_had() {
    let said = "HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\nActive connections: 1 \n\
        server accepts handled requests\n 3 4 17 \nReading: 0 Writing: 1 Waiting: 0 \n";
    assert_eq!(requests_of(said), Some(17));
    assert_eq!(requests_of("HTTP/1.1 404 Not Found\r\n\r\n"), None);
}

#[test]
fn targets_of_new_objects_are_of_one_run_only() {
    let plain = Target {
        connect: String::from("10.77.1.1:8080"),
        is_tls: false,
        request_target: String::from("/c/1024"),
        host: String::from("o"),
    };
    let of = |asks: Asks, run| asks.target(&plain, run).request_target;
    assert_eq!(of(Asks::One, 3), "/c/1024?");
    assert_eq!(of(Asks::Many, 3), of(Asks::Many, 4));
    assert_ne!(of(Asks::New, 3), of(Asks::New, 4));
    assert_ne!(of(Asks::Crowd, 3), of(Asks::Crowd, 4));
    // Another number behind it must not make it one of another run.
    assert_ne!(of(Asks::New, 1) + "11", of(Asks::New, 11) + "1");
}
