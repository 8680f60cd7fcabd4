//! When a certificate is ordered, and when again after a failure.
use crate::config::plan::ChallengeKind;
use std::time::{Duration, SystemTime};

/// The wait after the first failure; each further one is four times as long. An authority allows few failures an hour
/// (Let's Encrypt: five for a name).
pub const WAIT_FIRST: Duration = Duration::from_secs(60);

/// The longest wait, also of those that an authority asks for.
pub const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The longest wait for which an authority is taken to limit all orders of the account, and not those for one name.
pub const ACCOUNT_WAIT_MAX: Duration = Duration::from_secs(3600);

/// From when to when a certificate is valid.
pub type Validity = [SystemTime; 2];

/// When a certificate is renewed: at a third of its life before its end, or up to a thirtieth earlier, so that not all of
/// an authority's certificates are renewed at once. `chance` is from 0 to 1.
pub fn renewal([from, until]: Validity, chance: f64) -> SystemTime {
    let lifetime = until.duration_since(from).unwrap_or_default();
    let before = lifetime / 3 + (lifetime / 30).mul_f64(chance);
    until.checked_sub(before).unwrap_or(from)
}

/// The wait after so many failures in a row, a tenth more or less. `asked`: what the authority asks for.
pub fn wait(failures: u32, asked: Option<Duration>, chance: f64) -> Duration {
    let times = 4_u32.saturating_pow(failures.saturating_sub(1));
    let wait = WAIT_FIRST.saturating_mul(times).min(WAIT_MAX);
    let wait = wait.mul_f64(0.9 + 0.2 * chance);
    let asked = asked.unwrap_or_default().min(WAIT_MAX);
    // Names that were refused together do not come back together.
    wait.max(asked.mul_f64(1.0 + 0.1 * chance)).min(WAIT_MAX)
}

/// The challenge for an attempt: after a failure, the next one.
pub fn challenge(kinds: &[ChallengeKind], failures: u32) -> Option<ChallengeKind> {
    let index = (failures as usize).checked_rem(kinds.len())?;
    kinds.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn a_third_of_the_life_is_left_at_the_renewal() {
        let from = SystemTime::UNIX_EPOCH;
        let validity = [from, from + 90 * DAY];
        assert_eq!(renewal(validity, 0.0), from + 60 * DAY);
        assert_eq!(renewal(validity, 1.0), from + 57 * DAY);
        // Nonsense is renewed at once.
        assert!(renewal([from + DAY, from], 0.5) <= from + DAY);
    }

    #[test]
    fn waits_grow_from_a_minute_to_a_day() {
        let minutes = |failures| wait(failures, None, 0.5).as_secs_f64() / 60.0;
        let waits: Vec<f64> = [1, 2, 3, 4, 5, 6, 7, u32::MAX].map(minutes).into();
        assert_eq!(waits, [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 1440.0, 1440.0]);
        assert!(wait(1, None, 0.0) < wait(1, None, 1.0));
        assert_eq!(wait(1, Some(DAY / 2), 0.0), DAY / 2);
        assert_eq!(wait(1, Some(DAY / 2), 1.0), DAY * 11 / 20);
        assert_eq!(wait(1, Some(400 * DAY), 0.5), DAY);
    }

    #[test]
    fn challenges_take_turns() {
        use ChallengeKind::{Http01, TlsAlpn01};
        let both = [Http01, TlsAlpn01];
        let turns = [0, 1, 2, 3].map(|failures| challenge(&both, failures));
        assert_eq!(turns, [Http01, TlsAlpn01, Http01, TlsAlpn01].map(Some));
        assert_eq!(challenge(&[TlsAlpn01], 4), Some(TlsAlpn01));
        assert_eq!(challenge(&[], 0), None);
    }
}
