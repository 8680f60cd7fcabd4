//! The splice service: joins two TCP connections so that bytes flow from one to the other until an agreed boundary, and
//! hands both back exactly there.
//!
//! A [`Splicer`] belongs to one thread (one tokio `current_thread` runtime). It makes [`Transfer`]s (one way) and
//! [`Exchange`]s (both ways). Both can be left at any moment: drop the future that `run` returned, then call `unsplice`.
//!
//! | engine | bytes move | use |
//! |---|---|---|
//! | [`Engine::Copy`] | through the process | small transfers; anything that must be looked at |
//! | [`Engine::Pipe`] | socket, pipe, socket by `splice(2)`; `tee(2)` for the local copy | bulk |

mod choice;
mod counters;
mod exchange;
mod flow;
mod local_copy;
mod outcome;
mod pipe;
mod pool;
pub mod probe;
mod sys;
pub mod tcp;
mod transfer;
mod watch;

pub use choice::{Choice, Reason};
pub use counters::{Counter, Counters};
pub use exchange::{Exchange, ExchangeEnd, ExchangeOrder};
pub use local_copy::LocalCopy;
pub use outcome::{Ended, Fault, HandOver, Side};
pub use pool::{PoolLimits, Splicer};
pub use transfer::{End, Order, RateMin, Transfer};

/// How bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Through a buffer of the process.
    Copy,
    /// Through a pipe, by `splice(2)`.
    Pipe,
}
