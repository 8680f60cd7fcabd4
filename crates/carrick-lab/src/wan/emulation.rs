//! A whole emulated network: which rule a packet meets, what happens to it there, and the counts.

use crate::wan::ack_filter::FilterSettings;
use crate::wan::model::{Fate, PathState, Settings, nanoseconds};
use crate::wan::rules::{Flow, Rules, Work, paths_of};
use crate::wan::spec::{Path, RuleCounts, WanCounts, WanSpec};

/// Rules, the state of each path, and what was done. It has no clock: times are nanoseconds since whenever.
#[derive(Debug)]
pub struct Emulation {
    seed: u64,
    rules: Rules,
    paths: Vec<RulePaths>,
    has_filters: bool,
    counts: WanCounts,
}

#[derive(Debug)]
struct RulePaths {
    settings: Settings,
    filter: Option<FilterSettings>,
    /// Made when the first packet comes: of thousands of ports, few may be used.
    states: Vec<Option<Box<PathState>>>,
}

impl Emulation {
    /// Prepares a specification that was checked.
    #[must_use]
    pub fn new(spec: &WanSpec) -> Self {
        Self {
            seed: spec.seed,
            rules: Rules::new(&spec.rules),
            paths: spec
                .rules
                .iter()
                .map(|rule| RulePaths {
                    settings: Settings::from(&rule.path),
                    filter: filter_of(&rule.path),
                    states: vec![None; paths_of(rule)],
                })
                .collect(),
            has_filters: spec
                .rules
                .iter()
                .any(|rule| filter_of(&rule.path).is_some()),
            counts: WanCounts {
                rules: vec![RuleCounts::default(); spec.rules.len()],
                ..WanCounts::default()
            },
        }
    }

    /// Decides about a packet that came at `now_ns`, which never goes back. `bytes` counts from its IP header.
    /// `is_joined`: it is several packets that segmentation offload keeps in one.
    pub fn pass(&mut self, flow: &Flow, now_ns: u64, bytes: usize, is_joined: bool) -> Fate {
        let at_once = Fate::Sent {
            at_ns: now_ns,
            twice: false,
            overtakes: false,
        };
        let met = self.rules.meet(flow);
        let Some((met, paths, counts)) = met.and_then(|met| {
            Some((
                met,
                self.paths.get_mut(met.rule)?,
                self.counts.rules.get_mut(met.rule)?,
            ))
        }) else {
            self.counts.unmatched += 1;
            return at_once;
        };
        counts.packets += 1;
        counts.bytes += bytes as u64;
        if paths.settings.is_transparent() {
            return at_once;
        }
        if is_joined && paths.settings.is_per_packet() {
            self.counts.joined += 1;
        }
        let seed = seed_of(self.seed, met.rule, met.path);
        let Some(slot) = paths.states.get_mut(met.path) else {
            return at_once;
        };
        let state = slot.get_or_insert_with(|| Box::new(PathState::new(seed)));
        let fate = state.decide(&paths.settings, now_ns, bytes);
        match fate {
            Fate::Lost { after_loss: false } => counts.lost_first += 1,
            Fate::Lost { after_loss: true } => counts.lost_next += 1,
            Fate::Dropped => counts.dropped += 1,
            Fate::Sent {
                twice, overtakes, ..
            } => {
                counts.duplicated += u64::from(twice);
                counts.reordered += u64::from(overtakes);
            }
        }
        fate
    }

    /// The rule whose ACK filter packets of a flow meet, and what it does; `None`: there is none.
    pub fn filter(&mut self, flow: &Flow) -> Option<(usize, FilterSettings)> {
        if !self.has_filters {
            return None;
        }
        let rule = self.rules.meet(flow)?.rule;
        Some((rule, self.paths.get(rule)?.filter?))
    }

    /// Counts what the filter of a rule has dropped: packets that met it.
    pub fn count_filtered(&mut self, rule: usize, packets: u64, bytes: u64) {
        if let Some(counts) = self.counts.rules.get_mut(rule) {
            counts.packets += packets;
            counts.bytes += bytes;
            counts.filtered += packets;
        }
    }

    /// What was done until now.
    #[must_use]
    pub fn counts(&self) -> &WanCounts {
        &self.counts
    }

    /// To count what happens outside: packets that the kernel dropped, or that could not be sent.
    pub fn counts_mut(&mut self) -> &mut WanCounts {
        &mut self.counts
    }

    /// What finding rules took.
    #[must_use]
    pub fn work(&self) -> Work {
        self.rules.work()
    }
}

/// What a filter keeps the newest ACK for, unless the specification says otherwise: longer than between the ACKs of a
/// flight, and little beside the round trip of a line that is worth a filter.
pub const ACK_HOLD_MS_DEFAULT: f64 = 20.0;

fn filter_of(path: &Path) -> Option<FilterSettings> {
    Some(FilterSettings {
        one_in: path.ack_filter?,
        hold_ns: nanoseconds(path.ack_hold_ms.unwrap_or(ACK_HOLD_MS_DEFAULT)),
    })
}

/// Each path has a seed of its own (splitmix64: neighbouring inputs give unrelated seeds).
fn seed_of(seed: u64, rule: usize, path: usize) -> u64 {
    let mix = |mut word: u64| {
        word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    };
    mix(mix(mix(seed) ^ rule as u64) ^ path as u64)
}

#[cfg(test)]
mod tests;
