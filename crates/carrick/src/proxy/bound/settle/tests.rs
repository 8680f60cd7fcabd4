//! When a response is over, so that something else may follow it.
use super::*;

#[test]
fn only_what_is_certain_may_be_followed_by_anything() {
    let whole = |is_exact| Look::Whole { is_exact };
    for (look, is_certain, may_be_followed_by_anything, may_be_followed_by_the_next) in [
        (Look::Nothing, true, false, false),
        (Look::Partial, true, false, false),
        (Look::TooLong, true, false, false),
        (Look::Unknown, true, false, true),
        (whole(false), false, false, true),
        (whole(false), true, true, true),
        (whole(true), false, true, true),
    ] {
        assert_eq!(
            [Unclear::MustEnd, Unclear::Goes].map(|unclear| is_settled(look, unclear, is_certain)),
            [may_be_followed_by_anything, may_be_followed_by_the_next],
            "{look:?} {is_certain}"
        );
    }
}
