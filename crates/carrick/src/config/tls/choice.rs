//! Which certificate a client gets: by the name that it asks for and the signatures that it understands.
use super::ACME_ALPN;
use super::challenges::ChallengeFiles;
use super::identity::Identity;
use rustls::SignatureAlgorithm;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// Certificates by name. Where several have a name, those that are no RSA come first, since they cost less.
#[derive(Debug)]
pub struct Choice {
    /// A wildcard is `*.example.org`.
    by_name: HashMap<String, Vec<Arc<CertifiedKey>>>,
    default: Vec<Arc<CertifiedKey>>,
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
        let mut by_name: HashMap<String, Vec<Arc<CertifiedKey>>> = HashMap::new();
        for identity in &identities {
            for name in &identity.names {
                let known = by_name.entry(name.clone()).or_default();
                known.push(Arc::clone(&identity.key));
            }
        }
        for known in by_name.values_mut() {
            known.sort_by_key(|one| one.key.algorithm() == SignatureAlgorithm::RSA);
        }
        let first = identities.first();
        let default = first.map(|first| {
            let name = first.names.first();
            let alike = name.and_then(|name| by_name.get(name)).cloned();
            alike.unwrap_or_else(|| vec![Arc::clone(&first.key)])
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
    fn of(&self, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let named = name.and_then(|name| {
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
            .find(|one| one.key.choose_scheme(hello.signature_schemes()).is_some());
        understood.or(candidates.first()).cloned()
    }
}

fn wildcard(name: &str) -> Option<String> {
    let (_, above) = name.split_once('.')?;
    Some(format!("*.{above}"))
}
