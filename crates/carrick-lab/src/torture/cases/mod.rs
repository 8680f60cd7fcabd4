//! The cases: what is done to the connections of a relay, and what has to come of it.

mod backlog;
mod crowd;
mod half_close;
mod resets;
mod segments;
mod stall;

use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::load::chance::Chance;
use crate::torture::stage::{Stage, Way};

/// Between two looks at what a relay holds.
const HELD_POLL: Duration = Duration::from_millis(20);

/// One of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// A receiver that sleeps, then reads slowly, then fast.
    SlowReader,
    /// The sender sends everything and closes, while the receiver sleeps.
    EndWithBacklog,
    /// One side ends its direction, the other goes on.
    HalfClose,
    /// RST at any moment, from either side.
    Resets,
    /// Segments of one byte.
    Tiny,
    /// Writes of 64 KB.
    Large,
    /// Loss, reordering and duplication on both legs.
    Loss,
    /// Thousands of connections at one time.
    Many,
    /// Thousands of connections, one after the other.
    Churn,
    /// The relay's process stands still for a while.
    StopAndGo,
}

impl Case {
    /// All, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::SlowReader,
        Self::EndWithBacklog,
        Self::HalfClose,
        Self::Resets,
        Self::Tiny,
        Self::Large,
        Self::Loss,
        Self::Many,
        Self::Churn,
        Self::StopAndGo,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SlowReader => "slow-reader",
            Self::EndWithBacklog => "end-with-backlog",
            Self::HalfClose => "half-close",
            Self::Resets => "resets",
            Self::Tiny => "tiny",
            Self::Large => "large",
            Self::Loss => "loss",
            Self::Many => "many",
            Self::Churn => "churn",
            Self::StopAndGo => "stop-and-go",
        }
    }

    /// What is done.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::SlowReader => {
                "1 GiB each way, to a receiver that sleeps, then reads slowly, then fast"
            }
            Self::EndWithBacklog => {
                "up to 64 MB are sent and the connection closed while the receiver sleeps"
            }
            Self::HalfClose => {
                "either side ends its direction first, with and without a backlog; the other goes on"
            }
            Self::Resets => "either side resets the connection at a random moment",
            Self::Tiny => "segments of one byte, both ways at once",
            Self::Large => "writes of 64 KB, both ways at once",
            Self::Loss => {
                "1, 3 and 5 % of the packets lost, others reordered or doubled, on both legs"
            }
            Self::Many => "9,000 connections at one time, each with small exchanges",
            Self::Churn => {
                "thousands of short connections: exchanges, then an end or a reset by either side"
            }
            Self::StopAndGo => {
                "the relay's process is stopped for a second while bytes, ends and resets arrive"
            }
        }
    }

    /// The case of a name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|case| case.name() == name)
    }
}

/// How much of a case is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// A second or a few per relay: does it work at all?
    Smoke,
    /// As the cases are described.
    Full,
}

impl Scale {
    /// The one or the other.
    #[must_use]
    pub fn of<T>(self, smoke: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Full => full,
        }
    }
}

/// Plays a case; the counts are in the stage's tally. `connections`: how many [`Case::Many`] is to hold at one time.
pub async fn play(case: Case, stage: &Rc<Stage>, scale: Scale, connections: u64) {
    match case {
        Case::SlowReader => backlog::slow_reader(stage, scale).await,
        Case::EndWithBacklog => backlog::end_with_backlog(stage, scale).await,
        Case::HalfClose => half_close::half_close(stage, scale).await,
        Case::Resets => resets::resets(stage, scale).await,
        Case::Tiny => segments::tiny(stage, scale).await,
        Case::Large => segments::large(stage, scale).await,
        Case::Loss => segments::loss(stage, scale).await,
        Case::Many => crowd::many(stage, connections).await,
        Case::Churn => crowd::churn(stage, scale).await,
        Case::StopAndGo => stall::stop_and_go(stage, scale).await,
    }
}

/// Does `work` for each number below `count`, so many at one time.
async fn each<F, W>(stage: &Rc<Stage>, count: u64, concurrency: usize, work: F)
where
    F: Fn(Rc<Stage>, u64) -> W,
    W: Future<Output = ()> + 'static,
{
    let mut under_way = JoinSet::new();
    for number in 0..count {
        while under_way.len() >= concurrency {
            settle(stage, under_way.join_next().await);
        }
        under_way.spawn_local(work(Rc::clone(stage), number));
    }
    while let Some(done) = under_way.join_next().await {
        settle(stage, Some(done));
    }
}

/// A task of the suite that fails must not look like a relay that does well.
fn settle(stage: &Rc<Stage>, done: Option<Result<(), tokio::task::JoinError>>) {
    if let Some(Err(error)) = done {
        let mut tally = stage.tally.borrow_mut();
        tally.hung += 1;
        tally.complain(|| format!("the suite itself failed: {error}"));
    }
}

/// Does something, and keeps an eye on what the relay holds of these directions meanwhile.
async fn watched<T>(stage: &Stage, ways: &[Way<'_>], work: impl Future<Output = T>) -> T {
    let watch = async {
        loop {
            for way in ways {
                let held = way.lane.held_bytes(way.sender, way.receiver);
                stage.tally.borrow_mut().held(held);
            }
            tokio::time::sleep(HELD_POLL).await;
        }
    };
    tokio::select! {
        done = work => done,
        never = watch => never,
    }
}

/// A number below `below`, of any order of magnitude.
fn magnitude(chance: &mut Chance, below: u64) -> u64 {
    let bits = chance.below(u64::from(below.max(1).ilog2()) + 2);
    chance.below(1 << bits).min(below.saturating_sub(1))
}

/// A size of reads or writes, of any order of magnitude up to 64 KB.
fn any_piece(chance: &mut Chance) -> usize {
    usize::try_from(1 + magnitude(chance, 64 << 10)).unwrap_or(1)
}
