//! The names of a response in the shared cache.
use super::order::Field;
use carrick_logic::cache::{Variant, shared_part};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Fields of a kind that a URL has, at most: so many keys, which differ in what else they contain, and so many variants are stored.
const FIELDS: u8 = 64;

/// The names of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    url: Box<str>,
    /// The whole key, which is the same in all processes.
    key: Box<[u8]>,
}

impl Names {
    /// The names for a key of this process. `port` is that of a listener that all processes have, each on one address: the key then
    /// has no address.
    #[must_use]
    pub fn new(prefix: &str, key: &[u8], port: Option<u16>) -> Self {
        let url = shared_part(key);
        let url_end = memchr::memchr(b'\n', url).unwrap_or(url.len());
        let url = url.get(..url_end).unwrap_or(url);
        let realm_end = memchr::memchr(b' ', key).unwrap_or(0);
        let key = match port {
            Some(port) if key.starts_with(b"listener=") => {
                let rest = key.get(realm_end..).unwrap_or_default();
                [format!("listener={port}").as_bytes(), rest].concat()
            }
            _ => key.to_vec(),
        };
        Self {
            url: Self::of_url(prefix, url),
            key: key.into(),
        }
    }

    /// The name of what is stored for a URL, as keys have it, with what `cache_key` takes of the query.
    #[must_use]
    pub fn of_url(prefix: &str, url: &[u8]) -> Box<str> {
        let mut name = format!("{prefix}:");
        for byte in Sha256::digest(url).iter().take(16) {
            // Writing to a String does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        name.into()
    }

    pub(super) fn url(&self) -> Box<str> {
        self.url.clone()
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The field with the response, or with the names of fields that responses vary with.
    pub(super) fn main(&self) -> Field {
        Field(b'm', place(Sha256::new().chain_update(&self.key)))
    }

    /// The field with this variant.
    pub(super) fn variant(&self, variant: &Variant) -> Field {
        let (names, values) = variant.parts();
        let lengths = [self.key.len(), names.len()].map(|length| (length as u64).to_be_bytes());
        let hash = Sha256::new()
            .chain_update(lengths.concat())
            .chain_update(&self.key)
            .chain_update(names)
            .chain_update(values);
        Field(b'v', place(hash))
    }
}

fn place(hash: Sha256) -> u8 {
    hash.finalize().first().copied().unwrap_or_default() % FIELDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_with_the_same_port_have_the_same_names() {
        let names = |key: &str, port| Names::new("p", key.as_bytes(), port);
        let one = names("listener=10.0.0.1:3128 http://h:80/a\n1:x", Some(3128));
        let two = names("listener=[::1]:3128 http://h:80/a\n1:x", Some(3128));
        assert_eq!(one, two);
        let other = names("listener=10.0.0.1:3128 http://h:80/a\n1:x", None);
        assert_ne!(one.key(), other.key());
        // All that there is for a URL is under one name.
        assert_eq!(one.url(), other.url());
        assert_eq!(one.url(), Names::of_url("p", b"http://h:80/a"));
        let upstream = names("upstream=1:u http://h:80/a", Some(3128));
        assert_eq!(upstream.key(), b"upstream=1:u http://h:80/a");
        assert_eq!(upstream.url(), one.url());
        assert_ne!(Names::of_url("q", b"http://h:80/a"), one.url());
        let secure = names("upstream=1:u https://h:443/a\n1:x", None);
        assert_eq!(secure.url(), Names::of_url("p", b"https://h:443/a"));
    }

    #[test]
    fn variants_have_fields_of_their_own() {
        let names = Names::new("p", b"upstream=1:u http://h:80/a", None);
        let fields: std::collections::BTreeSet<_> = (0..50_u8)
            .map(|value| names.variant(&Variant::from_parts(b"x", &[value])).text())
            .collect();
        assert!(fields.len() > 25, "{fields:?}");
        assert!(fields.iter().all(|field| field.len() == 3));
        assert!(names.main().text().starts_with('m'));
    }
}
