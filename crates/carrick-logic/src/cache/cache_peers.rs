//! Which of several caches owns a key: the one that is asked for what is not stored here.
#[cfg(test)]
mod tests;

use crate::balance::{Algorithm, Balancer, ServerView};

/// The members of a group of caches, of which each owns a share of all keys (rendezvous hashing, Thaler and Ravishankar
/// 1998). All members find the same owner if they have the same names, in whatever order.
#[derive(Debug, Clone)]
pub struct CachePeers {
    balancer: Balancer,
    count: usize,
    own: Option<usize>,
}

impl CachePeers {
    /// By the names of the members, such as `10.0.0.1:3128`; `own` is the place of this cache among them, if it is one.
    #[must_use]
    pub fn new<'n>(names: impl IntoIterator<Item = &'n [u8]>, own: Option<usize>) -> Self {
        let mut count = 0;
        let names = names.into_iter().inspect(|_| count += 1);
        let balancer = Balancer::new(Algorithm::Hash, 0).with_names(names);
        Self {
            balancer,
            count,
            own,
        }
    }

    /// The place of the member to ask for `key`: its owner among those that `is_up` says may be asked. `None`: it is this
    /// cache itself, which is always up, or there is nobody. Keys of members that are not up are shared out among the
    /// others; no other key moves.
    #[must_use]
    pub fn owner(&self, key: &[u8], is_up: impl Fn(usize) -> bool) -> Option<usize> {
        let members: Vec<ServerView> = (0..self.count)
            .map(|place| ServerView {
                weight: 1,
                active: 0,
                eligible: self.own == Some(place) || is_up(place),
            })
            .collect();
        let owner = self.balancer.pick_by_key(&members, key)?;
        (self.own != Some(owner)).then_some(owner)
    }
}

/// The part of a stored response's key that all members have in common: the URL, and what `cache_key` adds. What comes
/// before it is this cache's own name for who was asked ([`Realm`](super::Realm)), in which there may be no URL.
#[must_use]
pub fn shared_part(key: &[u8]) -> &[u8] {
    memchr::memmem::find_iter(key, b" http")
        .filter_map(|space| key.get(space + 1..))
        .find(|rest| rest.starts_with(b"http://") || rest.starts_with(b"https://"))
        .unwrap_or(key)
}
