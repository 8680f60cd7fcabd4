//! Which server of an upstream answers: balancing, and marking servers down and up again.

mod health;
#[cfg(test)]
mod tests;

pub use health::{PAUSE_MAX, PAUSE_MIN, PassiveHealth};

use siphasher::sip::SipHasher13;
use std::cmp::Ordering;
use std::hash::Hasher;

/// How a server is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// In turn, each server as often as its weight says, evenly spread (nginx's smooth weighted round-robin).
    RoundRobin,
    /// The server with the least under way for its weight; among equals, in turn.
    LeastConnections,
    /// Two servers at random, by weight, and of them the one with less under way for its weight (Mitzenmacher 2001).
    TwoChoices,
    /// Always the same server for the same key, while it is eligible (weighted rendezvous hashing, Thaler and Ravishankar
    /// 1998). Without a key as `RoundRobin`.
    Hash,
}

/// What the balancer knows about a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerView {
    /// At least 1.
    pub weight: u32,
    /// Requests or tunnels under way.
    pub active: u32,
    /// Whether it may be chosen: up, and not tried already.
    pub eligible: bool,
}

impl ServerView {
    fn weight(&self) -> i64 {
        i64::from(self.weight.max(1))
    }
}

/// Most turns that a new balancer is moved on by its seed.
const TURNS_AHEAD_MAX: i64 = 1024;

/// The key of the hash: any constant, as all workers, runs and machines must agree.
const HASH_KEY: (u64, u64) = (0x6361_7272_6963_6b00, 0x6265_6e64_0000_0001);

/// The balancer's own state; one per worker and upstream.
#[derive(Debug, Clone)]
pub struct Balancer {
    algorithm: Algorithm,
    seed: u64,
    random: fastrand::Rng,
    /// Smooth round-robin: what each server is owed. Empty until the first choice.
    owed: Vec<i64>,
    /// What `Hash` knows a server by; servers beyond its end are known by their place.
    identities: Vec<u64>,
}

impl Balancer {
    /// A balancer; `seed` makes two workers begin differently.
    #[must_use]
    pub fn new(algorithm: Algorithm, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self {
            algorithm,
            seed,
            random,
            owed: Vec::new(),
            identities: Vec::new(),
        }
    }

    /// Tells by which names (such as `10.0.0.11:80`) `Hash` knows the servers, in their order. A key then stays with its
    /// server even when a reload adds, removes or moves other servers. Without names their places count.
    #[must_use]
    pub fn with_names<'n>(mut self, names: impl IntoIterator<Item = &'n [u8]>) -> Self {
        self.identities = names.into_iter().map(hash).collect();
        self
    }

    /// Chooses among `servers`; `key` is what `hash` hashes (consistent: a server's leaving moves only its own keys). `None` if none is eligible.
    ///
    /// Allocates only when the number of servers is another than the last time.
    pub fn pick(&mut self, servers: &[ServerView], key: Option<&[u8]>) -> Option<usize> {
        match (self.algorithm, key) {
            (Algorithm::RoundRobin, _) | (Algorithm::Hash, None) => {
                self.pick_in_turn(servers, |server| server.eligible)
            }
            (Algorithm::LeastConnections, _) => {
                let least = servers
                    .iter()
                    .filter(|server| server.eligible)
                    .min_by(|a, b| by_load(a, b))?;
                self.pick_in_turn(servers, |server| {
                    server.eligible && by_load(server, least).is_eq()
                })
            }
            (Algorithm::TwoChoices, _) => self.pick_of_two(servers),
            (Algorithm::Hash, Some(key)) => self.pick_by_key(servers, key),
        }
    }

    /// Smooth weighted round-robin: everybody is owed its weight more, the one who is owed most is chosen and pays for all.
    fn pick_in_turn(
        &mut self,
        servers: &[ServerView],
        takes_part: impl Fn(&ServerView) -> bool,
    ) -> Option<usize> {
        if self.owed.len() != servers.len() {
            self.begin_turns(servers);
        }
        take_turn(&mut self.owed, servers, takes_part)
    }

    /// Moves on by some turns that the seed decides, so that not every worker begins with the same server.
    fn begin_turns(&mut self, servers: &[ServerView]) {
        self.owed.clear();
        self.owed.resize(servers.len(), 0);
        let cycle: i64 = servers.iter().map(ServerView::weight).sum();
        let turns = self.seed % cycle.clamp(1, TURNS_AHEAD_MAX).unsigned_abs();
        for _ in 0..turns {
            take_turn(&mut self.owed, servers, |_| true);
        }
    }

    fn pick_of_two(&mut self, servers: &[ServerView]) -> Option<usize> {
        let first = self.pick_by_weight(servers, None)?;
        let Some(second) = self.pick_by_weight(servers, Some(first)) else {
            return Some(first);
        };
        let is_better = by_load(&servers[second], &servers[first]).is_lt();
        Some(if is_better { second } else { first })
    }

    /// An eligible server other than `but`, each as likely as its weight says.
    fn pick_by_weight(&mut self, servers: &[ServerView], but: Option<usize>) -> Option<usize> {
        let candidates = || {
            let all = servers.iter().enumerate();
            all.filter(move |(place, server)| server.eligible && Some(*place) != but)
        };
        let total: i64 = candidates().map(|(_, server)| server.weight()).sum();
        if total == 0 {
            return None;
        }
        let mut ticket = self.random.i64(0..total);
        for (place, server) in candidates() {
            ticket -= server.weight();
            if ticket < 0 {
                return Some(place);
            }
        }
        None
    }

    /// Weighted rendezvous hashing: each server draws, from the key and its identity alone, the time until it would claim
    /// the key (exponentially distributed, its weight the rate), and the earliest has it.
    pub(crate) fn pick_by_key(&self, servers: &[ServerView], key: &[u8]) -> Option<usize> {
        let key = hash(key);
        let eligible = servers
            .iter()
            .enumerate()
            .filter(|(_, server)| server.eligible);
        let claims = eligible.map(|(place, server)| (place, self.claim(key, place, server)));
        claims
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(place, _)| place)
    }

    #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64")]
    fn claim(&self, key: u64, place: usize, server: &ServerView) -> f64 {
        let identity = self
            .identities
            .get(place)
            .copied()
            .unwrap_or_else(|| mix(place as u64));
        let drawn = mix(key ^ identity) >> 11;
        // Within (0, 1), never at its ends.
        let uniform = (drawn as f64 + 0.5) / (1u64 << 53) as f64;
        -uniform.ln() / server.weight() as f64
    }
}

fn take_turn(
    owed: &mut [i64],
    servers: &[ServerView],
    takes_part: impl Fn(&ServerView) -> bool,
) -> Option<usize> {
    let mut total = 0_i64;
    let mut chosen: Option<usize> = None;
    for (place, server) in servers.iter().enumerate() {
        if takes_part(server) {
            owed[place] = owed[place].saturating_add(server.weight());
            total += server.weight();
            if chosen.is_none_or(|before| owed[place] > owed[before]) {
                chosen = Some(place);
            }
        }
    }
    let chosen = chosen?;
    owed[chosen] = owed[chosen].saturating_sub(total);
    Some(chosen)
}

/// Who has less under way for its weight.
fn by_load(a: &ServerView, b: &ServerView) -> Ordering {
    let times = |active: u32, weight: u32| u64::from(active) * u64::from(weight.max(1));
    times(a.active, b.weight).cmp(&times(b.active, a.weight))
}

/// `SipHash` 1-3 of `bytes`: the same for all workers, versions and machines.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(HASH_KEY.0, HASH_KEY.1);
    hasher.write(bytes);
    hasher.finish()
}

/// Spreads every bit of `value` over the whole result (the finalizer of `SplitMix64`, Steele et al. 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
