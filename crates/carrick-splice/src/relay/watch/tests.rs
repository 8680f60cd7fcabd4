//! What ends for being idle or slow: in virtual time.
use super::*;
use std::cell::Cell;
use std::future::poll_fn;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// A receiver that acknowledges these bytes after each of these seconds, and the end of the splice that waits for this
/// side meanwhile; `None`: none.
async fn end(
    waits: Side,
    steps: &[(u32, u64)],
    idle: Duration,
    rate: Option<RateMin>,
) -> Option<Ended> {
    let acked = Cell::new(0);
    let mut watch = Watch::default();
    let watching = async {
        loop {
            let polled = poll_fn(|cx| watch.poll(cx, (0, waits), || Some(acked.get()), idle, rate));
            if let Alarm::Ended(ended) = polled.await {
                return Some(ended);
            }
        }
    };
    let receiving = async {
        for (seconds, bytes) in steps {
            sleep(*seconds * SECOND).await;
            acked.set(acked.get() + bytes);
        }
        None
    };
    tokio::select! {
        biased;
        ended = watching => ended,
        none = receiving => none,
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_receiver_acknowledges_is_progress() {
    let slow = [(7, 40_000); 9];
    for (waits, steps, wanted) in [
        (Side::To, &slow[..], None),
        (Side::To, &[(7, 1), (13, 1)], Some(Ended::Idle)),
        // The sender is the one that is idle.
        (Side::From, &slow, Some(Ended::Idle)),
    ] {
        let ended = end(waits, steps, 10 * SECOND, None).await;
        assert_eq!(ended, wanted, "{waits:?} {steps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_may_be_a_step_behind_the_least_rate() {
    let rate = |bytes_per_second| {
        Some(RateMin {
            bytes_per_second,
            grace: 10 * SECOND,
        })
    };
    for (bytes_per_second, steps, wanted) in [
        // At the least rate, ten times it, and half of it.
        (1000, &[(50, 50_000); 9][..], None),
        (1000, &[(5, 50_000); 90], None),
        (1000, &[(50, 25_000); 9], Some(Ended::TooSlow)),
        (100_000, &[(9, 1)], None),
        (100_000, &[(11, 1)], Some(Ended::TooSlow)),
    ] {
        let ended = end(Side::To, steps, 1000 * SECOND, rate(bytes_per_second)).await;
        assert_eq!(ended, wanted, "{bytes_per_second} {:?}", steps[0]);
    }
}
