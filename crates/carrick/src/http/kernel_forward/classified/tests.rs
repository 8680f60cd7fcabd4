//! When the kernel may classify requests, and what the process makes of those that it was not asked about.
use super::super::tests::{group, pending, to_group, to_origin};
use super::*;

#[test]
fn the_kernel_classifies_for_a_client_of_its_own_whose_listener_has_a_table() {
    let (group, origin) = (to_group(&group(1, |_| {})), to_origin("a"));
    let classifying = KernelRoutes {
        table: 3,
        generation: 5,
        upstream: 7,
        requests_max: REQUESTS_MAX,
        time_max: TIME_MAX,
    };
    for (next_hop, is_trusted_proxy, table, wanted) in [
        (&group, false, Some((3, 5)), Some(classifying)),
        (&group, true, Some((3, 5)), None),
        (&group, false, None, None),
        (&origin, false, Some((3, 5)), None),
    ] {
        assert_eq!(classifying_by(next_hop, is_trusted_proxy, table), wanted);
    }
}

const CAUGHT_UP: CaughtUp = CaughtUp {
    requests: 2,
    method: Some("GET"),
    passed_bytes: 900,
    passed_status: Some(404),
};

/// The kernel tells of its own itself: a line of the process's would be a second one.
#[test]
fn only_a_request_of_the_process_gets_its_line_when_the_kernel_has_forwarded_others() {
    let (own, classified) = (pending(None), Pending::classified(&CAUGHT_UP));
    let unread = CaughtUp {
        passed_status: None,
        ..CAUGHT_UP
    };
    for (under_way, caught_up, wanted) in [
        (None, CAUGHT_UP, None),
        (Some(&classified), CAUGHT_UP, None),
        (Some(&own), CAUGHT_UP, Some((900, 404, 0))),
        (Some(&own), unread, Some((900, STATUS_UNKNOWN, 0))),
    ] {
        assert_eq!(passed(under_way, &caught_up), wanted);
    }
}

/// The kernel forwards one only when the response before is whole.
#[test]
fn what_comes_behind_a_request_that_the_kernel_has_forwarded_is_its_response() {
    for (method, wanted) in [
        (Some("HEAD"), Method::Head),
        (Some("GET"), Method::Get),
        (Some("DELETE"), Method::Get),
        (None, Method::Get),
    ] {
        let pending = Pending::classified(&CaughtUp {
            method,
            ..CAUGHT_UP
        });
        assert_eq!(pending.method, wanted);
        assert!(pending.is_classified && pending.is_trusted && pending.known.is_none());
    }
}
