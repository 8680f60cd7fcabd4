//! The torture suite: cases that break relays which are not careful, for carrick with each engine and for its peers. Every
//! byte is checked, both ways; so is how each direction ends, what the relay holds meanwhile, and what it keeps afterwards.
//!
//! A *case* (`cases/`) is played on a *stage*: a relay's address, and both outer ends of each connection through it, in one
//! thread. It knows nothing of namespaces or processes, so that bad relays can be put in a relay's place by tests.

pub mod cases;
pub mod stage;
pub mod stream;
pub mod tally;

#[cfg(test)]
mod tests;
