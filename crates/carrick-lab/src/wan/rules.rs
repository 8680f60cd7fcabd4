//! Which rule a packet meets: the first that matches, found without trying all of them.
//!
//! In front is a cache of flows, as the papers' NISTNet has it (Rosu 2002, section 3.2). Behind it, rules of the same
//! shape (the same lengths of prefixes, the same kinds of ports) share a hash table, so that thousands of rules that
//! differ in an address or a port are one look-up (tuple space search). Only rules that have a range of ports, and are
//! alike in everything else, are tried one after the other.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::wan::cache::Cache;
use crate::wan::spec::{Rule, Subnet};

/// Flows of a generation of the cache: twice as many are remembered at most.
pub const FLOWS_MAX: usize = 32_768;

/// What packets of one flow have in common, as far as rules can see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address.
    pub from: IpAddr,
    /// Destination address.
    pub to: IpAddr,
    /// Ports of source and destination, if it is TCP or UDP and not a later fragment.
    pub ports: Option<[u16; 2]>,
}

/// The rule that a flow meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// Its place in the specification, from 0.
    pub rule: usize,
    /// Which path of the rule: 0, or for a rule `for_each_port` how far the port is from the first.
    pub path: usize,
}

/// The rules of a specification, ready to be asked.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Ports>,
    /// By the first rule that each has.
    shapes: Vec<(Shape, Group)>,
    cache: Cache<Flow, Option<Met>>,
    work: Work,
}

/// What finding rules took: counts, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Packets that were asked about.
    pub asked: u64,
    /// Packets for which the cache had no answer.
    pub missed: u64,
    /// Look-ups in tables, and rules tried one by one.
    pub comparisons: u64,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    from: Option<[u16; 2]>,
    to: Option<[u16; 2]>,
    for_each: bool,
}

/// What rules of one table have in common. Prefixes are lengths, with whether it is IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Shape {
    from: Option<(bool, u8)>,
    to: Option<(bool, u8)>,
    has_from_port: bool,
    has_to_port: bool,
}

type Masked = (Option<IpAddr>, Option<IpAddr>, Option<u16>, Option<u16>);

#[derive(Debug, Default)]
struct Group {
    first_rule: usize,
    rules: HashMap<Masked, Vec<usize>>,
}

impl Rules {
    /// Prepares the rules of a specification that was checked.
    #[must_use]
    pub fn new(rules: &[Rule]) -> Self {
        let mut groups: HashMap<Shape, Group> = HashMap::new();
        for (index, rule) in rules.iter().enumerate() {
            let single = |ports: Option<[u16; 2]>| match ports {
                Some([first, last]) if first == last => Some(first),
                _ => None,
            };
            let (from_port, to_port) = (single(rule.from_ports), single(rule.to_ports));
            let prefix = |subnet: Subnet| (subnet.address.is_ipv4(), subnet.bits);
            let shape = Shape {
                from: rule.from.map(prefix),
                to: rule.to.map(prefix),
                has_from_port: from_port.is_some(),
                has_to_port: to_port.is_some(),
            };
            let key = (
                rule.from.map(|subnet| subnet.address),
                rule.to.map(|subnet| subnet.address),
                from_port,
                to_port,
            );
            let group = groups.entry(shape).or_insert_with(|| Group {
                first_rule: index,
                rules: HashMap::new(),
            });
            group.rules.entry(key).or_default().push(index);
        }
        let mut shapes: Vec<_> = groups.into_iter().collect();
        shapes.sort_by_key(|(_, group)| group.first_rule);
        Self {
            rules: rules
                .iter()
                .map(|rule| Ports {
                    from: rule.from_ports,
                    to: rule.to_ports,
                    for_each: rule.for_each_port,
                })
                .collect(),
            shapes,
            cache: Cache::new(FLOWS_MAX),
            work: Work::default(),
        }
    }

    /// The first rule that matches; `None`: no rule does.
    #[inline]
    pub fn meet(&mut self, flow: &Flow) -> Option<Met> {
        self.work.asked += 1;
        if let Some(known) = self.cache.get(flow) {
            return known;
        }
        self.work.missed += 1;
        let met = self.find(flow);
        self.cache.insert(*flow, met);
        met
    }

    /// What it took until now.
    #[must_use]
    pub fn work(&self) -> Work {
        self.work
    }

    fn find(&mut self, flow: &Flow) -> Option<Met> {
        let mut best: Option<usize> = None;
        for (shape, group) in &self.shapes {
            if best.is_some_and(|best| best < group.first_rule) {
                break;
            }
            self.work.comparisons += 1;
            let Some(candidates) = mask(shape, flow).and_then(|key| group.rules.get(&key)) else {
                continue;
            };
            for candidate in candidates {
                if best.is_some_and(|best| best < *candidate) {
                    break;
                }
                self.work.comparisons += 1;
                if self
                    .rules
                    .get(*candidate)
                    .is_some_and(|ports| ports.admit(flow))
                {
                    best = Some(*candidate);
                    break;
                }
            }
        }
        let rule = best?;
        let path = self.rules.get(rule)?.path_of(flow);
        Some(Met { rule, path })
    }
}

impl Ports {
    fn admit(&self, flow: &Flow) -> bool {
        let is_in = |range: Option<[u16; 2]>, end: usize| match range {
            None => true,
            Some([first, last]) => flow
                .ports
                .is_some_and(|ports| (first..=last).contains(&ports[end])),
        };
        is_in(self.from, 0) && is_in(self.to, 1)
    }

    fn path_of(&self, flow: &Flow) -> usize {
        let Some([from, to]) = flow.ports.filter(|_| self.for_each) else {
            return 0;
        };
        let (range, port) = match (self.from, self.to) {
            (Some(range), _) => (range, from),
            (None, Some(range)) => (range, to),
            (None, None) => return 0,
        };
        usize::from(port.saturating_sub(range[0]))
    }
}

/// How many paths a rule has.
#[must_use]
pub fn paths_of(rule: &Rule) -> usize {
    match (rule.for_each_port, rule.from_ports.or(rule.to_ports)) {
        (true, Some([first, last])) => usize::from(last.saturating_sub(first)) + 1,
        _ => 1,
    }
}

/// What is left of a flow when only the bits of a shape are looked at; `None`: it cannot match.
fn mask(shape: &Shape, flow: &Flow) -> Option<Masked> {
    let port = |is_asked: bool, end: usize| match (is_asked, flow.ports) {
        (false, _) => Some(None),
        (true, Some(ports)) => Some(Some(ports[end])),
        (true, None) => None,
    };
    let prefix = |wanted: Option<(bool, u8)>, address: IpAddr| match wanted {
        None => Some(None),
        Some((is_ipv4, bits)) => mask_address(address, is_ipv4, bits).map(Some),
    };
    Some((
        prefix(shape.from, flow.from)?,
        prefix(shape.to, flow.to)?,
        port(shape.has_from_port, 0)?,
        port(shape.has_to_port, 1)?,
    ))
}

fn mask_address(address: IpAddr, is_ipv4: bool, bits: u8) -> Option<IpAddr> {
    match (address, is_ipv4) {
        (IpAddr::V4(address), true) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            Some(Ipv4Addr::from_bits(address.to_bits() & mask).into())
        }
        (IpAddr::V6(address), false) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            Some(Ipv6Addr::from_bits(address.to_bits() & mask).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
