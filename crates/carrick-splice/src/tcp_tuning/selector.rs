//! Selects a leg's profile: the first matching rule applies.

use ipnet::IpNet;
use std::net::IpAddr;
use std::time::Duration;

/// Which of a relay's two connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProfileSide {
    /// The client's leg.
    Client,
    /// The upstream's leg.
    Server,
}

/// The conditions of a rule, all of which must hold. A condition on an unknown property does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// The leg's side.
    pub side: Option<ProfileSide>,
    /// The name of the interface by which packets to the peer leave.
    pub interface: Option<String>,
    /// The network of the peer's address. A mapped IPv4 address counts as IPv4.
    pub peer: Option<IpNet>,
    /// The least round-trip time, as the handshake measured it.
    pub rtt_at_least: Option<Duration>,
    /// The round-trip time must be below this.
    pub rtt_below: Option<Duration>,
}

/// A profile, and when a leg gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule<P> {
    /// When.
    pub when: Conditions,
    /// The profile, or what stands for it.
    pub profile: P,
}

/// What is known of a leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegFacts {
    /// Its side.
    pub side: ProfileSide,
    /// Its peer's address.
    pub peer: IpAddr,
    /// The interface by which packets to the peer leave; `None`: unknown, or not needed.
    pub interface: Option<String>,
    /// The round-trip time; `None`: not measured, or not needed.
    pub rtt: Option<Duration>,
}

/// What rules need to know of a leg besides its side and peer, which cost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NeededFacts {
    /// The interface: a routing look-up in the kernel.
    pub interface: bool,
    /// The round-trip time: one `getsockopt`.
    pub rtt: bool,
}

/// Rules in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector<P> {
    rules: Vec<Rule<P>>,
}

impl<P> Selector<P> {
    /// Of these rules.
    #[must_use]
    pub fn new(rules: Vec<Rule<P>>) -> Selector<P> {
        Selector { rules }
    }

    /// The profile of the first matching rule.
    #[must_use]
    pub fn choose(&self, facts: &LegFacts) -> Option<&P> {
        let met = self.rules.iter().find(|rule| rule.when.are_met(facts));
        met.map(|rule| &rule.profile)
    }

    /// What must be known of a leg of this side and peer: what rules need that can still match.
    #[must_use]
    pub fn wants(&self, side: ProfileSide, peer: IpAddr) -> NeededFacts {
        let mut wanted = NeededFacts::default();
        let possible = self.rules.iter().map(|rule| &rule.when);
        for when in possible.filter(|when| when.side_and_peer_are_met(side, peer)) {
            wanted.interface |= when.interface.is_some();
            wanted.rtt |= when.needs_rtt();
            if when.interface.is_none() && !when.needs_rtt() {
                // It matches in any case: later rules are never reached.
                break;
            }
        }
        wanted
    }
}

impl Conditions {
    fn are_met(&self, facts: &LegFacts) -> bool {
        self.side_and_peer_are_met(facts.side, facts.peer)
            && (self.interface.is_none() || self.interface == facts.interface)
            && self
                .rtt_at_least
                .is_none_or(|least| facts.rtt.is_some_and(|rtt| rtt >= least))
            && self
                .rtt_below
                .is_none_or(|limit| facts.rtt.is_some_and(|rtt| rtt < limit))
    }

    fn side_and_peer_are_met(&self, side: ProfileSide, peer: IpAddr) -> bool {
        self.side.is_none_or(|wanted| wanted == side)
            && self
                .peer
                .is_none_or(|network| network.contains(&peer.to_canonical()))
    }

    fn needs_rtt(&self) -> bool {
        self.rtt_at_least.is_some() || self.rtt_below.is_some()
    }
}

#[cfg(test)]
mod tests;
