//! Requests that the cache answers, and answers that it keeps: between the decision where a request goes and the relay.
//!
//! | module | what it does |
//! |---|---|
//! | `ask` | what is sent to the origin in a request's place, and what is known when its answer comes |
//! | `fill` | the body of an answer on its way into the store, by itself: clients read along |
//! | `find` | looking up a stored answer; waiting for another request's |
//! | `judge` | what an origin's answer does to the store, and what the client gets |
//! | `parts` | answers that have a part of what there is, and those that broke off |
//! | `shared` | what is asked of the store that several processes share |
//! | `peer` | which requests another cache is asked for first, and what its answers mean |
//! | `send` | sending what is stored, also while it is still coming |
//! | `store` | storing an answer |
//! | `tee` | keeping a body of unknown length while it is passed on |
//!
//! What may be stored and when it may be sent is decided by [`carrick_logic::cache`]; it is kept by [`crate::cache`].
mod ask;
mod fill;
mod find;
mod judge;
mod parts;
pub mod peer;
mod send;
pub mod shared;
mod store;
mod tee;

pub use ask::{Asking, request_lines};
pub use fill::{Fill, UnreadBody};
pub use find::{CacheDecision, begin, begin_prefetch};
pub use judge::{changed, invalidate, judge};
pub use parts::{PendingBody, reuse_of};
pub use peer::meaning;
pub use send::{Source, send, stale};
pub use store::Verdict;
pub use tee::Tee;
