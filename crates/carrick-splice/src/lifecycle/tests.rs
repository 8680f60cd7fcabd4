//! The transitions between states.

use super::State::{self, Attaching, Detaching, Ended, InKernel, Parked, Relaying};
use super::*;

/// All transitions, as in LIFECYCLE.md.
const EDGES: [(State, &[State]); 6] = [
    (Relaying, &[Attaching, Ended]),
    (Attaching, &[Relaying, InKernel, Ended]),
    (InKernel, &[Parked, Detaching, Ended]),
    (Parked, &[InKernel, Ended]),
    (Detaching, &[Relaying, Ended]),
    (Ended, &[]),
];

#[test]
fn only_the_moves_of_the_table_are_allowed() {
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
fn an_ended_splice_stays_ended() {
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
fn another_move_panics() {
    Lifecycle::default().enter(Parked);
}
