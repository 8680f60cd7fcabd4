//! Every block of the registries, and every cloud's metadata address, is denied by default or has a reason why it is not.
use super::inner_networks;
use crate::access::{Access, Denied};
use ipnet::IpNet;
use std::net::IpAddr;

/// The expected treatment of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Denied.
    Inner,
    /// Not denied: networks use it internally, and a proxy may exist to reach it.
    TheirOwn,
    /// Not denied: part of the internet.
    Global,
    /// Decided by the embedded IPv4 address.
    Embeds,
    /// Its sub-blocks have rows of their own.
    Parts,
}
use Fate::{Embeds, Global, Inner, Parts, TheirOwn};

/// The IANA IPv4 Special-Purpose Address Registry, and the multicast block.
const IPV4: [(&str, &str, Fate); 27] = [
    ("0.0.0.0/8", "this network", Inner),
    ("0.0.0.0/32", "this host on this network", Inner),
    ("10.0.0.0/8", "private use", TheirOwn),
    ("100.64.0.0/10", "shared address space", TheirOwn),
    ("127.0.0.0/8", "loopback", Inner),
    ("169.254.0.0/16", "link-local", Inner),
    ("172.16.0.0/12", "private use", TheirOwn),
    ("192.0.0.0/24", "IETF protocol assignments", Inner),
    ("192.0.0.0/29", "IPv4 service continuity prefix", Inner),
    ("192.0.0.8/32", "IPv4 dummy address", Inner),
    ("192.0.0.9/32", "port control protocol anycast", Inner),
    ("192.0.0.10/32", "TURN anycast", Inner),
    ("192.0.0.170/32", "NAT64/DNS64 discovery", Inner),
    ("192.0.0.171/32", "NAT64/DNS64 discovery", Inner),
    ("192.0.2.0/24", "documentation", TheirOwn),
    ("192.31.196.0/24", "AS112-v4", Global),
    ("192.52.193.0/24", "AMT", Global),
    ("192.88.99.0/24", "deprecated 6to4 relay anycast", Inner),
    ("192.88.99.2/32", "6a44 relay anycast", Inner),
    ("192.168.0.0/16", "private use", TheirOwn),
    ("192.175.48.0/24", "direct delegation AS112", Global),
    ("198.18.0.0/15", "benchmarking", TheirOwn),
    ("198.51.100.0/24", "documentation", TheirOwn),
    ("203.0.113.0/24", "documentation", TheirOwn),
    ("240.0.0.0/4", "reserved", Inner),
    ("255.255.255.255/32", "limited broadcast", Inner),
    ("224.0.0.0/4", "multicast", Inner),
];

/// The IANA IPv6 Special-Purpose Address Registry, and the multicast block.
const IPV6: [(&str, &str, Fate); 27] = [
    ("::1/128", "loopback", Inner),
    ("::/128", "unspecified", Inner),
    ("::ffff:0:0/96", "IPv4-mapped", Embeds),
    ("64:ff9b::/96", "IPv4-IPv6 translation", Embeds),
    ("64:ff9b:1::/48", "local-use translation", Embeds),
    ("100::/64", "discard-only", Inner),
    ("100:0:0:1::/64", "dummy prefix", Inner),
    ("2001::/23", "IETF protocol assignments", Parts),
    ("2001::/32", "Teredo", Embeds),
    ("2001:1::1/128", "port control protocol anycast", Inner),
    ("2001:1::2/128", "TURN anycast", Inner),
    ("2001:1::3/128", "DNS-SD registration anycast", Inner),
    ("2001:2::/48", "benchmarking", TheirOwn),
    ("2001:3::/32", "AMT", Global),
    ("2001:4:112::/48", "AS112-v6", Global),
    ("2001:10::/28", "deprecated ORCHID", Global),
    ("2001:20::/28", "ORCHIDv2", Global),
    ("2001:30::/28", "drone remote identification", Global),
    ("2001:db8::/32", "documentation", TheirOwn),
    ("2002::/16", "6to4", Embeds),
    ("2620:4f:8000::/48", "direct delegation AS112", Global),
    ("3fff::/20", "documentation", TheirOwn),
    ("5f00::/16", "segment routing identifiers", Inner),
    ("fc00::/7", "unique local", TheirOwn),
    ("fe80::/10", "link-local", Inner),
    ("ff00::/8", "multicast", Inner),
    ("ff02::1/128", "all nodes of the link", Inner),
];

/// Addresses where machines ask their cloud for credentials and settings.
const CLOUDS: [(&str, &str); 25] = [
    (
        "169.254.169.254",
        "AWS, Azure, Google (metadata.google.internal), Oracle, OpenStack, DigitalOcean, Hetzner, IBM, Vultr, Huawei",
    ),
    ("169.254.169.253", "AWS, resolver"),
    ("169.254.169.123", "AWS, time"),
    ("169.254.170.2", "AWS, credentials of ECS tasks"),
    ("169.254.170.23", "AWS, credentials of EKS pods"),
    ("fd00:ec2::254", "AWS"),
    ("fd00:ec2::253", "AWS, resolver"),
    ("fd00:ec2::23", "AWS, credentials of EKS pods"),
    ("168.63.129.16", "Azure, wire server"),
    ("fd20:ce::254", "Google"),
    ("100.100.100.200", "Alibaba"),
    ("fd00:100::100:200", "Alibaba"),
    ("192.0.0.192", "Oracle Classic"),
    ("fd00:c1::a9fe:a9fe", "Oracle"),
    ("fe80::a9fe:a9fe", "OpenStack"),
    ("169.254.0.23", "Tencent"),
    ("169.254.10.10", "Tencent"),
    ("169.254.42.42", "Scaleway"),
    ("fd00:42::42", "Scaleway"),
    ("fd00:a9fe:a9fe::1", "Akamai (Linode)"),
    ("100.96.0.96", "Volcengine"),
    ("169.254.169.250", "Rancher"),
    ("127.0.0.11", "Docker, resolver"),
    ("127.0.0.53", "systemd, resolver"),
    ("::ffff:169.254.169.254", "any of them, IPv4-mapped"),
];

fn by_default() -> Access {
    Access {
        deny_networks: inner_networks(),
        ..Access::default()
    }
}

fn ends(network: &str) -> [IpAddr; 2] {
    let network: IpNet = network.parse().unwrap();
    [network.network(), network.broadcast()]
}

#[test]
fn every_block_of_the_registries_is_denied_or_has_a_reason() {
    let access = by_default();
    for (network, name, fate) in IPV4.into_iter().chain(IPV6) {
        for address in ends(network) {
            let expected = match fate {
                Inner => Err(Denied::Address),
                TheirOwn | Global => Ok(()),
                // The first and last addresses of such a block are covered by the rows below.
                Embeds | Parts => continue,
            };
            assert_eq!(
                access.check_address(address),
                expected,
                "{address}: {name}, {network}"
            );
        }
    }
}

#[test]
fn a_clouds_credentials_are_out_of_reach_by_every_way() {
    let access = by_default();
    for (text, cloud) in CLOUDS {
        let address: IpAddr = text.parse().unwrap();
        let mut ways = vec![address];
        if let IpAddr::V4(v4) = address {
            let [a, b, c, d] = v4.octets();
            let [high, low] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            let wrapped = [
                format!("::ffff:{text}"),
                format!("::{text}"),
                format!("::ffff:0:{text}"),
                format!("64:ff9b::{text}"),
                format!("64:ff9b:1::{text}"),
                format!("2002:{high:x}:{low:x}::1"),
                format!("2001:0:1:2:3:4:{:x}:{:x}", !high, !low),
                format!("2001:db8::5efe:{text}"),
                format!("2001:db8::200:5efe:{text}"),
            ];
            ways.extend(wrapped.map(|way| way.parse::<IpAddr>().unwrap()));
        }
        for way in ways {
            assert_eq!(
                access.check_address(way),
                Err(Denied::Address),
                "{way}: {cloud}"
            );
        }
    }
}

#[test]
fn embedded_addresses_of_servers_stay_reachable() {
    let access = by_default();
    for text in [
        "8.8.8.8",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "64:ff9b:1::8.8.8.8",
        // 198.51.239.7 and 8.8.240.4, with the prefix lengths 48 and 64.
        "64:ff9b:1:c633:ef:700::",
        "64:ff9b:1:1234:8:8f0:400::",
        "2002:808:808::1",
        "2001:db8::5efe:8.8.8.8",
        "10.0.0.1",
        "fd12:3456::1",
        "168.63.129.17",
        "100.100.100.201",
        "2001:4860:4860::8888",
    ] {
        assert_eq!(
            access.check_address(text.parse().unwrap()),
            Ok(()),
            "{text}"
        );
    }
}
