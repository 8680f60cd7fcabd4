//! Many connections: at one time, and one after the other.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use super::{Scale, each, magnitude};
use crate::content::PIECE_BYTES_MAX;
use crate::load::chance::Chance;
use crate::torture::stage::{Pair, Stage, Way, way_name};
use crate::torture::stream::Ending;

/// Most bytes of one message in an exchange of [`many`].
const MESSAGE_BYTES_MAX: u64 = 2_000;
/// Most bytes of one message in an exchange of [`churn`].
const LONG_MESSAGE_BYTES_MAX: u64 = 20_000;
/// Rounds of exchanges while all connections are open.
const ROUNDS: u64 = 3;
/// Connections that are being opened, used or closed at the same moment.
const CONCURRENCY: usize = 64;

/// A few connections with chatter and with bulk, so that the relay makes what it makes once and keeps.
pub async fn warm_up(stage: &Rc<Stage>) {
    each(stage, 4, 4, |stage, _| async move {
        if let Some(pair) = stage.pair().await {
            // An error shows in the case.
            for _ in 0..100 {
                let _ = exchange(&pair, 64, 64).await;
            }
            let _ = exchange(&pair, 1 << 20, 1 << 20).await;
            end_in_turn(pair.upward(), pair.downward()).await;
        }
    })
    .await;
}

/// So many connections at one time; each exchanges messages when all are open, and ends then.
pub async fn many(stage: &Rc<Stage>, connections: u64) {
    let pairs: Rc<RefCell<Vec<Rc<Pair>>>> = Rc::default();
    each(stage, connections, CONCURRENCY, |stage, _| {
        let pairs = Rc::clone(&pairs);
        async move {
            if let Some(pair) = stage.pair().await {
                // An error shows at the end.
                let _ = exchange(&pair, 1, 1).await;
                pairs.borrow_mut().push(Rc::new(pair));
            }
        }
    })
    .await;
    let pairs = pairs.take();
    for round in 0..ROUNDS {
        each(stage, pairs.len() as u64, CONCURRENCY, |_, number| {
            let pair = pair_of(&pairs, number);
            async move {
                let mut chance = Chance::new(pair.number, round);
                let up = 1 + magnitude(&mut chance, MESSAGE_BYTES_MAX);
                let down = 1 + magnitude(&mut chance, MESSAGE_BYTES_MAX);
                let _ = exchange(&pair, up, down).await;
            }
        })
        .await;
    }
    each(stage, pairs.len() as u64, CONCURRENCY, |stage, number| {
        let pair = pair_of(&pairs, number);
        async move {
            let client_first = pair.number.is_multiple_of(2);
            let (first, second) = pair.ways(client_first);
            let (first_ending, second_ending) = end_in_turn(first, second).await;
            let mut tally = stage.tally.borrow_mut();
            tally.whole(&pair.name(client_first), first.lane, first_ending);
            tally.whole(&pair.name(!client_first), second.lane, second_ending);
        }
    })
    .await;
}

fn pair_of(pairs: &[Rc<Pair>], number: u64) -> Rc<Pair> {
    Rc::clone(&pairs[usize::try_from(number).unwrap_or(0)])
}

/// A message up, and one down.
pub(super) async fn exchange(pair: &Pair, up_bytes: u64, down_bytes: u64) -> io::Result<()> {
    for (way, bytes) in [(pair.upward(), up_bytes), (pair.downward(), down_bytes)] {
        let (sent, received) = tokio::join!(
            way.lane.send(way.sender, bytes, PIECE_BYTES_MAX),
            way.lane.receive(way.receiver, bytes, PIECE_BYTES_MAX)
        );
        sent.and(received)?;
    }
    Ok(())
}

/// One side ends, and the other when it has seen that.
pub(super) async fn end_in_turn(first: Way<'_>, second: Way<'_>) -> (Ending, Ending) {
    first.sender.end();
    let first_ending = first
        .lane
        .receive_to_end(first.receiver, PIECE_BYTES_MAX)
        .await;
    second.sender.end();
    let second_ending = second
        .lane
        .receive_to_end(second.receiver, PIECE_BYTES_MAX)
        .await;
    (first_ending, second_ending)
}

/// A few exchanges on each of thousands of connections, and one of the ways to end it.
pub async fn churn(stage: &Rc<Stage>, scale: Scale) {
    each(stage, scale.of(300, 6_000), 48, |stage, _| async move {
        if let Some(pair) = stage.pair().await {
            short_life(&stage, pair).await;
        }
    })
    .await;
}

async fn short_life(stage: &Stage, mut pair: Pair) {
    let exchanges = pair.chance.below(5);
    for _ in 0..exchanges {
        let up = 1 + magnitude(&mut pair.chance, LONG_MESSAGE_BYTES_MAX);
        let down = 1 + magnitude(&mut pair.chance, LONG_MESSAGE_BYTES_MAX);
        if exchange(&pair, up, down).await.is_err() {
            break;
        }
    }
    let client_first = pair.chance.happens(0.5);
    let manner = pair.chance.below(4);
    let number = pair.number;
    let (there_name, back_name) = (
        way_name(number, client_first),
        way_name(number, !client_first),
    );
    match manner {
        0 => {
            let (first, second) = pair.ways(client_first);
            let (first_ending, second_ending) = end_in_turn(first, second).await;
            let mut tally = stage.tally.borrow_mut();
            tally.whole(&there_name, first.lane, first_ending);
            tally.whole(&back_name, second.lane, second_ending);
        }
        1 => {
            // Both at once.
            let (first, second) = pair.ways(client_first);
            first.sender.end();
            second.sender.end();
            let (first_ending, second_ending) = tokio::join!(
                first.lane.receive_to_end(first.receiver, PIECE_BYTES_MAX),
                second.lane.receive_to_end(second.receiver, PIECE_BYTES_MAX)
            );
            let mut tally = stage.tally.borrow_mut();
            tally.whole(&there_name, first.lane, first_ending);
            tally.whole(&back_name, second.lane, second_ending);
        }
        _ => {
            // Last words, then a close or a reset: nothing reads what comes back.
            let last_bytes = magnitude(&mut pair.chance, LONG_MESSAGE_BYTES_MAX);
            let (leaver, stayer, there, back) = pair.parts(client_first);
            let _ = there.send(&leaver, last_bytes, PIECE_BYTES_MAX).await;
            if manner == 2 {
                drop(leaver);
            } else {
                leaver.reset();
            }
            let ending = there.receive_to_end(&stayer, PIECE_BYTES_MAX).await;
            let mut tally = stage.tally.borrow_mut();
            if manner == 2 {
                tally.whole(&there_name, &there, ending);
            } else {
                tally.cut(&there_name, &there, ending);
            }
            tally.abandoned(&back_name, &back);
        }
    }
}
