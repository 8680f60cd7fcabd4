//! The suite notices harm: relays that do one thing wrong are found out, and one that does all well is not accused.

pub mod relay;

use std::net::TcpListener;
use std::rc::Rc;

use carrick_test::PATIENCE;
use relay::{Manner, Relay};

use super::cases::{Case, Scale, play};
use super::stage::Stage;
use super::stream::{Ending, Lane};
use super::tally::{HELD_BYTES_MAX, Tally};

/// Plays a case on loopback with a relay of this process.
fn played(case: Case, manner: Manner, seed: u64) -> Tally {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let patience = manner.patience();
    let relay = Relay::start(manner, listener.local_addr().unwrap());
    let runtime = crate::program::runtime().unwrap();
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let stage = Rc::new(Stage::new(relay.address(), listener, None, seed, patience).unwrap());
        play(case, &stage, Scale::Smoke, 100).await;
        Rc::into_inner(stage).unwrap().finish()
    })
}

/// Plays a case with a relay that does one thing wrong; what the suite says of it.
fn harms(case: Case, manner: Manner) -> String {
    let tally = played(case, manner, 7);
    let harms = tally.harms().join(", ");
    assert!(
        !tally.complaints.is_empty() || harms.contains("held"),
        "{tally:?}"
    );
    harms
}

#[test]
fn an_honest_relay_is_not_accused_when_receivers_sleep() {
    for case in [Case::SlowReader, Case::EndWithBacklog, Case::HalfClose] {
        let tally = played(case, Manner::Honest, 1);
        assert_eq!(tally.harms(), Vec::<String>::new(), "{case:?}: {tally:?}");
    }
}

#[test]
fn an_honest_relay_is_not_accused_by_the_other_cases() {
    for case in Case::ALL.into_iter().skip(3) {
        let tally = played(case, Manner::Honest, 2);
        assert_eq!(tally.harms(), Vec::<String>::new(), "{case:?}: {tally:?}");
        assert!(
            tally.connections > 0 && tally.received_bytes > 0,
            "{case:?}"
        );
    }
}

#[test]
fn a_lost_byte_is_noticed() {
    for case in [
        Case::Large,
        Case::Tiny,
        Case::EndWithBacklog,
        Case::HalfClose,
    ] {
        let harms = harms(case, Manner::DropsAByte);
        assert!(harms.contains("bytes lost"), "{case:?}: {harms}");
        assert!(harms.contains("wrong byte"), "{case:?}: {harms}");
    }
}

fn a_changed_byte_is_noticed(case: Case) {
    let harms = harms(case, Manner::ChangesAByte);
    assert!(harms.contains("wrong byte"), "{harms}");
    assert!(!harms.contains("lost"), "{harms}");
}

#[test]
fn a_changed_byte_of_a_large_transfer_is_noticed() {
    a_changed_byte_is_noticed(Case::Large);
}

#[test]
fn a_changed_byte_of_many_connections_is_noticed() {
    a_changed_byte_is_noticed(Case::Many);
}

#[test]
fn a_changed_byte_of_short_connections_is_noticed() {
    a_changed_byte_is_noticed(Case::Churn);
}

#[test]
fn bytes_that_come_twice_are_noticed_and_told_where_they_belong() {
    let tally = played(Case::Large, Manner::DoublesAPiece, 7);
    assert!(tally.wrong > 0, "{tally:?}");
    let complaints = tally.complaints.join("\n");
    assert!(
        complaints.contains("what came belongs to byte 1"),
        "{complaints}"
    );
}

#[test]
fn an_end_that_comes_before_the_last_bytes_is_noticed() {
    for case in [Case::EndWithBacklog, Case::Large, Case::Loss] {
        let harms = harms(case, Manner::CutsTheTail);
        assert!(harms.contains("bytes lost"), "{case:?}: {harms}");
        assert!(harms.contains("false ends"), "{case:?}: {harms}");
    }
}

#[test]
fn a_reset_that_becomes_an_end_is_noticed() {
    for case in [Case::Resets, Case::Churn, Case::StopAndGo] {
        let harms = harms(case, Manner::EndsAfterAReset);
        assert!(harms.contains("resets not passed on"), "{case:?}: {harms}");
        assert!(harms.contains("false ends"), "{case:?}: {harms}");
    }
}

#[test]
fn an_end_that_becomes_a_reset_is_noticed() {
    let harms = harms(Case::Churn, Manner::ResetsAtTheEnd);
    assert!(harms.contains("directions broken"), "{harms}");
}

#[test]
fn a_half_close_that_ends_both_directions_is_noticed() {
    let harms = harms(Case::HalfClose, Manner::ClosesBoth);
    assert!(harms.contains("half-closes not honoured"), "{harms}");
    assert!(harms.contains("bytes lost"), "{harms}");
}

#[test]
fn a_half_close_that_is_kept_back_is_noticed() {
    let harms = harms(Case::HalfClose, Manner::KeepsTheEnd);
    assert!(harms.contains("half-closes not honoured"), "{harms}");
}

#[test]
fn a_relay_that_falls_silent_is_noticed() {
    let harms = harms(Case::Large, Manner::FallsSilent);
    assert!(harms.contains("directions hung"), "{harms}");
    assert!(harms.contains("bytes lost"), "{harms}");
}

#[test]
fn a_relay_without_a_bound_is_noticed() {
    // Again where it stood still for so long that it seemed to take no more.
    let hoarded = |tally: &Tally| tally.held_bytes_max.min(tally.unread_bytes_max);
    let mut tallies = (0..5).map(|_| played(Case::SlowReader, Manner::Hoards, 7));
    let tally = tallies.find(|tally| hoarded(tally) > Some(HELD_BYTES_MAX));
    let tally = tally.expect("it seemed to take no more, five times");
    assert_eq!(tally.lost_bytes, 0);
    assert!(tally.harms().join("").contains("held for one direction"));
}

#[test]
fn a_relay_that_takes_nobody_in_is_noticed() {
    let harms = harms(Case::Tiny, Manner::ClosesAtOnce);
    assert!(harms.contains("connections not made"), "{harms}");
    assert!(harms.contains("no connection at all"), "{harms}");
}

#[test]
fn more_than_was_sent_is_wrong() {
    let runtime = crate::program::runtime().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(
            tokio::net::TcpStream::connect(listener.local_addr().unwrap()),
            listener.accept()
        );
        let lane = Lane::new(3);
        // What the body would go on with, but nobody has offered it.
        let surplus = crate::content::Body::of_seed(3).piece(0, 10);
        near.unwrap().try_write(surplus).unwrap();
        let far = super::stream::Socket::new(far.unwrap().0, PATIENCE);
        assert_eq!(lane.receive_to_end(&far, 100).await, Ending::Clean);
        assert_eq!(
            (lane.received(), lane.wrong().map(|wrong| wrong.at)),
            (10, Some(0))
        );
    });
}
