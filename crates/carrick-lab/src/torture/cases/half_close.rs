//! One side ends its direction (FIN); the other goes on, and everything of both arrives.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{Scale, each, watched};
use crate::content::PIECE_BYTES_MAX;
use crate::torture::stage::Stage;
use crate::torture::stream::{Ending, Lane};

/// Bytes before the first end, and after it in the other direction.
const SIZES: [u64; 4] = [0, 1, 64 << 10, 8 << 20];

/// What the other side does while the first one ends.
#[derive(Clone, Copy)]
enum Manner {
    /// It reads to the end, waits, and sends then.
    Answers,
    /// It sleeps, so that the end comes behind a backlog; then as above.
    Sleeps,
    /// It sends from the beginning, and neither of them reads at first: a backlog both ways.
    BothSleep,
}

/// Each size before and after, each manner, either side first.
pub async fn half_close(stage: &Rc<Stage>, scale: Scale) {
    let asleep = scale.of(Duration::from_millis(300), Duration::from_millis(1500));
    let count = 2 * 3 * (SIZES.len() * SIZES.len()) as u64;
    each(stage, count, 48, move |stage, number| async move {
        let size = |index: u64| SIZES[usize::try_from(index % 4).unwrap_or(0)];
        let (before, after) = (size(number / 6), size(number / 24));
        let is_up = number % 2 == 0;
        let manner = [Manner::Answers, Manner::Sleeps, Manner::BothSleep]
            [usize::try_from(number / 2 % 3).unwrap_or(0)];
        Box::pin(one(&stage, before, after, is_up, manner, asleep)).await;
    })
    .await;
}

async fn one(
    stage: &Stage,
    before: u64,
    after: u64,
    is_up: bool,
    manner: Manner,
    asleep: Duration,
) {
    let Some(pair) = stage.pair().await else {
        return;
    };
    // `first` is the direction that ends first.
    let (first, second) = pair.ways(is_up);
    let closer = async {
        let _ = first.lane.send(first.sender, before, PIECE_BYTES_MAX).await;
        first.sender.end();
        if matches!(manner, Manner::BothSleep) {
            sleep(asleep).await;
        }
        second
            .lane
            .receive_to_end(second.receiver, PIECE_BYTES_MAX)
            .await
    };
    // An end that is passed on comes behind the bytes. One that is not waits for the other direction's end.
    let end_patience = stage.patience / 3;
    let to_end = || async {
        let mut read = pin!(first.lane.receive_to_end(first.receiver, PIECE_BYTES_MAX));
        loop {
            let before = first.lane.received();
            match timeout(end_patience, &mut read).await {
                Ok(ending) => return ending,
                Err(_) if first.lane.received() == before => return Ending::Silent,
                Err(_) => {}
            }
        }
    };
    let send_rest = || async {
        let _ = second
            .lane
            .send(second.sender, after, PIECE_BYTES_MAX)
            .await;
    };
    let other = async {
        let ending = match manner {
            Manner::BothSleep => {
                let read = async {
                    sleep(asleep).await;
                    to_end().await
                };
                tokio::join!(read, send_rest()).0
            }
            _ => {
                if matches!(manner, Manner::Sleeps) {
                    sleep(asleep).await;
                }
                let ending = to_end().await;
                // A relay that gives up the other direction after the end has the time to do it.
                sleep(asleep).await;
                send_rest().await;
                ending
            }
        };
        second.sender.end();
        ending
    };
    let both = Box::pin(async { tokio::join!(closer, other) });
    let (second_ending, first_ending) = watched(stage, &[first, second], both).await;
    let mut tally = stage.tally.borrow_mut();
    tally.lost_bytes += (before - first.lane.offered()) + (after - second.lane.offered());
    let is_whole = |lane: &Lane, bytes| lane.received() == bytes && lane.wrong().is_none();
    tally.half_closes.count(
        first_ending == Ending::Clean
            && second_ending == Ending::Clean
            && is_whole(first.lane, before)
            && is_whole(second.lane, after),
    );
    tally.whole(&pair.name(is_up), first.lane, first_ending);
    tally.whole(&pair.name(!is_up), second.lane, second_ending);
}
