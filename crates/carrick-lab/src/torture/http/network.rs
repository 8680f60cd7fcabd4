//! The network of a run: what each leg does to packets, and which options TCP has, all drawn from the seed.

use std::fmt;

use crate::load::chance::Chance;
use crate::testbed::plan::TcpOptions;
use crate::wan::spec::{Path, Rule, Subnet, WanSpec};

/// Most loss of a leg.
const LOSS_MAX: f64 = 0.05;
/// Most packets of a leg that overtake others, and that come twice.
const REORDER_MAX: f64 = 0.05;
const DUPLICATE_MAX: f64 = 0.03;
/// Where nothing is lost or delayed, a connection is taken to be as fast as this, in bytes a second.
const RATE_MAX: f64 = 40e6;
/// What a round trip takes at least with the emulator between, in milliseconds.
const RTT_MS_MIN: f64 = 0.5;
/// A segment, in bytes.
const SEGMENT_BYTES: f64 = 1448.0;

/// What the packets pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Wire {
    /// Links without a router, whose ends hand over up to 64 KB as one packet.
    Direct,
    /// A router that does no harm; each packet by itself.
    Routed,
    /// The emulator.
    Emulated(Box<Legs>),
}

/// What the emulator does.
#[derive(Clone, Debug, PartialEq)]
pub struct Legs {
    /// Between clients and carrick.
    pub client: Leg,
    /// Between carrick and the origin.
    pub origin: Leg,
    /// For what is left to chance there.
    pub seed: u64,
}

/// What a leg does to packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leg {
    /// Away from carrick.
    pub away: Path,
    /// Towards carrick.
    pub towards: Path,
}

/// The network of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// What the packets pass.
    pub wire: Wire,
    /// TCP of all sides alike.
    pub tcp: TcpOptions,
    /// Whether each client comes from a network of its own: a leg that loses much is then found out for each by itself.
    pub has_many_networks: bool,
}

impl Network {
    /// What the seed of this stream decides.
    pub fn draw(chance: &mut Chance) -> Self {
        let wire = if chance.happens(0.12) {
            Wire::Direct
        } else if chance.happens(0.08) {
            Wire::Routed
        } else {
            let (on_client, on_origin) = match chance.below(10) {
                0..=3 => (true, true),
                4..=6 => (true, false),
                7..=8 => (false, true),
                _ => (false, false),
            };
            Wire::Emulated(Box::new(Legs {
                client: Leg::draw(chance, on_client),
                origin: Leg::draw(chance, on_origin),
                seed: chance.number(),
            }))
        };
        let tcp = TcpOptions {
            sack: !chance.happens(0.08),
            timestamps: !chance.happens(0.08),
            window_scaling: !chance.happens(0.05),
            ..TcpOptions::default()
        };
        Self {
            wire,
            tcp,
            has_many_networks: chance.happens(0.7),
        }
    }

    /// Whether packets get lost, overtake each other or come twice.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        match &self.wire {
            Wire::Direct | Wire::Routed => false,
            Wire::Emulated(legs) => legs.client.is_bad() || legs.origin.is_bad(),
        }
    }

    /// Whether what clients send may be lost before carrick has it.
    #[must_use]
    pub fn loses_of_clients(&self) -> bool {
        matches!(&self.wire, Wire::Emulated(legs) if legs.client.towards.loss > 0.0)
    }

    /// Whether a reset may be lost on its way from the origin to a client.
    #[must_use]
    pub fn loses_of_origins(&self) -> bool {
        matches!(
            &self.wire,
            Wire::Emulated(legs) if legs.client.away.loss + legs.origin.towards.loss > 0.0
        )
    }

    /// What one connection may carry in a second, by a rule of thumb (Mathis and others 1997).
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        let Wire::Emulated(legs) = &self.wire else {
            return RATE_MAX;
        };
        let Legs { client, origin, .. } = legs.as_ref();
        let rtt_ms = (client.rtt_ms() + origin.rtt_ms()).max(RTT_MS_MIN);
        let loss = client.loss() + origin.loss();
        if loss == 0.0 {
            return RATE_MAX.min(64e3 / rtt_ms * 1e3);
        }
        let rate = SEGMENT_BYTES / (rtt_ms / 1e3) / loss.sqrt();
        // Where much is lost, time-outs take most of the time.
        rate.min(RATE_MAX) / (1.0 + 60.0 * loss)
    }

    /// What the emulator is to do; none: it is not there.
    #[must_use]
    pub fn emulation(&self, clients: Subnet, origins: Subnet) -> Option<WanSpec> {
        let Wire::Emulated(legs) = &self.wire else {
            return None;
        };
        let Legs {
            client,
            origin,
            seed,
        } = legs.as_ref();
        let rule = |from, to, path: &Path| Rule {
            from,
            to,
            path: path.clone(),
            ..Rule::default()
        };
        Some(WanSpec {
            seed: *seed,
            rules: vec![
                rule(None, Some(clients), &client.away),
                rule(Some(clients), None, &client.towards),
                rule(None, Some(origins), &origin.away),
                rule(Some(origins), None, &origin.towards),
            ],
        })
    }
}

impl Leg {
    fn draw(chance: &mut Chance, is_bad: bool) -> Self {
        let delay_ms = match chance.below(4) {
            0 => 0.0,
            1 | 2 => 0.1 + 2.0 * chance.share(),
            _ => 3.0 + 12.0 * chance.share(),
        };
        let mut path = Path {
            delay_ms,
            jitter_ms: delay_ms * 0.5 * chance.share(),
            ..Path::default()
        };
        if is_bad {
            // Half of them lose little: there TCP has more of a stream that runs.
            let most = if chance.happens(0.5) {
                LOSS_MAX
            } else {
                LOSS_MAX / 5.0
            };
            path.loss = most * chance.share();
            path.loss_after_loss = chance.happens(0.3).then(|| 0.1 + 0.3 * chance.share());
            path.reorder = REORDER_MAX * chance.share();
            path.duplicate = DUPLICATE_MAX * chance.share();
        }
        let harmless = Path {
            delay_ms,
            ..Path::default()
        };
        match chance.below(4) {
            0 => Self {
                away: path,
                towards: harmless,
            },
            1 => Self {
                away: harmless,
                towards: path,
            },
            _ => Self {
                away: path.clone(),
                towards: path,
            },
        }
    }

    fn is_bad(&self) -> bool {
        [&self.away, &self.towards]
            .into_iter()
            .any(|path| path.loss > 0.0 || path.reorder > 0.0 || path.duplicate > 0.0)
    }

    fn rtt_ms(&self) -> f64 {
        self.away.delay_ms + self.towards.delay_ms
    }

    fn loss(&self) -> f64 {
        let average = |path: &Path| {
            let next = path.loss_after_loss.unwrap_or(path.loss);
            path.loss / (1.0 - next + path.loss)
        };
        average(&self.away) + average(&self.towards)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.wire {
            Wire::Direct => write!(formatter, "direct")?,
            Wire::Routed => write!(formatter, "routed")?,
            Wire::Emulated(legs) => {
                let Legs { client, origin, .. } = legs.as_ref();
                write!(formatter, "client leg {client}, origin leg {origin}")?;
            }
        }
        for (is_on, name) in [
            (self.tcp.sack, "SACK"),
            (self.tcp.timestamps, "timestamps"),
            (self.tcp.window_scaling, "window scaling"),
        ] {
            if !is_on {
                write!(formatter, ", no {name}")?;
            }
        }
        let networks = if self.has_many_networks {
            "many"
        } else {
            "one"
        };
        write!(formatter, ", {networks} client network(s)")
    }
}

/// As `1.2 ms away 3.1/2.0/1.1 %`: lost, overtaking, doubled.
impl fmt::Display for Leg {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.1} ms", self.away.delay_ms)?;
        for (name, path) in [("away", &self.away), ("towards", &self.towards)] {
            if path.loss > 0.0 {
                write!(
                    formatter,
                    " {name} {:.1}/{:.1}/{:.1} %",
                    100.0 * path.loss,
                    100.0 * path.reorder,
                    100.0 * path.duplicate
                )?;
            }
        }
        Ok(())
    }
}
