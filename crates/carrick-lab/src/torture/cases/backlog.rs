//! Receivers that do not read: what the relay holds, and whether all of it arrives.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::{Scale, each, watched};
use crate::content::PIECE_BYTES_MAX;
use crate::torture::stage::{Stage, way_name};

/// Sizes before the end, in bytes: from one that fits everywhere to one that fits nowhere.
const BACKLOGS: [u64; 7] = [1, 64 << 10, 300_000, 1 << 20, 3 << 20, 8 << 20, 64 << 20];

/// One connection up, one down; what comes back at the end shows that the other direction still works.
pub async fn slow_reader(stage: &Rc<Stage>, scale: Scale) {
    let offered = scale.of(128 << 20, 1 << 30);
    let asleep = scale.of(Duration::from_millis(600), Duration::from_secs(3));
    let still_looks = scale.of(4, 1);
    let slow_reads = scale.of(10, 100);
    each(stage, 2, 2, move |stage, number| async move {
        let Some(pair) = stage.pair().await else {
            return;
        };
        let is_up = number == 0;
        let (way, back) = pair.ways(is_up);
        let was_read = Notify::new();
        let send = async {
            // An error shows at the receiver.
            let _ = way.lane.send(way.sender, offered, PIECE_BYTES_MAX).await;
            way.sender.end();
            was_read.notified().await;
            back.lane
                .receive_to_end(back.receiver, PIECE_BYTES_MAX)
                .await
        };
        let receive = async {
            // Until the relay takes no more, however long a busy machine needs for what it takes.
            let (mut unread, mut still) = (0, 0);
            while still < still_looks {
                sleep(asleep).await;
                let taken = way.lane.taken_bytes(way.sender);
                still = if taken == unread { still + 1 } else { 0 };
                unread = taken;
            }
            stage.tally.borrow_mut().unread(unread);
            for _ in 0..slow_reads {
                if way
                    .lane
                    .receive(way.receiver, 64 << 10, 64 << 10)
                    .await
                    .is_err()
                {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
            let ending = way.lane.receive_to_end(way.receiver, PIECE_BYTES_MAX).await;
            was_read.notify_one();
            let _ = back.lane.send(back.sender, 1000, 1000).await;
            back.sender.end();
            ending
        };
        let both = Box::pin(async { tokio::join!(send, receive) });
        let (back_ending, ending) = watched(&stage, &[way], both).await;
        let mut tally = stage.tally.borrow_mut();
        // What could not be sent at all is lost, too.
        let unsent = offered - way.lane.offered();
        tally.lost_bytes += unsent;
        tally.whole(&pair.name(is_up), way.lane, ending);
        tally.whole(&pair.name(!is_up), back.lane, back_ending);
    })
    .await;
}

/// Each size up and down, ended by `shutdown` and by `close`.
pub async fn end_with_backlog(stage: &Rc<Stage>, scale: Scale) {
    let asleep = scale.of(Duration::from_millis(500), Duration::from_secs(2));
    let count = 4 * BACKLOGS.len() as u64;
    each(stage, count, 64, move |stage, number| async move {
        let bytes = BACKLOGS[usize::try_from(number / 4).unwrap_or(0)];
        let is_up = number % 2 == 0;
        let by_close = number % 4 < 2;
        let Some(pair) = stage.pair().await else {
            return;
        };
        let number = pair.number;
        let (sender, receiver, lane, back) = pair.parts(is_up);
        sender.set_send_buffer(2 * bytes);
        let send = async {
            let _ = lane.send(&sender, bytes, PIECE_BYTES_MAX).await;
            if by_close {
                drop(sender);
                return None;
            }
            sender.end();
            Some(back.receive_to_end(&sender, PIECE_BYTES_MAX).await)
        };
        let receive = async {
            sleep(asleep).await;
            let ending = lane.receive_to_end(&receiver, PIECE_BYTES_MAX).await;
            receiver.end();
            ending
        };
        let (back_ending, ending) = tokio::join!(send, receive);
        let mut tally = stage.tally.borrow_mut();
        tally.lost_bytes += bytes - lane.offered();
        tally.whole(&way_name(number, is_up), &lane, ending);
        if let Some(ending) = back_ending {
            tally.whole(&way_name(number, !is_up), &back, ending);
        }
    })
    .await;
}
