//! What is made of a server that ends or stops: in virtual time.
use super::super::tests::{head, pending};
use super::*;
use crate::context::kernel_forward::KnownHead;
use crate::control::testing::plan;
use carrick_logic::http1::Method;

const SECOND: Duration = Duration::from_secs(1);

const STATES: [ResponseState; 6] = [
    ResponseState::NotBegun,
    ResponseState::Partial,
    ResponseState::Unknown,
    ResponseState::TooLong,
    ResponseState::Whole { is_exact: false },
    ResponseState::Whole { is_exact: true },
];

fn progress(sent_bytes: u64, acked_bytes: u64) -> ResponseProgress {
    ResponseProgress {
        sent_bytes,
        acked_bytes,
    }
}

#[test]
fn a_response_is_quiet_while_neither_a_byte_nor_an_acknowledgement_comes() {
    let begun = Instant::now();
    let mut stalls = StallWatch::new(progress(0, 0), begun);
    for (at_s, sent_bytes, acked_bytes, quiet_s) in [
        (0, 0, 0, 0),
        (3, 0, 0, 3),
        (4, 10, 0, 0),
        (6, 10, 0, 2),
        (7, 10, 10, 0),
        (9, 10, 10, 2),
        (10, 20, 10, 0),
        // It was given back to the process: the rest comes again.
        (11, 10, 10, 0),
    ] {
        let quiet = stalls.quiet(progress(sent_bytes, acked_bytes), begun + at_s * SECOND);
        assert_eq!(quiet, quiet_s * SECOND, "after {at_s} s");
    }
}

#[test]
fn a_response_that_stands_still_or_a_client_that_reads_too_slowly_is_not_waited_for() {
    let mut plan = plan(None, Vec::new());
    (plan.timeouts.idle, plan.timeouts.head) = (10 * SECOND, 4 * SECOND);
    let (idle, slow) = (Some(IDLE_TIMEOUT), Some(TOO_SLOW));
    // The least rate; whether the client has room; acknowledged bytes at a time in seconds, and what is made of that.
    for (rate_min, has_room, steps) in [
        (0, false, &[(9, 0, None), (10, 0, idle)][..]),
        (0, true, &[(9, 0, None), (10, 0, idle)]),
        // Silence is counted from the last byte on.
        (0, true, &[(9, 1, None), (18, 1, None), (19, 1, idle)]),
        // A step of 64 KB behind is in time, and no more.
        (32_768, false, &[(3, 1, None), (4, 65_536, None)]),
        (32_768, false, &[(3, 1, None), (4, 65_535, slow)]),
        (
            32_768,
            false,
            &[(4, 131_072, None), (7, 131_072, None), (8, 196_607, slow)],
        ),
        // From the last time on at which the rate was kept.
        (
            16_384,
            false,
            &[
                (4, 4, None),
                (8, 131_072, None),
                (12, 131_073, None),
                (16, 131_074, slow),
            ],
        ),
        // The server is slow.
        (32_768, true, &[(4, 1, None), (8, 2, None), (18, 2, idle)]),
    ] {
        plan.limits.rate_min = rate_min;
        let begun = Instant::now();
        let mut stalls = StallWatch::new(progress(0, 0), begun);
        for (at_s, acked_bytes, wanted) in steps {
            let progress = progress(1 << 30, *acked_bytes);
            // What is sent was so from the beginning.
            stalls.progress.sent_bytes = progress.sent_bytes;
            let ended = stalls.check(&plan, progress, begun + *at_s * SECOND, || has_room);
            assert_eq!(ended, *wanted, "{rate_min} {has_room} {steps:?} {at_s}");
        }
    }
}

#[test]
fn a_byte_is_unacknowledged_until_the_client_has_said_that_it_has_it() {
    for (sent_bytes, acked_bytes, wanted) in [(0, 0, false), (9, 8, true), (9, 9, false)] {
        assert_eq!(is_unacknowledged(progress(sent_bytes, acked_bytes)), wanted);
    }
}

#[test]
fn a_servers_end_is_the_responses_end_only_where_it_can_be() {
    let (over, closed) = (
        |is_exact| ResponseEnd::Over { is_exact },
        |is_complete| ResponseEnd::Closed { is_complete },
    );
    let cut = ResponseEnd::Cut {
        is_servers_fault: true,
    };
    let until_close = Some(head(ResponseBody::UntilClose));
    let with_length = Some(head(ResponseBody::Bytes(5)));
    let interim = until_close.map(|head| KnownHead {
        is_interim: true,
        ..head
    });
    // The head, what the response looks like, and what is made of an end and of a reset.
    for (known, state, ended, reset) in [
        (
            None,
            ResponseState::NotBegun,
            ResponseEnd::Unanswered,
            ResponseEnd::Unanswered,
        ),
        (until_close, ResponseState::Partial, closed(true), cut),
        (with_length, ResponseState::Partial, cut, cut),
        (interim, ResponseState::Partial, cut, cut),
        (None, ResponseState::Partial, cut, cut),
        (with_length, ResponseState::Unknown, closed(true), cut),
        (interim, ResponseState::Unknown, closed(false), cut),
        (None, ResponseState::Unknown, closed(false), cut),
        (with_length, ResponseState::TooLong, cut, cut),
        (
            with_length,
            ResponseState::Whole { is_exact: true },
            over(true),
            over(true),
        ),
        (
            with_length,
            ResponseState::Whole { is_exact: false },
            over(false),
            over(false),
        ),
    ] {
        let pending = pending(known);
        assert_eq!(
            [false, true].map(|is_reset| response_end(
                &pending,
                state,
                is_reset,
                state == ResponseState::NotBegun,
                false
            )),
            [ended, reset],
            "{known:?} {state:?}"
        );
        // Behind it, a client that never pipelines has asked for something else.
        let behind = if state == ResponseState::Unknown {
            over(false)
        } else {
            ended
        };
        assert_eq!(
            [false, true].map(|is_reset| response_end(
                &pending,
                state,
                is_reset,
                state == ResponseState::NotBegun,
                true
            )),
            [behind, reset],
            "{known:?} {state:?}"
        );
    }
}

/// Bytes for the client that are not this response's would become a part of another server's response.
#[test]
fn somebody_else_is_asked_only_if_no_byte_for_the_client_can_be_under_way() {
    for is_trusted in [false, true] {
        for has_sent_nothing in [false, true] {
            for is_reset in [false, true] {
                let pending = Pending::new(RequestLog::begin(), Method::Get, is_trusted);
                for state in STATES {
                    let response_end =
                        response_end(&pending, state, is_reset, has_sent_nothing, false);
                    let is_unanswered =
                        state == ResponseState::NotBegun && is_trusted && has_sent_nothing;
                    assert_eq!(
                        response_end == ResponseEnd::Unanswered,
                        is_unanswered,
                        "{state:?}"
                    );
                }
            }
            for disarmed in [Disarmed::Done, Disarmed::Behind, Disarmed::Lost] {
                assert_eq!(
                    may_be_asked_again(disarmed, is_trusted, has_sent_nothing),
                    disarmed == Disarmed::Done && is_trusted && has_sent_nothing,
                );
            }
        }
    }
    let untrusted = Pending::new(RequestLog::begin(), Method::Get, false);
    let [came, nothing] = [false, true].map(|has_sent_nothing| {
        response_end(
            &untrusted,
            ResponseState::NotBegun,
            false,
            has_sent_nothing,
            false,
        )
    });
    assert_eq!(nothing, ResponseEnd::Closed { is_complete: false });
    assert_eq!(
        came,
        ResponseEnd::Cut {
            is_servers_fault: false
        }
    );
}

#[test]
fn of_a_response_that_does_not_go_on_the_server_is_at_fault_if_the_client_has_room() {
    for state in STATES {
        for (ended, has_room) in [
            (IDLE_TIMEOUT, true),
            (IDLE_TIMEOUT, false),
            (TOO_SLOW, true),
            (TOO_SLOW, false),
        ] {
            let wanted = match state {
                ResponseState::Unknown | ResponseState::Whole { .. } => {
                    ResponseEnd::Closed { is_complete: true }
                }
                _ => ResponseEnd::Cut {
                    is_servers_fault: (ended, has_room) == (IDLE_TIMEOUT, true),
                },
            };
            assert_eq!(
                end_of_stalled(state, ended, || has_room),
                wanted,
                "{state:?}"
            );
        }
    }
}
