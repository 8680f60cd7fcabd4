//! Requests that come back: to servers, or a parent, that lead to carrick again.
use crate::reply::Reply;
use carrick_logic::http1::{Loop, Mark, RequestHead, Target};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::OnceLock;

/// What this listener knows the request by, should it come back: as long as the process lives, over reloads, too. Another request has
/// another mark, since one that a server has made of it may come in here with the same `Via`.
pub fn mark(listener: SocketAddr, bytes: &[u8], head: &RequestHead) -> Mark {
    static SEED: OnceLock<RandomState> = OnceLock::new();
    let target = match head.target {
        Target::Origin { path_and_query } | Target::Absolute { path_and_query, .. } => {
            path_and_query.of(bytes)
        }
        Target::Authority { authority } => authority.of(bytes),
        Target::Asterisk => b"*",
    };
    let target = if target.is_empty() { b"/" } else { target };
    let what = (
        listener,
        head.method_text.of(bytes),
        head.host.of(bytes),
        target,
    );
    Mark::new(SEED.get_or_init(RandomState::new).hash_one(what))
}

/// The answer to a request that must not go round once more.
pub fn refuse(listener: SocketAddr, bytes: &[u8], head: &RequestHead) -> Option<Reply> {
    if !head.has_come_through_proxies() {
        return None;
    }
    let detail = match head.find_loop(bytes, &mark(listener, bytes, head))? {
        Loop::Closed => {
            "This request was here before: a server, or the parent, of this proxy leads back to it."
        }
        Loop::TooLong => {
            "This request has come through more than 20 proxies: some of them seem to lead to each other."
        }
    };
    tracing::debug!("{listener}: a request comes back: {detail}");
    Some(Reply::new(508, "loop", detail))
}
