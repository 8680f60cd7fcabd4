//! Happy eyeballs (RFC 8305): in which order, and how far apart, the addresses of a name are tried.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long an attempt is waited for before the next starts beside it (RFC 8305 section 8: 250 ms recommended).
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Most addresses that are tried for one connection.
pub const ATTEMPTS_MAX: usize = 6;

/// Orders resolved addresses: the families alternate, IPv6 first, each family in its given order, doubles removed, at most [`ATTEMPTS_MAX`].
///
/// IPv4-mapped IPv6 addresses count as the IPv4 addresses that they are.
#[must_use]
pub fn order(addresses: &[IpAddr]) -> Vec<IpAddr> {
    // RFC 8305 section 4, with a First Address Family Count of 1.
    let mut families = [Family::default(), Family::default()];
    for address in addresses.iter().map(IpAddr::to_canonical) {
        families[usize::from(address.is_ipv4())].add(address);
    }
    let [v6, v4] = families.map(|family| family.0);
    let longest = v6.len().max(v4.len());
    let alternating = (0..longest).flat_map(|place| [v6.get(place), v4.get(place)]);
    alternating.flatten().take(ATTEMPTS_MAX).copied().collect()
}

/// Addresses of one family, each once, no more than could be tried.
#[derive(Default)]
struct Family(Vec<IpAddr>);

impl Family {
    fn add(&mut self, address: IpAddr) {
        if self.0.len() < ATTEMPTS_MAX && !self.0.contains(&address) {
            self.0.push(address);
        }
    }
}

/// The next step of a [`Race`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Start to connect to this address now, beside the attempts that are under way; then ask again.
    Start(IpAddr),
    /// Wait for an attempt's end, but ask again at this time.
    WaitUntil(Instant),
    /// All addresses were started; wait for an attempt's end.
    Wait,
    /// Every attempt has failed (or there was no address): there will be no connection.
    AllFailed,
}

/// The attempts to connect to one name, in time (RFC 8305 section 5). Whoever drives it starts what
/// [`next_attempt`](Self::next_attempt) says, reports each failure, and, once an attempt has succeeded, drops the race and
/// the other attempts. A limit on the whole is the driver's.
#[derive(Debug, Clone)]
pub struct Race {
    addresses: Vec<IpAddr>,
    /// How many of `addresses`, from the first, were started.
    started: usize,
    /// Whether each started one has failed, in the order of `addresses`.
    has_failed: [bool; ATTEMPTS_MAX],
    /// When the next may start although the others are still under way.
    next_at: Option<Instant>,
}

impl Race {
    /// A race between `addresses`, [ordered](order) here.
    #[must_use]
    pub fn new(addresses: &[IpAddr]) -> Self {
        Self {
            addresses: order(addresses),
            started: 0,
            has_failed: [false; ATTEMPTS_MAX],
            next_at: None,
        }
    }

    /// What to do now. The first attempt starts at once, the next when [`ATTEMPT_DELAY`] has passed or one has failed.
    pub fn next_attempt(&mut self, now: Instant) -> Next {
        match (self.addresses.get(self.started), self.next_at) {
            (None, _) if self.under_way() == 0 => Next::AllFailed,
            (None, _) => Next::Wait,
            (Some(_), Some(next_at)) if now < next_at => Next::WaitUntil(next_at),
            (Some(&address), _) => {
                self.started += 1;
                self.next_at = Some(now + ATTEMPT_DELAY);
                Next::Start(address)
            }
        }
    }

    /// An attempt has failed: the next may start at once. Reports on what is not under way are ignored.
    pub fn failed(&mut self, now: Instant, address: IpAddr) {
        let under_way = self.addresses[..self.started]
            .iter()
            .zip(&mut self.has_failed);
        for (started, has_failed) in under_way {
            if *started == address && !*has_failed {
                *has_failed = true;
                self.next_at = Some(now);
            }
        }
    }

    /// Attempts that were started and have not failed.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.has_failed[..self.started]
            .iter()
            .filter(|has_failed| !**has_failed)
            .count()
    }
}
