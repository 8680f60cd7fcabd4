//! Which connections another client may get.
use super::*;
use std::io;

/// A connection that is exactly at rest.
const AT_REST: AtRest = AtRest {
    disarmed: Disarmed::Done,
    is_over: true,
    is_exact: true,
    has_server_ended: false,
    unacknowledged_bytes: Some(0),
    is_quiet: true,
};

#[test]
fn of_all_combinations_only_a_connection_that_is_exactly_at_rest_is_reused() {
    let mut reused = Vec::new();
    for disarmed in [Disarmed::Done, Disarmed::Behind, Disarmed::Lost] {
        for unacknowledged_bytes in [Some(0), Some(1), Some(u64::MAX), None] {
            for flags in 0..16 {
                let [is_over, is_exact, has_server_ended, is_quiet] =
                    [1, 2, 4, 8].map(|flag| flags & flag != 0);
                let at_rest = AtRest {
                    disarmed,
                    is_over,
                    is_exact,
                    has_server_ended,
                    unacknowledged_bytes,
                    is_quiet,
                };
                if at_rest.may_be_reused() {
                    reused.push(at_rest);
                }
            }
        }
    }
    assert_eq!(reused, [AT_REST]);
}

#[test]
fn the_kernel_gives_a_connection_back_only_if_it_knows_of_no_further_request() {
    for (result, wanted) in [
        (Ok(()), Disarmed::Done),
        (Err(DisarmError::Behind), Disarmed::Behind),
        (
            Err(DisarmError::Lost(io::Error::other("gone"))),
            Disarmed::Lost,
        ),
    ] {
        assert_eq!(Disarmed::from(result), wanted);
    }
}
