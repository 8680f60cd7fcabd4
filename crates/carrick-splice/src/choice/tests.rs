//! The choice of an engine.

use super::*;
use proptest::prelude::*;

const ANY: u64 = u64::MAX;

#[test]
fn forced_engines_never_change() {
    for (choice, engine) in [(Choice::Copy, Engine::Copy), (Choice::Pipe, Engine::Pipe)] {
        for length in [None, Some(0), Some(1), Some(1 << 30)] {
            let (mut chooser, reason) = Chooser::new(choice, length, false);
            assert_eq!(reason, Reason::Forced);
            for bytes in [1, 1 << 20, 1, 1, 1, 1, 1, 1, 1 << 20] {
                assert_eq!(chooser.engine(ANY), engine);
                assert_eq!(chooser.engine(1), engine);
                assert_eq!(chooser.observe(bytes, bytes > 1), None);
            }
        }
    }
}

#[test]
fn known_lengths_decide_at_the_threshold() {
    let first = |length| {
        let (chooser, reason) = Chooser::new(Choice::Auto, Some(length), false);
        (chooser.engine(length), reason)
    };
    assert_eq!(first(0), (Engine::Copy, Reason::SmallBody));
    assert_eq!(
        first(LARGE_BODY_BYTES - 1),
        (Engine::Copy, Reason::SmallBody)
    );
    assert_eq!(first(LARGE_BODY_BYTES), (Engine::Pipe, Reason::LargeBody));
    assert_eq!(first(u64::MAX), (Engine::Pipe, Reason::LargeBody));
}

#[test]
fn the_tail_of_a_large_body_is_copied() {
    let (chooser, _) = Chooser::new(Choice::Auto, Some(1 << 20), false);
    assert_eq!(chooser.engine(SMALL_BURST_BYTES as u64 + 1), Engine::Pipe);
    assert_eq!(chooser.engine(SMALL_BURST_BYTES as u64), Engine::Copy);
}

#[test]
fn a_copy_for_the_process_is_copied() {
    let (chooser, reason) = Chooser::new(Choice::Auto, Some(1 << 30), true);
    assert_eq!(
        (chooser.engine(ANY), reason),
        (Engine::Copy, Reason::LocalCopy)
    );
}

#[test]
fn a_tunnel_goes_to_a_pipe_at_the_first_large_burst_and_stays() {
    let (mut chooser, reason) = Chooser::new(Choice::Auto, None, false);
    assert_eq!(
        (chooser.engine(ANY), reason),
        (Engine::Copy, Reason::UnknownLength)
    );
    assert_eq!(chooser.observe(1000, false), None);
    assert_eq!(chooser.observe(LARGE_BURST_BYTES - 1, false), None);
    assert_eq!(chooser.engine(ANY), Engine::Copy);
    assert_eq!(
        chooser.observe(LARGE_BURST_BYTES, false),
        Some(Reason::BurstLarge)
    );
    for _ in 0..100 {
        assert_eq!(chooser.engine(ANY), Engine::Pipe);
        assert_eq!(chooser.observe(64 << 10, false), None);
        // A few small bursts in between, such as the end of a response, do not matter.
        for _ in 1..SMALL_BURSTS {
            assert_eq!(chooser.observe(100, false), None);
        }
    }
}

#[test]
fn a_full_buffer_counts_as_large_however_small_it_is() {
    let (mut chooser, _) = Chooser::new(Choice::Auto, None, false);
    assert_eq!(chooser.observe(512, true), Some(Reason::BurstLarge));
}

#[test]
fn small_bursts_in_a_row_go_back_to_copying() {
    let (mut chooser, _) = Chooser::new(Choice::Auto, Some(1 << 30), false);
    for _ in 1..SMALL_BURSTS {
        assert_eq!(chooser.observe(SMALL_BURST_BYTES, false), None);
    }
    assert_eq!(
        chooser.observe(SMALL_BURST_BYTES, false),
        Some(Reason::BurstSmall)
    );
    assert_eq!(chooser.engine(ANY), Engine::Copy);
    for _ in 0..1000 {
        assert_eq!(chooser.observe(1, false), None);
    }
    assert_eq!(
        chooser.observe(LARGE_BURST_BYTES, false),
        Some(Reason::BurstLarge)
    );
    assert_eq!(chooser.engine(ANY), Engine::Pipe);
}

#[test]
fn every_reason_has_its_own_number_and_name() {
    for (index, reason) in Reason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, index);
        assert_eq!(
            Reason::ALL
                .iter()
                .filter(|other| other.name() == reason.name())
                .count(),
            1
        );
    }
}

proptest! {
    /// Whatever came before: a large burst is followed by a pipe, and enough small ones in a row by copying.
    #[test]
    fn the_latest_bursts_decide(bursts in prop::collection::vec((1_usize..100_000, any::<bool>()), 0..50)) {
        let (mut chooser, _) = Chooser::new(Choice::Auto, None, false);
        for (bytes, filled) in bursts {
            let before = chooser.engine(ANY);
            let reason = chooser.observe(bytes, filled);
            prop_assert_eq!(reason.is_some(), chooser.engine(ANY) != before);
            if bytes >= LARGE_BURST_BYTES || filled {
                prop_assert_eq!(chooser.engine(ANY), Engine::Pipe);
            }
        }
        for _ in 0..SMALL_BURSTS {
            chooser.observe(SMALL_BURST_BYTES, false);
        }
        prop_assert_eq!(chooser.engine(ANY), Engine::Copy);
    }
}
