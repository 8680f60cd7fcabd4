//! Connections that change their mood, and with it the way that suits them: a relay that moves them from one engine to another
//! has to do it between two bytes.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;

use super::crowd::{end_in_turn, exchange};
use super::{Scale, each, magnitude};
use crate::content::PIECE_BYTES_MAX;
use crate::torture::stage::{Pair, Stage};

/// Most exchanges of a chatter.
const EXCHANGES_MAX: u64 = 600;
/// Most bytes of one message of it.
const MESSAGE_BYTES_MAX: u64 = 1_000;
/// Most bytes of a bulk.
const BULK_BYTES_MAX: u64 = 4 << 20;
/// Longest sleep of a receiver.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Each connection has several moods, one after the other, and ends in the last one.
pub async fn moods(stage: &Rc<Stage>, scale: Scale) {
    let (connections, changes) = scale.of((8, 6), (48, 24));
    each(stage, connections, 24, move |stage, _| async move {
        let Some(mut pair) = stage.pair().await else {
            return;
        };
        for _ in 0..changes {
            // An error shows at the end.
            if one(&mut pair).await.is_err() {
                break;
            }
        }
        let client_first = pair.chance.happens(0.5);
        let (first, second) = pair.ways(client_first);
        let (first_ending, second_ending) = end_in_turn(first, second).await;
        let mut tally = stage.tally.borrow_mut();
        tally.whole(&pair.name(client_first), first.lane, first_ending);
        tally.whole(&pair.name(!client_first), second.lane, second_ending);
    })
    .await;
}

async fn one(pair: &mut Pair) -> std::io::Result<()> {
    let chance = &mut pair.chance;
    let is_up = chance.happens(0.5);
    match chance.below(4) {
        // Both take turns; half of the moods, as some relays want many turns to believe it.
        0 | 1 => {
            for _ in 0..magnitude(chance, EXCHANGES_MAX) {
                let up = 1 + magnitude(&mut pair.chance, MESSAGE_BYTES_MAX);
                let down = 1 + magnitude(&mut pair.chance, MESSAGE_BYTES_MAX);
                exchange(pair, up, down).await?;
            }
            Ok(())
        }
        // One side talks, and the other listens, at once or after a while.
        mood => {
            let bytes = 1 + magnitude(chance, BULK_BYTES_MAX);
            let nap = if mood == 2 {
                Duration::ZERO
            } else {
                SLEEP_MAX.mul_f64(chance.share())
            };
            let (way, _) = pair.ways(is_up);
            let receive = async {
                sleep(nap).await;
                way.lane.receive(way.receiver, bytes, PIECE_BYTES_MAX).await
            };
            let send = way.lane.send(way.sender, bytes, PIECE_BYTES_MAX);
            let (sent, received) = tokio::join!(send, receive);
            sent.and(received)
        }
    }
}
