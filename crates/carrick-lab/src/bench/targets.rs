//! What carrick has to reach against each peer's best mode, and whether it did.

use crate::bench::memory::MemoryKind;
use crate::bench::results::{Figure, Results};
use crate::peers::{Family, JUDGED, PEERS};

/// A factor against the better of some programs.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    factor: f64,
    against: &'static [Family],
}

/// The bounds for one work.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The work's name.
    pub work: &'static str,
    rate: &'static [Bound],
    cpu: &'static [Bound],
}

const BOTH: &[Family] = &[Family::Haproxy, Family::Nginx];
const HAPROXY: &[Family] = &[Family::Haproxy];
const NGINX: &[Family] = &[Family::Nginx];
const SQUID: &[Family] = &[Family::Squid];

const fn bound(factor: f64, against: &'static [Family]) -> Bound {
    Bound { factor, against }
}

/// All of them, in the order of reports.
pub const TARGETS: [Target; 10] = [
    Target {
        work: "switch-1k",
        rate: &[bound(1.05, BOTH)],
        cpu: &[bound(0.9, BOTH)],
    },
    Target {
        work: "switch-64k",
        rate: &[bound(1.0, BOTH)],
        cpu: &[bound(0.9, BOTH)],
    },
    Target {
        work: "switch-1m",
        rate: &[bound(1.0, HAPROXY), bound(1.9, NGINX)],
        cpu: &[bound(0.9, HAPROXY)],
    },
    Target {
        work: "switch-close-1k",
        rate: &[bound(1.0, BOTH)],
        cpu: &[bound(1.0, BOTH)],
    },
    Target {
        work: "tunnel-1k",
        rate: &[bound(1.05, HAPROXY)],
        cpu: &[bound(0.8, HAPROXY)],
    },
    Target {
        work: "tunnel-64k",
        rate: &[bound(1.0, HAPROXY)],
        cpu: &[bound(0.9, HAPROXY)],
    },
    Target {
        work: "tunnel-1m",
        rate: &[bound(1.1, HAPROXY)],
        cpu: &[bound(0.85, HAPROXY)],
    },
    Target {
        work: "forward-1k",
        rate: &[bound(3.5, SQUID)],
        cpu: &[],
    },
    Target {
        work: "forward-64k",
        rate: &[bound(5.0, SQUID)],
        cpu: &[],
    },
    Target {
        work: "forward-1m",
        rate: &[bound(8.0, SQUID)],
        cpu: &[],
    },
];

/// Most bytes of process memory per idle connection.
#[must_use]
pub fn memory_bytes_max(kind: MemoryKind) -> f64 {
    match kind {
        MemoryKind::SwitchKeepAlive | MemoryKind::ForwardKeepAlive => 8.0 * 1024.0,
        MemoryKind::Tunnel => 16.0 * 1024.0,
    }
}

/// One bound, applied.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The work's name.
    pub work: &'static str,
    /// Which figure.
    pub figure: Figure,
    /// The factor asked for: at least for rates, at most for CPU.
    pub factor: f64,
    /// The peer's row that was the best.
    pub best_peer: &'static str,
    /// carrick's median divided by the best peer's.
    pub ratio: f64,
    /// Whether it was reached.
    pub met: bool,
}

/// The best row among some programs: the highest rate, the lowest CPU.
#[must_use]
pub fn best_of(
    results: &Results,
    work: &str,
    figure: Figure,
    families: &[Family],
) -> Option<(&'static str, f64)> {
    let candidates = PEERS
        .iter()
        .filter(|peer| families.contains(&peer.family))
        .filter_map(|peer| {
            let median = results.cell(work, peer.name, figure).median()?;
            Some((peer.name, median))
        });
    match figure {
        Figure::Rate => candidates.max_by(|left, right| left.1.total_cmp(&right.1)),
        Figure::Cpu => candidates.min_by(|left, right| left.1.total_cmp(&right.1)),
    }
}

/// Judges every bound whose two sides were measured.
#[must_use]
pub fn judge(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for target in TARGETS {
        for (figure, bounds) in [(Figure::Rate, target.rate), (Figure::Cpu, target.cpu)] {
            let Some(own) = results.cell(target.work, JUDGED, figure).median() else {
                continue;
            };
            for bound in bounds {
                let Some((best_peer, best)) = best_of(results, target.work, figure, bound.against)
                else {
                    continue;
                };
                let ratio = own / best;
                let met = match figure {
                    Figure::Rate => ratio >= bound.factor,
                    Figure::Cpu => ratio <= bound.factor,
                };
                verdicts.push(Verdict {
                    work: target.work,
                    figure,
                    factor: bound.factor,
                    best_peer,
                    ratio,
                    met,
                });
            }
        }
    }
    verdicts
}

#[cfg(test)]
pub(crate) mod tests;
