//! When a response is over, so that something else may follow it.
use super::super::tests::pending;
use super::*;

#[test]
fn only_what_is_certain_may_be_followed_by_anything() {
    let whole = |is_exact| ResponseState::Whole { is_exact };
    for (state, is_certain, may_be_followed_by_anything, may_be_followed_by_the_next) in [
        (ResponseState::NotBegun, true, false, false),
        (ResponseState::Partial, true, false, false),
        (ResponseState::TooLong, true, false, false),
        (ResponseState::Unknown, true, false, true),
        (whole(false), false, false, true),
        (whole(false), true, true, true),
        (whole(true), false, true, true),
    ] {
        assert_eq!(
            [Following::Anything, Following::NextResponse]
                .map(|following| may_follow(state, following, is_certain)),
            [may_be_followed_by_anything, may_be_followed_by_the_next],
            "{state:?} {is_certain}"
        );
    }
}

/// A server that is told takes it for the end of the connection, or of the client.
#[test]
fn a_server_is_told_that_nothing_more_is_asked_only_where_its_response_is_unclear() {
    let whole = |is_exact| ResponseState::Whole { is_exact };
    let over = |is_exact| Step::Over { is_exact };
    let soon = Duration::ZERO;
    let (tell, wait) = (Step::Tell, Step::Wait);
    let just_before = |time: Duration| time - Duration::from_nanos(1);
    // How long nothing has moved; what is done before the server was told, behind that, and with a client that pipelines.
    for (state, is_certain, quiet, wanted) in [
        (ResponseState::NotBegun, true, SILENT, [wait, wait, wait]),
        (ResponseState::Partial, true, SILENT, [wait, wait, wait]),
        (ResponseState::TooLong, true, soon, [Step::TooLong; 3]),
        (
            whole(true),
            false,
            soon,
            [over(true), over(false), over(false)],
        ),
        (whole(false), true, soon, [over(false); 3]),
        (whole(false), false, soon, [tell, wait, wait]),
        (whole(false), false, just_before(SILENT), [tell, wait, wait]),
        (
            whole(false),
            false,
            SILENT,
            [tell, over(false), over(false)],
        ),
        (ResponseState::Unknown, true, just_before(QUIET), [wait; 3]),
        (ResponseState::Unknown, true, QUIET, [tell, wait, wait]),
        (
            ResponseState::Unknown,
            true,
            SILENT,
            [tell, over(false), wait],
        ),
    ] {
        let steps =
            [(false, false), (true, false), (true, true)].map(|(is_told, has_pipelined)| {
                let waiting = Waiting {
                    following: Following::Anything,
                    is_certain,
                    is_told,
                    has_pipelined,
                    quiet,
                };
                waiting.step(state)
            });
        assert_eq!(steps, wanted, "{state:?} {is_certain} {quiet:?}");
    }
}

#[test]
fn who_has_not_asked_again_may_still_wait_for_its_response() {
    let whole = |is_exact| ResponseState::Whole { is_exact };
    let (tell, wait) = (Step::Tell, Step::Wait);
    // What is done before the server was told that nothing more is asked, and behind that.
    for (state, is_certain, quiet, wanted) in [
        (ResponseState::Partial, true, SILENT, [wait, wait]),
        (ResponseState::Unknown, false, SILENT_LONG / 2, [wait, wait]),
        (ResponseState::Unknown, false, SILENT_LONG, [tell, wait]),
        (whole(false), false, SILENT / 2, [wait, wait]),
        (whole(false), false, SILENT, [tell, wait]),
        (
            whole(false),
            true,
            Duration::ZERO,
            [Step::Over { is_exact: false }; 2],
        ),
    ] {
        let steps = [false, true].map(|is_told| {
            let waiting = Waiting {
                following: Following::Nothing,
                is_certain,
                is_told,
                has_pipelined: false,
                quiet,
            };
            waiting.step(state)
        });
        assert_eq!(steps, wanted, "{state:?} {is_certain} {quiet:?}");
    }
}

#[test]
fn a_response_is_waited_for_from_its_request_on() {
    let pending = pending(None);
    for (waited, wanted) in [(0, false), (9, false), (10, true), (11, true)] {
        let now = pending.log.begun + waited * Duration::from_secs(1);
        assert_eq!(
            pending.has_waited(10 * Duration::from_secs(1), now),
            wanted,
            "{waited}"
        );
    }
}
