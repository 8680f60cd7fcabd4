//! The table of pairs: bounded, the one that was used least lately leaves.

use super::chosen::{Purpose, is_chosen};
use super::evidence::Evidence;
use super::fading;
use super::gain::{Gain, Total};
use super::leg::{LegSeen, LegState};
use super::model::INITIAL_WINDOW_BYTES;
use super::pair::{Pair, Prefixes};
use super::rule::{Belief, Decision, PairState, Reason, Way, believe};
use super::sizes::{SizeClass, Sizes};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Most pairs that a table knows: 4 MB.
pub const PAIRS_MAX: usize = 4096;

/// A connection that took no time is none.
const ACTIVE_MIN: Duration = Duration::from_micros(1);

/// Of connections that were to be joined, the fewest that show whether that comes about, and how many it has to come about with.
const TRIES_MIN: f64 = 8.0;
const HOLD_SHARE: f64 = 0.5;

/// Connections that are measured before a pair is left out again.
const LOOKS: u32 = 16;

/// How pairs are told apart, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Most pairs; at least 1.
    pub pairs_max: usize,
    /// The networks.
    pub prefixes: Prefixes,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pairs_max: PAIRS_MAX,
            prefixes: Prefixes::default(),
        }
    }
}

/// What is known of a connection when it is decided.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FirstKnown {
    /// How long the handshakes took, with the client and with the server, as far as there were any.
    pub rtt: [Option<Duration>; 2],
    /// The initial window towards the client if it is split, in bytes; 0: the usual one.
    pub client_window_bytes: u64,
    /// Whether connections can be joined here.
    pub can_join: bool,
    /// Whether pairs can be left out here.
    pub can_leave_out: bool,
}

/// How a connection went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The client.
    pub client: SocketAddr,
    /// The server.
    pub server: SocketAddr,
    /// What had been decided.
    pub wanted: Way,
    /// What became of it: split or joined. `None`: some of both, which cannot be compared with either.
    pub was: Option<Way>,
    /// What both legs have shown, the client's and the server's.
    pub legs: [LegSeen; 2],
    /// Bytes that the receiver has acknowledged, on the way on which more went.
    pub bytes: u64,
    /// In how many turns, a turn being what follows something that the receiver has said; 0: nobody has counted them.
    pub turns: u32,
    /// How long that took, as its ends could see it.
    pub active: Duration,
    /// The initial window towards the client if it had been split, as in [`FirstKnown`].
    pub client_window_bytes: u64,
}

/// One pair, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct PairView {
    /// The networks.
    pub pair: Pair,
    /// The legs, the client's and the server's.
    pub legs: [LegState; 2],
    /// What becomes of its connections, most of them.
    pub decision: Decision,
    /// What is believed of splitting: GoS.
    pub believed: f64,
    /// The share of connections that go the other way.
    pub exploring: f64,
    /// Connections that were seen, from the beginning.
    pub connections: u64,
    /// Those that were joined.
    pub joined: u64,
    /// GoS as it was measured, all sizes together; `None`: too few were seen.
    pub gain: Option<Gain>,
    /// How long nothing was seen of it.
    pub idle: Duration,
}

#[derive(Debug)]
struct Entry {
    legs: [LegState; 2],
    sizes: Sizes,
    evidence: [Evidence; SizeClass::ALL.len()],
    belief: Belief,
    state: PairState,
    seen: Instant,
    stamp: u64,
    connections: u64,
    joined: u64,
    /// Connections that were to be joined, and that were; they fade.
    tries: [f64; 2],
    /// Connections since the pair was left out last.
    looks: u32,
    can_leave_out: bool,
}

impl Entry {
    fn new(now: Instant) -> Self {
        let (legs, sizes) = Default::default();
        let evidence = Default::default();
        let belief = believe(&legs, INITIAL_WINDOW_BYTES, &sizes, &evidence);
        Self {
            legs,
            sizes,
            evidence,
            belief,
            state: PairState::first(&belief),
            seen: now,
            stamp: 0,
            connections: 0,
            joined: 0,
            tries: [0.0; 2],
            looks: 0,
            can_leave_out: false,
        }
    }

    fn learn(&mut self, outcome: &Outcome, now: Instant) {
        let fading = fading(now.saturating_duration_since(self.seen));
        self.seen = now;
        for (leg, seen) in self.legs.iter_mut().zip(&outcome.legs) {
            leg.learn(seen, fading);
        }
        self.sizes.learn(outcome.bytes, outcome.turns, fading);
        for evidence in &mut self.evidence {
            evidence.fade(fading);
        }
        self.note_try(outcome, fading);
        let class = SizeClass::of(outcome.bytes);
        if let Some(evidence) = self.evidence.get_mut(class as usize)
            && outcome.bytes > 0
        {
            let seconds = outcome.active.max(ACTIVE_MIN).as_secs_f64();
            let logarithm = (outcome.bytes as f64 / seconds).ln();
            match outcome.was {
                Some(Way::Split | Way::LeaveOut) => evidence.split.learn(logarithm),
                Some(Way::Join) => evidence.joined.learn(logarithm),
                None => {}
            }
        }
        let window = window(outcome.client_window_bytes);
        self.belief = believe(&self.legs, window, &self.sizes, &self.evidence);
        if self.connections == 0 {
            self.state = PairState::first(&self.belief);
        } else {
            self.state.follow(&self.belief);
        }
        self.connections += 1;
        self.looks = self.looks.saturating_add(1);
    }

    /// Records whether a connection that was to be joined was.
    fn note_try(&mut self, outcome: &Outcome, fading: f64) {
        let [tries, holds] = &mut self.tries;
        *tries *= fading;
        *holds *= fading;
        if outcome.was == Some(Way::Join) {
            self.joined += 1;
        }
        if outcome.wanted == Way::Join {
            *tries += 1.0;
            *holds += f64::from(u8::from(outcome.was == Some(Way::Join)));
        }
    }

    /// Whether most connections that were to be joined end before they are.
    fn fails_to_join(&self) -> bool {
        let [tries, holds] = self.tries;
        tries >= TRIES_MIN && holds < HOLD_SHARE * tries
    }
}

/// What was learned of pairs of networks.
#[derive(Debug)]
pub struct Table {
    settings: Settings,
    pairs: HashMap<Pair, Box<Entry>>,
    /// By when they were used.
    order: BTreeMap<u64, Pair>,
    stamps: u64,
    evicted: u64,
}

impl Table {
    /// An empty one.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            pairs: HashMap::new(),
            order: BTreeMap::new(),
            stamps: 0,
            evicted: 0,
        }
    }

    /// The pair that a connection belongs to.
    #[must_use]
    pub fn pair(&self, client: SocketAddr, server: SocketAddr) -> Pair {
        Pair::of(client.ip(), server.ip(), self.settings.prefixes)
    }

    /// What is to become of a connection. Reads only.
    #[must_use]
    pub fn decide(&self, client: SocketAddr, server: SocketAddr, known: &FirstKnown) -> Decision {
        let entry = self.pairs.get(&self.pair(client, server));
        let (state, belief) = match entry {
            Some(entry) => (entry.state, entry.belief),
            None => first_sight(known),
        };
        let share = state.exploring_share(&belief);
        let explores = known.can_join && is_chosen(client, server, Purpose::Explore, share);
        let is_split = state.is_split != explores;
        let reason = if explores {
            Reason::Explore
        } else {
            state.reason
        };
        let way = match entry {
            _ if is_split => Way::Split,
            // A pair that is not worth splitting, and is not joined in time.
            Some(entry) if !explores && (!known.can_join || entry.fails_to_join()) => {
                if !known.can_leave_out {
                    if known.can_join {
                        Way::Join
                    } else {
                        return Decision {
                            way: Way::Split,
                            reason: Reason::CannotJoin,
                        };
                    }
                } else if entry.looks < LOOKS {
                    Way::Split
                } else {
                    Way::LeaveOut
                }
            }
            None if !known.can_join => Way::Split,
            _ => Way::Join,
        };
        Decision { way, reason }
    }

    /// Takes in how a connection went.
    pub fn learn(&mut self, outcome: &Outcome, now: Instant) {
        let entry = self.use_pair(self.pair(outcome.client, outcome.server), now);
        entry.learn(outcome, now);
    }

    /// Leaves a pair out for a while; after that, some connections are measured before it is left out again.
    pub fn left_out(&mut self, client: SocketAddr, server: SocketAddr, now: Instant) {
        let entry = self.use_pair(self.pair(client, server), now);
        entry.looks = 0;
        entry.can_leave_out = true;
    }

    /// Pairs that are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Pairs that had to leave.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// All pairs, the one that was used last first.
    #[must_use]
    pub fn view(&self, now: Instant) -> Vec<PairView> {
        let pairs = self.order.values().rev();
        pairs
            .filter_map(|pair| self.pairs.get(pair).map(|entry| view(*pair, entry, now)))
            .collect()
    }

    /// The entry of a pair, which is the one that was used last now.
    fn use_pair(&mut self, pair: Pair, now: Instant) -> &mut Entry {
        if !self.pairs.contains_key(&pair)
            && self.pairs.len() >= self.settings.pairs_max.max(1)
            && let Some((_, least)) = self.order.pop_first()
        {
            self.pairs.remove(&least);
            self.evicted += 1;
        }
        self.stamps += 1;
        let entry = self.pairs.entry(pair);
        let entry = entry.or_insert_with(|| Box::new(Entry::new(now)));
        self.order.remove(&entry.stamp);
        entry.stamp = self.stamps;
        self.order.insert(entry.stamp, pair);
        entry
    }
}

/// Adds up the gains of a class of sizes over tables.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClassTotal(Total);

impl ClassTotal {
    /// Takes in all pairs of a table.
    pub fn add(&mut self, table: &Table, class: SizeClass) {
        for entry in table.pairs.values() {
            if let Some(evidence) = entry.evidence.get(class as usize) {
                self.0.add(evidence);
            }
        }
    }

    /// GoS; `None` where too little was seen.
    #[must_use]
    pub fn gain(&self) -> Option<Gain> {
        self.0.gain()
    }
}

/// By the handshakes alone.
fn first_sight(known: &FirstKnown) -> (PairState, Belief) {
    let legs = known.rtt.map(LegState::of_handshake);
    let window = window(known.client_window_bytes);
    let belief = believe(&legs, window, &Sizes::default(), &Default::default());
    (PairState::first(&belief), belief)
}

fn window(bytes: u64) -> f64 {
    if bytes == 0 {
        INITIAL_WINDOW_BYTES
    } else {
        bytes as f64
    }
}

fn view(pair: Pair, entry: &Entry, now: Instant) -> PairView {
    let mut total = Total::default();
    for evidence in &entry.evidence {
        total.add(evidence);
    }
    let way = match entry.state.is_split {
        true => Way::Split,
        false if entry.can_leave_out && entry.fails_to_join() => Way::LeaveOut,
        false => Way::Join,
    };
    PairView {
        pair,
        legs: entry.legs,
        decision: Decision {
            way,
            reason: entry.state.reason,
        },
        believed: entry.belief.gain.exp_m1(),
        exploring: entry.state.exploring_share(&entry.belief),
        connections: entry.connections,
        joined: entry.joined,
        gain: total.gain(),
        idle: now.saturating_duration_since(entry.seen),
    }
}
