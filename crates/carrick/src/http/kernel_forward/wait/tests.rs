//! How long a response is waited for.
use super::super::tests::pending;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_bound_client_is_looked_at_when_its_time_may_be_over() {
    for (is_pending, idle, limit, wanted) in [
        (true, 60 * SECOND, SECOND / 10, TICK),
        (true, 2 * SECOND, 60 * SECOND, SECOND / 2),
        (false, SECOND, 60 * SECOND, PAIR_IDLE_MAX),
        (false, SECOND, 3 * SECOND, 3 * SECOND),
    ] {
        assert_eq!(quiet_max(is_pending, idle, limit), wanted);
    }
}

#[test]
fn a_response_is_waited_for_from_its_request_on() {
    let pending = pending(None);
    for (waited, wanted) in [(0, false), (9, false), (10, true), (11, true)] {
        let now = pending.log.begun + waited * SECOND;
        assert_eq!(pending.has_waited(10 * SECOND, now), wanted, "{waited}");
    }
}
