//! Cache peers, which are asked before the origin: where they are, which are left out, and what they answered. All workers share them.
use crate::config::plan::{CachePeersPlan, CachePlan, ServerAddress};
use carrick_logic::balance::PassiveHealth;
use carrick_logic::cache::{self, shared_part};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The members of `peers`, and their states.
#[derive(Debug)]
pub struct CachePeers {
    /// As configured.
    pub plan: CachePeersPlan,
    /// In the order of `plan.members`. This carrick itself is a member, too.
    pub members: Vec<Arc<CachePeer>>,
    owners: cache::CachePeers,
}

/// A cache peer.
#[derive(Debug)]
pub struct CachePeer {
    /// Its address.
    pub address: ServerAddress,
    /// The address as text, for logs and metrics.
    pub label: Box<str>,
    /// Counts answers, by [`PeerAnswer`].
    answers: [AtomicU64; PeerAnswer::ALL.len()],
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    health: PassiveHealth,
    is_left_out: bool,
}

carrick_logic::named! {
    /// The result of asking a peer.
    pub enum PeerAnswer with name {
        /// A stored response.
        Hit = "hit",
        /// 504: it has stored none.
        Miss = "miss",
        /// Another response, such as 403.
        Refused = "refused",
        /// No response in time, or an incomplete one.
        Failed = "failed",
    }
}

impl CachePeers {
    /// The peers of a plan. Members of `previous` keep their state.
    #[must_use]
    pub fn for_plan(plan: &CachePlan, previous: Option<&Self>) -> Option<Arc<Self>> {
        let plan = plan.cache_peers.clone()?;
        let known = |address: &ServerAddress| {
            let mut known = previous.into_iter().flat_map(|before| &before.members);
            known.find(|member| member.address == *address).cloned()
        };
        let members: Vec<Arc<CachePeer>> = (plan.members.iter())
            .map(|address| known(address).unwrap_or_else(|| Arc::new(CachePeer::new(address))))
            .collect();
        let names = members.iter().map(|member| member.label.as_bytes());
        Some(Arc::new(Self {
            owners: cache::CachePeers::new(names, plan.own),
            plan,
            members,
        }))
    }

    /// The member to ask for this key; `None`: none. If it was left out, this is a trial: its result must be noted with
    /// [`CachePeer::told`].
    #[must_use]
    pub fn owner(&self, key: &[u8], now: Instant) -> Option<&Arc<CachePeer>> {
        let is_up = |place: usize| {
            let member = self.members.get(place);
            member.is_some_and(|member| member.lock().health.is_up(now))
        };
        let place = self.owners.owner(shared_part(key), is_up)?;
        let member = self.members.get(place)?;
        member.lock().health.chosen(now);
        Some(member)
    }

    /// All members except this carrick.
    pub fn others(&self) -> impl Iterator<Item = &Arc<CachePeer>> {
        let members = self.members.iter().enumerate();
        members
            .filter(|(place, _)| self.plan.own != Some(*place))
            .map(|(_, member)| member)
    }
}

impl CachePeer {
    fn new(address: &ServerAddress) -> Self {
        Self {
            address: address.clone(),
            label: address.to_string().into(),
            answers: Default::default(),
            state: Mutex::new(State {
                // A silent peer costs its time-out once, and then only at trials.
                health: PassiveHealth::new(1),
                is_left_out: false,
            }),
        }
    }

    /// Notes the result of asking it. The log says when a peer is left out, and when it is back.
    pub fn told(&self, answer: PeerAnswer, why: &str, now: Instant) {
        self.count(answer).fetch_add(1, Relaxed);
        let mut state = self.lock();
        match answer {
            PeerAnswer::Failed => {
                state.health.failed(now);
                if !std::mem::replace(&mut state.is_left_out, true) {
                    tracing::warn!(
                        "the cache peer {} failed and is not used for a while: {why}",
                        self.label
                    );
                }
            }
            PeerAnswer::Hit | PeerAnswer::Miss | PeerAnswer::Refused => {
                state.health.succeeded();
                if std::mem::replace(&mut state.is_left_out, false) {
                    tracing::info!("the cache peer {} answers again", self.label);
                }
            }
        }
    }

    /// How often asking it had this result.
    #[must_use]
    pub fn answers(&self, answer: PeerAnswer) -> u64 {
        self.count(answer).load(Relaxed)
    }

    /// Whether it is left out at present.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        self.lock().is_left_out
    }

    fn count(&self, answer: PeerAnswer) -> &AtomicU64 {
        // As long as the enum: the index exists.
        &self.answers[answer as usize]
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn plan(members: &[u16], own: Option<usize>) -> CachePlan {
        let address = |port: &u16| ServerAddress::Ip(([10, 0, 0, 1], *port).into());
        CachePlan {
            cache_peers: Some(CachePeersPlan {
                members: members.iter().map(address).collect(),
                own,
                connect: Duration::from_millis(200),
                answer: Duration::from_secs(1),
            }),
            ..CachePlan::default()
        }
    }

    #[test]
    fn who_failed_is_left_out_and_tried_again() {
        let cache_peers = CachePeers::for_plan(&plan(&[1, 2], None), None).expect("peers");
        let (now, key) = (Instant::now(), b"listener=x http://h:80/");
        let owner = Arc::clone(cache_peers.owner(key, now).expect("somebody owns it"));
        owner.told(PeerAnswer::Failed, "test", now);
        assert!(owner.is_left_out());
        let other = cache_peers.owner(key, now).expect("the other one");
        assert_ne!(other.address, owner.address);
        let later = now + Duration::from_secs(1);
        let tried = cache_peers.owner(key, later).expect("the owner");
        assert_eq!(tried.address, owner.address);
        // It is tried once.
        let meanwhile = cache_peers.owner(key, later).expect("the other one");
        assert_ne!(meanwhile.address, owner.address);
        tried.told(PeerAnswer::Miss, "", later);
        assert!(!owner.is_left_out());
        let again = cache_peers.owner(key, later).expect("the owner");
        assert_eq!(again.address, owner.address);
        assert_eq!(
            PeerAnswer::ALL.map(|answer| owner.answers(answer)),
            [0, 1, 0, 1],
            "a miss and a failure"
        );
    }

    #[test]
    fn a_reload_keeps_what_is_known() {
        let before = CachePeers::for_plan(&plan(&[1, 2], Some(0)), None).expect("peers");
        before.members[1].told(PeerAnswer::Failed, "test", Instant::now());
        let after = CachePeers::for_plan(&plan(&[2, 3], None), Some(&before)).expect("peers");
        assert!(after.members[0].is_left_out() && !after.members[1].is_left_out());
        assert_eq!((before.others().count(), after.others().count()), (1, 2));
        assert!(CachePeers::for_plan(&CachePlan::default(), Some(&after)).is_none());
    }
}
