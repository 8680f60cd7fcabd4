//! How long a response is waited for.
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
