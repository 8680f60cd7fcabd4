//! Segments of every size, both ways at once, over good networks and bad ones.

use std::rc::Rc;

use super::{Scale, any_piece, each};
use crate::content::PIECE_BYTES_MAX;
use crate::torture::stage::{Pair, Stage, Way};
use crate::torture::stream::Ending;

/// One byte at a time.
pub async fn tiny(stage: &Rc<Stage>, scale: Scale) {
    let bytes = scale.of(3_000, 30_000);
    each(stage, scale.of(2, 6), 6, move |stage, _| async move {
        if let Some(pair) = stage.pair().await {
            converse(&stage, &pair, [bytes, bytes], [1, 1]).await;
        }
    })
    .await;
}

/// 64 KB at a time.
pub async fn large(stage: &Rc<Stage>, scale: Scale) {
    let bytes = scale.of(8 << 20, 128 << 20);
    each(stage, scale.of(2, 4), 4, move |stage, _| async move {
        if let Some(pair) = stage.pair().await {
            converse(&stage, &pair, [bytes, bytes], [64 << 10, 64 << 10]).await;
        }
    })
    .await;
}

/// Pieces of any size, over the network that the runner has made bad.
pub async fn loss(stage: &Rc<Stage>, scale: Scale) {
    let bytes = scale.of(300_000, 1_000_000);
    each(stage, scale.of(6, 8), 8, move |stage, _| async move {
        if let Some(mut pair) = stage.pair().await {
            let pieces = [any_piece(&mut pair.chance), any_piece(&mut pair.chance)];
            converse(
                &stage,
                &pair,
                [bytes, bytes],
                pieces.map(|piece| piece.max(100)),
            )
            .await;
        }
    })
    .await;
}

/// Sends so many bytes up and down at once, in writes of so many bytes, with an end behind each; judges both.
pub(super) async fn converse(stage: &Stage, pair: &Pair, bytes: [u64; 2], pieces: [usize; 2]) {
    let (upward, ended_up) = (pair.upward(), run(pair.upward(), bytes[0], pieces[0]));
    let (downward, ended_down) = (pair.downward(), run(pair.downward(), bytes[1], pieces[1]));
    let (up_ending, down_ending) = tokio::join!(ended_up, ended_down);
    let mut tally = stage.tally.borrow_mut();
    let unsent = (bytes[0] - upward.lane.offered()) + (bytes[1] - downward.lane.offered());
    tally.lost_bytes += unsent;
    tally.whole(&pair.name(true), upward.lane, up_ending);
    tally.whole(&pair.name(false), downward.lane, down_ending);
}

async fn run(way: Way<'_>, bytes: u64, piece_bytes: usize) -> Ending {
    let send = async {
        // An error shows at the receiver.
        let _ = way.lane.send(way.sender, bytes, piece_bytes).await;
        way.sender.end();
    };
    let receive = way.lane.receive_to_end(way.receiver, PIECE_BYTES_MAX);
    tokio::join!(send, receive).1
}
