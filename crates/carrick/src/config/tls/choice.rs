//! Which certificate a client gets: by the name that it asks for and the signatures that it understands.
use super::ACME_ALPN;
use super::challenges::ChallengeFiles;
use super::identity::Identity;
use rustls::SignatureAlgorithm;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

/// A certificate, and what is used from some time on instead: the same without its OCSP response.
#[derive(Debug, Clone)]
struct Offer {
    key: Arc<CertifiedKey>,
    without_staple: Option<(SystemTime, Arc<CertifiedKey>)>,
}

impl Offer {
    fn at(&self, now: SystemTime) -> &Arc<CertifiedKey> {
        let later = self.without_staple.as_ref();
        later
            .filter(|(from, _)| now >= *from)
            .map_or(&self.key, |(_, key)| key)
    }
}

impl From<&Identity> for Offer {
    fn from(identity: &Identity) -> Self {
        Self {
            key: Arc::clone(&identity.key),
            without_staple: identity.without_staple.clone(),
        }
    }
}

/// Certificates by name. Where several have a name, those that are no RSA come first, since they cost less.
#[derive(Debug)]
pub struct Choice {
    /// A wildcard is `*.example.org`.
    by_name: HashMap<String, Vec<Offer>>,
    default: Vec<Offer>,
    /// Where answers to an authority's challenges are.
    challenges: Option<ChallengeFiles>,
}

impl Choice {
    /// The first is the default, with others of its name. Certificates for `awaited` names do not exist yet: another one
    /// would not help their clients.
    pub fn new(
        identities: Vec<Identity>,
        awaited: Vec<String>,
        challenges: Option<ChallengeFiles>,
    ) -> Self {
        let mut by_name: HashMap<String, Vec<Offer>> = HashMap::new();
        for identity in &identities {
            for name in &identity.names {
                let known = by_name.entry(name.clone()).or_default();
                known.push(identity.into());
            }
        }
        for known in by_name.values_mut() {
            known.sort_by_key(|one| one.key.key.algorithm() == SignatureAlgorithm::RSA);
        }
        let first = identities.first();
        let default = first.map(|first| {
            let name = first.names.first();
            let alike = name.and_then(|name| by_name.get(name)).cloned();
            alike.unwrap_or_else(|| vec![first.into()])
        });
        for name in awaited {
            if wildcard(&name).is_none_or(|above| !by_name.contains_key(&above)) {
                by_name.entry(name).or_default();
            }
        }
        Self {
            by_name,
            default: default.unwrap_or_default(),
            challenges,
        }
    }

    /// Those for a name: its own, else those of a wildcard, which is one label (RFC 9525 section 6.3), else the default.
    fn of(&self, name: Option<&str>) -> &[Offer] {
        let named = name.and_then(|name| {
            let name = name.strip_suffix('.').unwrap_or(name);
            let name = name.to_ascii_lowercase();
            let above = || self.by_name.get(&wildcard(&name)?);
            self.by_name.get(&name).or_else(above)
        });
        named.unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // An authority offers nothing else (RFC 8737 section 3).
        if hello.alpn().is_some_and(|offers| offers.eq([ACME_ALPN])) {
            return self.challenges.as_ref()?.certificate(hello.server_name()?);
        }
        let candidates = self.of(hello.server_name());
        let understood = candidates
            .iter()
            .find(|one| (one.key.key.choose_scheme(hello.signature_schemes())).is_some());
        let chosen = understood.or(candidates.first())?;
        Some(Arc::clone(chosen.at(SystemTime::now())))
    }
}

fn wildcard(name: &str) -> Option<String> {
    let (_, above) = name.split_once('.')?;
    Some(format!("*.{above}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::aws_lc_rs::sign::any_supported_type;

    #[test]
    fn a_response_is_stapled_until_it_expires() {
        let key = rcgen::KeyPair::generate().unwrap();
        let key = any_supported_type(&key.into()).unwrap();
        let plain = CertifiedKey::new(Vec::new(), key);
        let mut stapled = plain.clone();
        stapled.ocsp = Some(vec![7]);
        let until = SystemTime::now();
        let offer = Offer {
            key: Arc::new(stapled),
            without_staple: Some((until, Arc::new(plain))),
        };
        let before = until - std::time::Duration::from_secs(1);
        assert!(offer.at(before).ocsp.is_some() && offer.at(until).ocsp.is_none());
    }
}
