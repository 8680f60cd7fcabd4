//! Which requests go to the server that a client is bound to.
use super::super::tests::{group, to_group, to_origin};
use super::*;
use crate::config::plan::RouteCache;
use carrick_logic::cache::{KeyRules, Policy};
use carrick_logic::http1::{HeadLimits, Progress, TargetForm};
use std::sync::Arc;

#[test]
fn a_plain_request_that_may_be_sent_again_needs_nobody_for_its_response() {
    let get = "GET / HTTP/1.1\r\nHost: h\r\n";
    // Is it plain, and may it be sent?
    for (text, wanted) in [
        (format!("{get}\r\n"), [true, true]),
        (format!("{get}Content-Length: 0\r\n\r\n"), [true, true]),
        ("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n".into(), [true, true]),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n".into(),
            [true, false],
        ),
        (format!("{get}Expect: 100-continue\r\n\r\n"), [true, false]),
        // Another one, or a part of it.
        (format!("{get}\r\nG"), [false, false]),
        (format!("{get}Content-Length: 1\r\n\r\n"), [false, false]),
        (
            format!("{get}Transfer-Encoding: chunked\r\n\r\n"),
            [false, false],
        ),
        (format!("{get}Connection: close\r\n\r\n"), [false, false]),
        (
            format!("{get}Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
            [false, false],
        ),
        (
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".into(),
            [false, false],
        ),
    ] {
        let mut head = RequestHead::new();
        let limits = HeadLimits {
            head_bytes_max: 8192,
            fields_max: 100,
        };
        let progress = head.parse(text.as_bytes(), &limits);
        assert!(
            matches!(progress, Ok(Progress::Complete)),
            "{text:?} {progress:?}"
        );
        let bytes = text.as_bytes();
        assert_eq!(
            [is_plain(&head, bytes), may_be_sent(&head, bytes)],
            wanted,
            "{text:?}"
        );
    }
}

#[test]
fn responses_that_something_is_to_be_done_to_do_not_go_unread() {
    let cache = Arc::new(RouteCache {
        policy: Policy::default(),
        key: KeyRules::default(),
        bypass: Vec::new(),
        prefetch: None,
    });
    let (unread, read) = (Responses::Unread, Responses::Read);
    for (engine, responses, cache, wanted) in [
        (Choice::Packet, unread, None, true),
        (Choice::Packet, unread, Some(cache), false),
        (Choice::Packet, read, None, false),
        (Choice::Auto, unread, None, true),
        (Choice::Auto, read, None, false),
        (Choice::Copy, unread, None, false),
        (Choice::Pipe, unread, None, false),
        (Choice::Socket, unread, None, false),
    ] {
        let destination = Destination {
            next_hop: to_origin("a"),
            engine,
            responses,
            cache,
            pace: None,
            form: TargetForm::Origin,
        };
        assert_eq!(
            goes_unread(&destination),
            wanted,
            "{engine:?} {responses:?}"
        );
    }
}

#[test]
fn a_connection_may_be_kept_where_the_upstream_says_so_or_the_client_was_led_there() {
    for (next_hop, is_led, wanted) in [
        (to_group(&group(1, |plan| plan.keepalive = 0)), true, false),
        (to_group(&group(1, |plan| plan.keepalive = 1)), false, true),
        (to_origin("a"), false, false),
        (to_origin("a"), true, true),
    ] {
        assert_eq!(may_be_kept(&next_hop, is_led), wanted);
    }
}

#[test]
fn a_bound_client_stays_with_its_server_unless_the_request_names_another() {
    let [one, other] = [group(2, |_| {}), group(2, |_| {})];
    let hashed = group(2, |plan| plan.balance = balance::Algorithm::Hash);
    let sick = group(2, |_| {});
    sick.state.servers[0].set_healthy(false);
    let address = IpAddr::from([192, 0, 2, 1]);
    let moved = group(2, |_| {});
    moved.now_at(0, Some(Arc::from([IpAddr::from([192, 0, 2, 2])])));
    moved.now_at(1, Some(Arc::from([address])));
    let [one, other, hashed, sick, moved] = [&one, &other, &hashed, &sick, &moved].map(to_group);
    let (a, b) = (to_origin("a"), to_origin("b"));
    // To where, which of the servers there; where the request goes, and whom it is hashed to.
    for (index, (next_hop, server, wanted_place, picked, wanted)) in [
        (&one, Some(0), &one, None, true),
        (&one, Some(1), &one, Some(0), true),
        (&one, Some(0), &other, None, false),
        (&one, Some(0), &a, None, false),
        // A server that has gone with a reload, or never was.
        (&one, Some(2), &one, None, false),
        (&one, None, &one, None, false),
        (&sick, Some(0), &sick, None, false),
        (&sick, Some(1), &sick, None, true),
        // Its name has another address now.
        (&moved, Some(0), &moved, None, false),
        (&moved, Some(1), &moved, None, true),
        (&hashed, Some(0), &hashed, Some(0), true),
        (&hashed, Some(0), &hashed, Some(1), false),
        (&hashed, Some(0), &hashed, None, false),
        (&a, None, &a, None, true),
        (&a, None, &b, None, false),
        (&a, None, &one, None, false),
    ]
    .into_iter()
    .enumerate()
    {
        let leads_there = leads_to(next_hop, (server, address), wanted_place, |_| picked);
        assert_eq!(leads_there, wanted, "row {index}");
    }
}

/// What is left of an earlier response would be taken for this one by the process, which passes it on to whoever has asked.
#[test]
fn the_process_relays_over_a_clients_connection_only_if_that_is_exactly_at_rest() {
    for (is_usable, is_eligible, is_exact, wanted) in [
        (false, false, false, Way::Elsewhere),
        (false, false, true, Way::Elsewhere),
        (false, true, false, Way::Elsewhere),
        (false, true, true, Way::Elsewhere),
        (true, false, false, Way::Elsewhere),
        (true, false, true, Way::Relayed),
        (true, true, false, Way::Forwarded),
        (true, true, true, Way::Forwarded),
    ] {
        assert_eq!(Way::of(is_usable, is_eligible, is_exact), wanted);
    }
}
