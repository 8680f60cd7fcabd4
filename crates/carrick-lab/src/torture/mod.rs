//! The torture suite: cases that break relays which are not careful, for carrick with each engine and for its peers. Every
//! byte is checked, both ways; so is how each direction ends, what the relay holds meanwhile, and what it keeps afterwards.
//!
//! A *case* (`cases/`) is played on a *stage*: a relay's address, and both outer ends of each connection through it, in one
//! thread. It knows nothing of namespaces or processes, so that bad relays can be put in a relay's place by tests.

pub mod cases;
pub mod http;
pub mod run;
pub mod stage;
pub mod stream;
pub mod table;
pub mod tally;
pub mod watch;

/// Who is tortured, by the names of `peers`, in the order of reports.
pub const RELAYS: [&str; 14] = [
    "routed",
    "carrick-copy",
    "carrick-pipe",
    "carrick-socket",
    "carrick-packet",
    "carrick-auto",
    "carrick-split",
    "haproxy",
    "haproxy-splice",
    "nginx",
    "nginx-half-close",
    "3proxy",
    "socat",
    "pepsal",
];

#[cfg(test)]
mod tests;
