//! Resolution with a fake name server on loopback.
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
