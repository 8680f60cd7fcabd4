//! Which stalled splices are ended.
use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

/// Counts wake-ups.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Each holds as many bytes as its first descriptor's number.
fn as_numbered([first, _]: [RawFd; 2]) -> u64 {
    first.unsigned_abs().into()
}

#[test]
fn the_oldest_stalled_splices_end_until_enough_is_free() {
    let stalls = &Stalls::default();
    let woken: Vec<Arc<Woken>> = (0..4).map(|_| Arc::default()).collect();
    let mut kept = [None, None, None, None];
    let mut note = |number: usize, waits: bool, moved_bytes: u64| {
        let waker = Waker::from(Arc::clone(&woken[number]));
        let sockets = || Some([1000 * (number as RawFd + 1), 0]);
        let stall: &mut Option<Box<Stall>> = &mut kept[number];
        Stall::note(
            stall,
            stalls,
            waits,
            moved_bytes,
            sockets,
            &Context::from_waker(&waker),
        );
        Stall::is_ended(stall)
    };
    let begun = Instant::now();
    let at = |tenths: u64| begun + Duration::from_millis(100 * tenths);
    for number in 0..3 {
        note(number, true, 10);
    }
    // One that never waits is not among them.
    note(3, false, 10);
    assert_eq!(stalls.entries.borrow().len(), 3);
    assert_eq!(stalls.look(at(5), as_numbered), Stalled::default());
    // The second one moves; the first one hardly.
    note(1, true, 10 + PROGRESS_BYTES);
    note(0, true, 11);
    let stalled = stalls.look(at(30), as_numbered);
    assert_eq!((stalled.splices, stalled.bytes), (2, 4000));
    // The third one now waits for its sender.
    note(2, false, 10);
    let stalled = stalls.look(at(60), as_numbered);
    assert_eq!((stalled.splices, stalled.bytes), (2, 3000));
    note(2, true, 10);
    // The first one has waited longest.
    assert_eq!(stalls.end_oldest(0), 0);
    assert_eq!(stalls.end_oldest(1000), 1);
    let counts: Vec<usize> = (woken.iter())
        .map(|woken| woken.0.load(Ordering::SeqCst))
        .collect();
    assert_eq!(counts, [1, 0, 0, 0]);
    assert!(note(0, true, 11) && !note(1, true, 10 + PROGRESS_BYTES));
    // The next one is not enough, and those that are not stalled stay.
    assert_eq!(stalls.end_oldest(1_000_000), 1);
    assert!(note(1, true, 10 + PROGRESS_BYTES) && !note(2, true, 10));
    drop(kept);
    assert_eq!(stalls.entries.borrow().len(), 0);
}
