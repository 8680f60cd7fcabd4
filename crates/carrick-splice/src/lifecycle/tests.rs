//! The ways between the states.

use super::State::{self, Attaching, Detaching, Ended, InKernel, Parked, Relaying};
use super::*;

/// All of them, as in LIFECYCLE.md.
const EDGES: [(State, &[State]); 6] = [
    (Relaying, &[Attaching, Ended]),
    (Attaching, &[Relaying, InKernel, Ended]),
    (InKernel, &[Parked, Detaching, Ended]),
    (Parked, &[InKernel, Ended]),
    (Detaching, &[Relaying, Ended]),
    (Ended, &[]),
];

#[test]
fn a_splice_goes_by_these_ways_and_no_others() {
    for (from, allowed) in EDGES {
        for to in State::ALL {
            assert_eq!(
                from.may_become(to),
                allowed.contains(&to),
                "{from:?} to {to:?}"
            );
        }
    }
}

#[test]
fn what_has_ended_does_not_begin_again() {
    for state in State::ALL {
        let mut lifecycle = Lifecycle(state);
        lifecycle.enter(Ended);
        lifecycle.enter(Relaying);
        assert!(lifecycle.is(Ended));
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "from Relaying to Parked")]
fn another_way_is_a_mistake() {
    Lifecycle::default().enter(Parked);
}
