//! Which rests of responses are the kernel's.
use super::super::tests::{head, pending};
use super::*;

const AUTO: Choice = Choice::Auto;
const PACKET: Choice = Choice::Packet;

#[test]
fn of_a_response_with_a_length_the_kernel_may_have_what_was_not_read() {
    let rest = |body_bytes, held_bytes, rest_bytes| {
        Some(Rest {
            body_bytes,
            held_bytes,
            rest_bytes,
        })
    };
    // What of the body was read; the head as it is written.
    for (body, here, out, wanted) in [
        (
            ResponseBody::Bytes(1000),
            Some(0),
            100,
            rest(1000, 100, 1000),
        ),
        (
            ResponseBody::Bytes(1000),
            Some(300),
            100,
            rest(1000, 400, 700),
        ),
        (
            ResponseBody::Bytes(1000),
            Some(1000),
            100,
            rest(1000, 1100, 0),
        ),
        // It is longer than its head says.
        (ResponseBody::Bytes(1000), Some(1001), 100, None),
        (ResponseBody::Bytes(1000), None, 100, None),
        (ResponseBody::Bytes(1 << 40), Some(1 << 32), 100, None),
        (ResponseBody::None, Some(0), 100, None),
        (ResponseBody::Chunked, Some(0), 100, None),
        (ResponseBody::UntilClose, Some(0), 100, None),
        (ResponseBody::Tunnel, Some(0), 100, None),
    ] {
        assert_eq!(Rest::of(body, here, out), wanted, "{body:?} {here:?}");
    }
}

#[test]
fn a_short_rest_is_passed_on_by_the_process_and_by_auto_that_of_a_short_body() {
    let (rest_min, long) = (REST_BYTES_MIN, AUTO_BYTES_MIN);
    for (engine, body_bytes, rest_bytes, wanted) in [
        (PACKET, rest_min, rest_min, true),
        (PACKET, long, rest_min - 1, false),
        (AUTO, long - 1, rest_min, false),
        (AUTO, long, rest_min, true),
        (AUTO, long, rest_min - 1, false),
    ] {
        let rest = Rest {
            body_bytes,
            held_bytes: 0,
            rest_bytes,
        };
        assert_eq!(rest.is_for_kernel(engine), wanted, "{engine:?} {rest:?}");
    }
}

#[test]
fn bodies_are_taken_where_the_engine_is_named_or_auto_has_it() {
    for (engine, wanted) in [
        (PACKET, [true, true]),
        (AUTO, [false, true]),
        (Choice::Copy, [false, false]),
        (Choice::Pipe, [false, false]),
        (Choice::Socket, [false, false]),
    ] {
        assert_eq!(
            [false, true].map(|is_loaded| takes_bodies(engine, || is_loaded)),
            wanted,
            "{engine:?}"
        );
    }
}

#[test]
fn by_auto_an_unheld_server_sends_the_process_so_much_that_only_a_much_longer_rest_is_the_kernels()
{
    let long = AUTO_UNHELD_BYTES_MIN;
    for is_persistent in [false, true] {
        for are_together in [false, true] {
            let of = |is_unheld, rest_bytes| {
                ByAuto::of(is_unheld, rest_bytes, is_persistent, are_together)
            };
            assert_eq!([0, long].map(|bytes| of(false, bytes)), [ByAuto::Arm; 2]);
            assert_eq!(of(true, long), ByAuto::Arm);
            let wanted = if is_persistent && !are_together {
                ByAuto::Introduce
            } else {
                ByAuto::Relay
            };
            assert_eq!([0, long - 1].map(|bytes| of(true, bytes)), [wanted; 2]);
        }
    }
}

#[test]
fn the_process_reads_no_byte_behind_a_response() {
    for (body, sent_bytes, wanted) in [
        (ResponseBody::Bytes(1000), 0, 1100),
        (ResponseBody::Bytes(1000), 100, 1000),
        (ResponseBody::Bytes(1000), 1099, 1),
        (ResponseBody::Bytes(1000), 1100, 0),
        (ResponseBody::Bytes(1000), 1101, 0),
        (ResponseBody::None, 0, 0),
        (ResponseBody::Chunked, 0, 0),
        (ResponseBody::UntilClose, 0, 0),
        (ResponseBody::Tunnel, 0, 0),
    ] {
        let pending = pending(Some(head(body)));
        assert_eq!(
            pending.left_bytes(sent_bytes),
            wanted,
            "{body:?} {sent_bytes}"
        );
    }
    assert_eq!(pending(None).left_bytes(0), 0);
}

#[test]
fn a_response_is_counted_for_the_engine_that_has_moved_most_of_it() {
    for (forwarded_bytes, relayed_bytes, wanted) in [
        (0, 0, Engine::Packet),
        (9, 10, Engine::Copy),
        (10, 10, Engine::Packet),
    ] {
        assert_eq!(engine(forwarded_bytes, relayed_bytes), wanted);
    }
}

#[test]
fn a_response_whose_last_bytes_the_kernel_has_just_forwarded_is_not_read_to_the_servers_end() {
    for (left_bytes, wanted) in [
        (0, None),
        (1, Some(1)),
        (BURST_BYTES as u64 + 1, Some(BURST_BYTES)),
        (u64::MAX, Some(BURST_BYTES)),
    ] {
        assert_eq!(burst_bytes(left_bytes), wanted);
    }
}
