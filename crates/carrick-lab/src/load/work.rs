//! The sequence of requests of a plan: which class, which object, whether the client gives up. It depends on the seed alone.

use crate::content::mix;
use crate::load::chance::{Chance, Weighted};
use crate::load::plan::{Arrival, Kind, LoadPlan};
use crate::origin::handshake::Handshake;
use crate::origin::quota::RequestsPerConnection;

/// Seeds of bodies are shown in URLs: so many bits are enough.
const SEED_BITS: u32 = 48;

/// One request (or page) to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Its class, by its place in the plan.
    pub class: usize,
    /// The body's seed.
    pub seed: u64,
    /// The body's length.
    pub body_bytes: u64,
    /// The client goes away after so many bytes of the body.
    pub abort_at: Option<u64>,
    /// Begins with these messages, and `CONNECT` before through a forward proxy.
    pub handshake: Option<Handshake>,
    /// On a connection of its own.
    pub is_alone: bool,
    /// The page that it is a part of, counted by its client.
    pub page: u64,
    /// Latency is counted from here, in nanoseconds of the run.
    pub begun_ns: u64,
}

/// Draws requests.
#[derive(Clone, Debug)]
pub struct Work {
    classes: Vec<ClassWork>,
    weights: Weighted,
    chance: Chance,
}

#[derive(Clone, Debug)]
struct ClassWork {
    kind: Kind,
    body_bytes: u64,
    abort_share: f64,
    is_alone: bool,
    /// Seeds of a cacheable class count from here.
    first_seed: u64,
    /// Bodies that a request consists of: more than one with pages.
    parts: u64,
}

impl Work {
    /// The work of one thread of a plan.
    #[must_use]
    pub fn new(plan: &LoadPlan, thread: u64) -> Self {
        let parts = match plan.arrival {
            Arrival::Pages { embedded, .. } => embedded as u64 + 1,
            _ => 1,
        };
        let classes = plan
            .classes
            .iter()
            .zip(1..)
            .map(|(class, number)| ClassWork {
                kind: class.kind,
                body_bytes: class.body_bytes,
                abort_share: class.abort_share,
                is_alone: class.http_1_0 || matches!(class.kind, Kind::Tls { .. }),
                first_seed: cut(mix(mix(plan.seed) ^ number)),
                parts,
            });
        Self {
            classes: classes.collect(),
            weights: Weighted::new(plan.classes.iter().map(|class| class.weight)),
            chance: Chance::new(plan.seed, thread << 8 | 1),
        }
    }

    /// The next request.
    pub fn draw(&mut self) -> Request {
        let number = self.weights.choose(&mut self.chance);
        let class = &self.classes[number];
        let chance = &mut self.chance;
        let mut handshake = None;
        let seed = match class.kind {
            Kind::NonCacheable => cut(chance.number()),
            Kind::Cacheable { objects } => class.object(chance.below(objects)),
            Kind::Tls { abbreviated_share } => {
                handshake = Some(if chance.happens(abbreviated_share) {
                    Handshake::Abbreviated
                } else {
                    Handshake::Full
                });
                cut(chance.number())
            }
        };
        // Behind the first byte and before the last one, where there is a middle.
        let abort_at = chance
            .happens(class.abort_share)
            .then(|| 1 + chance.below(class.body_bytes.saturating_sub(1)));
        Request {
            class: number,
            seed,
            body_bytes: class.body_bytes,
            abort_at,
            handshake,
            is_alone: class.is_alone,
            page: 0,
            begun_ns: 0,
        }
    }

    /// Every body of every cacheable class, to be asked for once beforehand.
    pub fn cacheable(&self) -> Vec<Request> {
        let mut all = Vec::new();
        for (number, class) in self.classes.iter().enumerate() {
            let Kind::Cacheable { objects } = class.kind else {
                continue;
            };
            for object in 0..objects {
                let whole = Request {
                    class: number,
                    seed: class.object(object),
                    body_bytes: class.body_bytes,
                    is_alone: class.is_alone,
                    ..Request::default()
                };
                all.extend((0..class.parts).map(|index| part(&whole, index, class.parts)));
            }
        }
        all
    }
}

impl ClassWork {
    /// The seed of an object, or of the first of its parts.
    fn object(&self, object: u64) -> u64 {
        self.first_seed.wrapping_add(object * self.parts)
    }
}

/// One of the `parts` bodies of a page, which share its length evenly; the first has what is left over. Where the client
/// gives up is in the part that has that byte of the page.
#[must_use]
pub fn part(page: &Request, index: u64, parts: u64) -> Request {
    let each = page.body_bytes / parts;
    let first = page.body_bytes - each * (parts - 1);
    let (from, body_bytes) = if index == 0 {
        (0, first)
    } else {
        (first + each * (index - 1), each)
    };
    Request {
        seed: page.seed.wrapping_add(index),
        body_bytes,
        abort_at: page
            .abort_at
            .and_then(|at| at.checked_sub(from))
            .filter(|at| *at < body_bytes || (index + 1 == parts && *at == body_bytes)),
        ..*page
    }
}

/// How many requests each connection carries.
#[derive(Clone, Debug)]
pub struct Lengths {
    rule: Rule,
    chance: Chance,
}

#[derive(Clone, Debug)]
enum Rule {
    Fixed(u32),
    Random(Weighted),
}

impl Lengths {
    /// The lengths of one thread's connections.
    #[must_use]
    pub fn new(plan: &LoadPlan, thread: u64) -> Self {
        let rule = match (plan.arrival, plan.requests_per_connection) {
            (Arrival::Pages { persistent, .. }, _) => {
                Rule::Fixed(if persistent { u32::MAX } else { 1 })
            }
            (_, RequestsPerConnection::Unlimited) => Rule::Fixed(u32::MAX),
            (_, RequestsPerConnection::Fixed(count)) => Rule::Fixed(count),
            (_, RequestsPerConnection::Zipf { alpha, max }) => {
                Rule::Random(Weighted::zipf(alpha, max))
            }
        };
        Self {
            rule,
            chance: Chance::new(plan.seed, thread << 8 | 2),
        }
    }

    /// Of the next connection: one at least.
    pub fn draw(&mut self) -> u32 {
        match &self.rule {
            Rule::Fixed(count) => *count,
            Rule::Random(weighted) => {
                u32::try_from(weighted.choose(&mut self.chance) + 1).unwrap_or(u32::MAX)
            }
        }
    }
}

fn cut(number: u64) -> u64 {
    number >> (64 - SEED_BITS)
}

#[cfg(test)]
pub(in crate::load) mod tests;
