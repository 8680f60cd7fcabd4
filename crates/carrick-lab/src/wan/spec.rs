//! What the emulator is asked to do, as experiments and `carrick-lab wan` have it in TOML.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A whole emulated network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WanSpec {
    /// For all random choices: the same seed and the same packets give the same losses.
    #[serde(default)]
    pub seed: u64,
    /// The first rule that matches a packet decides; a packet that none matches passes at once.
    #[serde(default, rename = "rule")]
    pub rules: Vec<Rule>,
}

/// Which packets, and what happens to them. A packet has to match everything that is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Subnet of the source address, as `10.0.1.0/24` or `2001:db8::/64`.
    #[serde(default)]
    pub from: Option<Subnet>,
    /// Subnet of the destination address.
    #[serde(default)]
    pub to: Option<Subnet>,
    /// TCP or UDP ports of the source, first and last.
    #[serde(default)]
    pub from_ports: Option<[u16; 2]>,
    /// TCP or UDP ports of the destination, first and last.
    #[serde(default)]
    pub to_ports: Option<[u16; 2]>,
    /// As if there were one rule for each port of the range given (of `from_ports` if there is one, else of `to_ports`):
    /// each has a rate limit, a queue and a state of loss of its own. So are thousands of modems made.
    #[serde(default)]
    pub for_each_port: bool,
    /// What happens.
    #[serde(flatten)]
    pub path: Path,
}

/// What happens to packets on their way in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Delay, in milliseconds.
    #[serde(default)]
    pub delay_ms: f64,
    /// The delay varies evenly by up to so many milliseconds both ways, without changing the order.
    #[serde(default)]
    pub jitter_ms: f64,
    /// Rate limit, in kbit/s of IP packets; none: no limit.
    #[serde(default)]
    pub rate_kbit: Option<f64>,
    /// Packets that may wait for the rate limit; more are dropped at the tail. None: 1,000.
    #[serde(default)]
    pub queue_packets: Option<usize>,
    /// Probability that a packet is lost if the one before it was not (0 to 1).
    #[serde(default)]
    pub loss: f64,
    /// Probability that a packet is lost if the one before it was lost; none: as `loss`.
    #[serde(default)]
    pub loss_after_loss: Option<f64>,
    /// Probability that a packet overtakes those that are delayed: it is sent without delay.
    #[serde(default)]
    pub reorder: f64,
    /// Probability that a packet is sent twice.
    #[serde(default)]
    pub duplicate: f64,
    /// Of the pure ACKs of a TCP flow one in so many passes; none: all.
    #[serde(default)]
    pub ack_filter: Option<u32>,
    /// How long the filter keeps the newest ACK while none follows, in milliseconds. None: 20.
    #[serde(default)]
    pub ack_hold_ms: Option<f64>,
}

/// A subnet, written `ADDRESS/BITS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subnet {
    /// Its address; bits behind the prefix are zero.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub bits: u8,
}

impl Subnet {
    /// Whether an address is inside. IPv4 and IPv6 never match each other.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(subnet), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                subnet.to_bits() == address.to_bits() & mask
            }
            (IpAddr::V6(subnet), IpAddr::V6(address)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.bits))
                    .unwrap_or(0);
                subnet.to_bits() == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl TryFrom<String> for Subnet {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a subnet such as 10.0.1.0/24 or 2001:db8::/64");
        let (address, bits) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits: u8 = bits.parse().map_err(|_| wrong())?;
        if u32::from(bits) > if address.is_ipv4() { 32 } else { 128 } {
            return Err(wrong());
        }
        let subnet = Self { address, bits };
        if subnet.contains(address) {
            Ok(subnet)
        } else {
            Err(format!("`{text}` has address bits behind its prefix"))
        }
    }
}

impl From<Subnet> for String {
    fn from(subnet: Subnet) -> Self {
        format!("{}/{}", subnet.address, subnet.bits)
    }
}

/// What the emulator did, for each rule in the order of the specification (a rule `for_each_port` is one).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WanCounts {
    /// Per rule.
    pub rules: Vec<RuleCounts>,
    /// Packets that no rule matched.
    pub unmatched: u64,
    /// Packets that the kernel dropped before the emulator could read them or after it sent them, or that it had no room
    /// to keep: the figures are then not to be trusted.
    pub overruns: u64,
    /// Packets that could not be sent on: no route, no answer from the neighbour, hop limit used up, too large for the
    /// next device.
    #[serde(default)]
    pub refused: u64,
    /// Packets that segmentation offload had joined, and that were lost, reordered or doubled (or not) as one: where this
    /// is not 0, turn the offloads of the senders' devices off.
    #[serde(default)]
    pub joined: u64,
}

/// Packets by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCounts {
    /// Matched.
    pub packets: u64,
    /// Bytes of those, IP headers included.
    pub bytes: u64,
    /// Lost in the first state: the packet before was not lost.
    pub lost_first: u64,
    /// Lost in the second state: the packet before was lost, too.
    pub lost_next: u64,
    /// Dropped at the tail of a full queue.
    pub dropped: u64,
    /// Sent out of order.
    pub reordered: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// ACKs that the filter dropped.
    #[serde(default)]
    pub filtered: u64,
}
