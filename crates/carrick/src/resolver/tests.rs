//! Resolution against a name server of our own on loopback, which answers as each test wants it.
mod answers;
mod asking;
mod cache;
mod name_server;
mod names;

use super::*;
use hickory_resolver::proto::rr::RecordType;
use name_server::{Behaviour, NameServer, Reply, both};

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn sorted(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let mut addresses = addresses.to_vec();
    addresses.sort();
    addresses
}
