//! Models of requests, and LRU, to compare eviction with. Shared with the example `cache_hit_ratio`.
use carrick_logic::cache::{LifetimeFrom, Meta, UnixTime, Validator};
use carrick_test::Random;
use std::collections::{BTreeMap, HashMap};

/// Decisions for a response of the year 1970 that is fresh for a while.
pub const META: Meta = Meta {
    status: 200,
    response_time: UnixTime(0),
    initial_age_s: 0,
    lifetime_s: 100,
    lifetime_from: LifetimeFrom::MaxAge,
    date: UnixTime(0),
    last_modified: None,
    validator: Validator::None,
    always_validate: false,
    client_may_take_stale: true,
    stale_while_revalidate_s: 0,
    stale_if_error_s: 0,
    immutable: false,
    no_transform: false,
    part: None,
};

/// Ranks by Zipf's law.
#[derive(Debug)]
pub struct Zipf(Vec<f64>);

impl Zipf {
    /// The law for so many ranks.
    pub fn new(ranks: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = (1..=ranks)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        sums.iter_mut().for_each(|part| *part /= sum);
        Self(sums)
    }

    /// A rank, from 0.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        self.0.partition_point(|part| *part < unit) as u64
    }
}

/// What clients request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// By Zipf's law, exponent 0.9.
    Zipf,
    /// The same, and after each 20,000 requests as many for objects that are requested once, one after the other.
    Scans,
    /// The same as `Zipf`, and of four requests one is for an object that is requested once.
    OneHits,
    /// By Zipf's law, but after each 50,000 requests a twentieth of the popular objects are others.
    Shifting,
    /// By Zipf's law, and nine of ten requests come once more within the next thousand.
    Bursts,
}

impl Workload {
    /// All.
    pub const ALL: [Self; 5] = [
        Self::Zipf,
        Self::Scans,
        Self::OneHits,
        Self::Shifting,
        Self::Bursts,
    ];

    /// For tables and complaints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zipf => "Zipf",
            Self::Scans => "Zipf with scans",
            Self::OneHits => "Zipf with one-hit objects",
            Self::Shifting => "shifting popularity",
            Self::Bursts => "Zipf in bursts",
        }
    }

    /// The numbers of the requested objects, one after the other.
    pub fn requests(self, objects: usize, count: usize, seed: u64) -> Vec<u64> {
        const ONCE: u64 = 1 << 40;
        let zipf = Zipf::new(objects, 0.9);
        let mut random = Random::new(seed);
        let mut once = ONCE;
        let mut later: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        (0..count as u64)
            .map(|moment| {
                let is_once = match self {
                    Self::Scans => moment / 20_000 % 2 == 1,
                    Self::OneHits => random.next().is_multiple_of(4),
                    _ => false,
                };
                if is_once {
                    once += 1;
                    return once;
                }
                if let Some(first) = later.first_entry().filter(|first| *first.key() <= moment) {
                    let mut due = first.remove();
                    if let Some(object) = due.pop() {
                        if !due.is_empty() {
                            later.insert(moment, due);
                        }
                        return object;
                    }
                }
                let rank = zipf.draw(&mut random);
                match self {
                    Self::Shifting => {
                        // Each rank gets another object from time to time, not all at the same time.
                        let generation = (moment / 50_000 + rank % 20) / 20;
                        rank + generation * objects as u64
                    }
                    Self::Bursts => {
                        if !random.next().is_multiple_of(10) {
                            let then = moment + 1 + random.next() % 1000;
                            later.entry(then).or_default().push(rank);
                        }
                        rank
                    }
                    _ => rank,
                }
            })
            .collect()
    }
}

/// The bytes of an object: log-uniform from 200 B to 200 KB, by its number.
pub fn object_bytes(object: u64) -> u64 {
    let unit = Random::new(object).unit();
    (200.0 * 1000_f64.powf(unit)) as u64
}

/// A cache.
pub trait Cache {
    /// Whether the object is there. If not, it is stored.
    fn ask(&mut self, object: u64, bytes: u64) -> bool;
}

/// Hits of a hundred requests, and bytes that were hits of a hundred.
pub fn ratios(
    cache: &mut impl Cache,
    requests: &[u64],
    bytes_of: impl Fn(u64) -> u64,
) -> (f64, f64) {
    let (mut hits, mut hit_bytes, mut all_bytes) = (0_u64, 0_u64, 0_u64);
    for &object in requests {
        let bytes = bytes_of(object);
        all_bytes += bytes;
        if cache.ask(object, bytes) {
            hits += 1;
            hit_bytes += bytes;
        }
    }
    (
        100.0 * hits as f64 / requests.len() as f64,
        100.0 * hit_bytes as f64 / all_bytes as f64,
    )
}

/// Evicts the object that was requested the longest time ago.
#[derive(Debug)]
pub struct Lru {
    bytes_max: u64,
    overhead_bytes: u64,
    bytes: u64,
    moment: u64,
    objects: HashMap<u64, (u64, u64)>,
    order: BTreeMap<u64, u64>,
}

impl Lru {
    /// A cache of so many bytes. Each object takes `overhead_bytes` besides its own.
    pub fn new(bytes_max: u64, overhead_bytes: u64) -> Self {
        Self {
            bytes_max,
            overhead_bytes,
            bytes: 0,
            moment: 0,
            objects: HashMap::new(),
            order: BTreeMap::new(),
        }
    }
}

impl Cache for Lru {
    fn ask(&mut self, object: u64, bytes: u64) -> bool {
        self.moment += 1;
        let bytes = bytes + self.overhead_bytes;
        let before = self.objects.insert(object, (self.moment, bytes));
        self.order.insert(self.moment, object);
        if let Some((moment, _)) = before {
            self.order.remove(&moment);
            return true;
        }
        self.bytes += bytes;
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            self.bytes -= self.objects.remove(&oldest).map_or(0, |(_, bytes)| bytes);
        }
        false
    }
}
