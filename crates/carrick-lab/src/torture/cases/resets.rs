//! RST at any moment: the other side learns that the connection broke, and does not take a part for the whole.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;

use super::{Scale, any_piece, each, magnitude};
use crate::load::chance::Chance;
use crate::torture::stage::{Pair, Stage, way_name};

/// Most bytes that each side has to send.
const BYTES_MAX: u64 = 4 << 20;
/// Most pieces in which it sends them.
const PIECES_MAX: u64 = 10_000;
/// Latest moment of the reset.
const MOMENT_MAX: Duration = Duration::from_millis(40);

/// Hundreds of connections.
pub async fn resets(stage: &Rc<Stage>, scale: Scale) {
    each(stage, scale.of(120, 800), 32, |stage, _| async move {
        if let Some(mut pair) = stage.pair().await {
            let micros = magnitude(&mut pair.chance, micros_of(MOMENT_MAX));
            one(&stage, pair, Duration::from_micros(micros)).await;
        }
    })
    .await;
}

/// Bytes that are sent in a time that is not much longer than the latest moment.
fn any_bytes(chance: &mut Chance, piece: usize) -> u64 {
    magnitude(chance, BYTES_MAX).min(PIECES_MAX * piece as u64)
}

fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Both sides talk, and one of them resets the connection at this moment.
pub(super) async fn one(stage: &Stage, mut pair: Pair, moment: Duration) {
    let chance = &mut pair.chance;
    let client_resets = chance.happens(0.5);
    let (there_piece, back_piece) = (any_piece(chance), any_piece(chance));
    let (there_bytes, back_bytes) = (
        any_bytes(chance, there_piece),
        any_bytes(chance, back_piece),
    );
    // Now and then the other side does not read at that moment, so that the relay has something in its hands.
    let nap = Duration::from_millis(if chance.happens(0.25) { 60 } else { 0 });
    let number = pair.number;
    let (resetter, victim, there, back) = pair.parts(client_resets);
    let resets = async {
        {
            let talk = async {
                tokio::join!(
                    there.send(&resetter, there_bytes, there_piece),
                    back.receive_to_end(&resetter, back_piece)
                )
            };
            tokio::select! {
                _ = talk => {}
                () = sleep(moment) => {}
            }
        }
        resetter.reset();
    };
    let suffers = async {
        let receive = async {
            sleep(nap).await;
            there.receive_to_end(&victim, there_piece).await
        };
        tokio::join!(back.send(&victim, back_bytes, back_piece), receive).1
    };
    let ((), ending) = tokio::join!(resets, suffers);
    let mut tally = stage.tally.borrow_mut();
    tally.cut(&way_name(number, client_resets), &there, ending);
    tally.abandoned(&way_name(number, !client_resets), &back);
}
