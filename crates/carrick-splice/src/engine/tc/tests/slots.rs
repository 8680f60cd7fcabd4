//! The slots of splices that have ended.
use super::ownership::Sealed;
use std::time::{Duration, Instant};

/// Twice the maximum segment lifetime, as Linux has it.
const MINUTE: Duration = Duration::from_secs(60);

/// Peers may retransmit for that long. Nobody waits: the table is asked for what will be free a minute later.
#[test]
fn the_slot_of_an_ended_splice_is_free_a_minute_later() {
    let Some(sealed) = Sealed::load() else {
        return;
    };
    let table = &sealed.table;
    let slot = table.take_slot().unwrap();
    let ended = Instant::now();
    table.leave_slot(slot);
    while table.reap(Duration::ZERO) {}
    assert!(!table.has_none_over() || ended.elapsed() > MINUTE);
    while table.reap(MINUTE) {}
    assert!(table.has_none_over());
    assert!(std::iter::from_fn(|| table.take_slot()).any(|other| other == slot));
}
