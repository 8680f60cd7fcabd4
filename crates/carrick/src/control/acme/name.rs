//! A name whose certificate is ordered: what is known of it, and when it is due.
use super::advice::{self, Advice};
use super::storage::{Certificate, Failures, Storage};
use super::{random, schedule};
use std::time::{Duration, SystemTime};
use tokio::task::Id;
use tokio::time::Instant;

/// A name whose certificate is ordered.
#[derive(Debug, Clone)]
pub struct Name {
    pub certificate: Option<Certificate>,
    pub failures: Failures,
    /// For the time of the renewal, from 0 to 1.
    pub chance: f64,
    /// What the authority says about the certificate.
    pub advice: Advice,
    /// Not before; another process is at it, say.
    pub later: Option<Instant>,
    /// The order under way.
    pub task: Option<Id>,
}

impl Name {
    /// Reads what is kept. What was known `before` stays true as long as the certificate is the same.
    pub fn read(name: &str, storage: &Storage, before: Option<&Self>) -> Self {
        let certificate = storage.certificate(name);
        let last = before.map(|before| before.advice.of_next(None));
        let before = before.filter(|before| before.has(certificate.as_ref()));
        let advice = before.map(|before| before.advice.clone());
        Self {
            failures: storage.failures(name),
            chance: before.map_or_else(random, |before| before.chance),
            advice: advice.or(last).unwrap_or_default(),
            certificate,
            later: None,
            task: None,
        }
    }

    /// Whether this is the certificate.
    pub fn has(&self, certificate: Option<&Certificate>) -> bool {
        match (&self.certificate, certificate) {
            (Some(own), Some(other)) => own.is(other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    /// When the certificate is ordered, by what is kept and what the authority suggests.
    pub fn due(&self, now: SystemTime) -> SystemTime {
        let due = (self.certificate.as_ref()).map_or(SystemTime::UNIX_EPOCH, |certificate| {
            self.advice.renewal(certificate, self.chance, now)
        });
        due.max(self.failures.not_before(now))
    }

    /// Whether only a suggestion makes it due already.
    pub fn is_due_by_suggestion(&self, now: SystemTime) -> bool {
        let usual = |one: &Certificate| schedule::renewal(one.validity, self.chance);
        self.advice.suggestion().is_some()
            && self
                .certificate
                .as_ref()
                .is_some_and(|one| usual(one) > now)
    }

    /// When the certificate is ordered.
    pub fn next(&self, now: SystemTime, paused_until: Instant) -> SystemTime {
        let until = self
            .later
            .map_or(paused_until, |later| later.max(paused_until));
        match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => self.due(now),
            wait => self.due(now).max(now + wait),
        }
    }

    /// When the authority is asked about the certificate. `None`: it is not, for now.
    pub fn asked_at(&self, now: SystemTime) -> Option<SystemTime> {
        let certificate = self.certificate.as_ref();
        let certificate = certificate.filter(|one| advice::is_of_use(one, now));
        let is_asked = certificate.is_some() && self.task.is_none();
        is_asked.then(|| self.advice.ask_at(now))
    }

    /// Whether an order waits for the authority's first answer, or for its failure.
    pub fn awaits_advice(&self, now: SystemTime) -> bool {
        self.asked_at(now).is_some() && !self.advice.is_asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::acme::schedule::WAIT_FIRST;
    use crate::control::acme::testing;

    #[test]
    fn a_pause_is_part_of_what_is_next() {
        let (_folder, storage) = testing::storage();
        let mut name = Name::read("a.example", &storage, None);
        let (now, instant) = (SystemTime::now(), Instant::now());
        assert!(name.next(now, instant) <= now);
        let next = name.next(now, instant + WAIT_FIRST);
        assert!(next > now && next <= now + WAIT_FIRST);
        name.later = Some(instant + 2 * WAIT_FIRST);
        assert!(name.next(now, instant + WAIT_FIRST) > now + WAIT_FIRST);
    }

    #[test]
    fn the_time_that_was_chosen_stays_until_there_is_another_certificate() {
        let (_folder, storage) = testing::storage();
        let keep = || {
            let (certificate, key) = testing::issued();
            let pem = certificate.pem() + &key.serialize_pem();
            storage.keep_certificate("a.example", &pem).unwrap();
            pem
        };
        let pem = keep();
        let read = |before: &Name| Name::read("a.example", &storage, Some(before));
        let mut name = Name::read("a.example", &storage, None);
        name.chance = 7.0;
        assert!(read(&name).chance > 6.0);
        // The same one in a new file.
        storage.keep_certificate("a.example", &pem).unwrap();
        assert!(read(&name).chance > 6.0);
        keep();
        assert!(read(&name).chance < 6.0);
    }
}
