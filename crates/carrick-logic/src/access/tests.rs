//! Rules apply however a host or an address is written.
use super::{Access, Denied, NamePattern};
use ipnet::IpNet;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn networks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn pattern(text: &str) -> NamePattern {
    NamePattern::parse(text).unwrap()
}

#[test]
fn clients_are_allowed_by_network() {
    let access = Access {
        clients: networks(&[
            "127.0.0.0/8",
            "10.1.0.0/16",
            "2001:db8::/32",
            "::ffff:192.0.2.0/120",
        ]),
        ..Access::default()
    };
    let allowed = [
        "127.0.0.1",
        "10.1.255.255",
        "::ffff:10.1.0.1",
        "2001:db8::1",
        "192.0.2.255",
        "::ffff:192.0.2.1",
    ];
    for client in allowed {
        assert!(access.allows_client(address(client)), "{client}");
    }
    // A client's own address counts: embedding an allowed address gives it no rights.
    let refused = [
        "10.2.0.1",
        "::1",
        "2001:db9::1",
        "192.0.3.0",
        "64:ff9b::10.1.0.1",
        "2002:a01:1::1",
        "::10.1.0.1",
        "::ffff:10.2.0.1",
    ];
    for client in refused {
        assert!(!access.allows_client(address(client)), "{client}");
    }
}

#[test]
fn without_networks_every_client_is_allowed() {
    assert!(Access::default().allows_client(address("203.0.113.9")));
    assert!(Access::default().allows_client(address("::")));
}

#[test]
fn all_of_ipv6_is_not_all_of_ipv4() {
    let access = Access {
        clients: networks(&["::/0"]),
        ..Access::default()
    };
    assert!(access.allows_client(address("2001:db8::1")));
    assert!(!access.allows_client(address("192.0.2.1")));
    assert!(!access.allows_client(address("::ffff:192.0.2.1")));
}

#[test]
fn every_way_to_a_denied_ipv4_address_is_denied() {
    let access = Access {
        deny_networks: networks(&["169.254.0.0/16"]),
        ..Access::default()
    };
    let denied = [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:fffe::169.254.169.254",
        // The other three layouts of RFC 6052 section 2.2, with data in the octets that translators ignore.
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9fe:ffa9:feff:ffff:ffff",
        "64:ff9b:1:12a9:fe:a9fe::",
        "64:ff9b:1:1234:a9:fea9:fe00:0",
        "2002:a9fe:a9fe::1",
        "2002:a9fe:a9fe:ffff:ffff:ffff:ffff:ffff",
        // Teredo inverts the bits.
        "2001:0:4136:e378:8000:63bf:5601:5601",
    ];
    for text in denied {
        assert_eq!(
            access.check_address(address(text)),
            Err(Denied::Address),
            "{text}"
        );
    }
    let allowed = [
        "169.253.255.255",
        "170.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:2::169.254.169.254",
        "64:ff9b:0:1::169.254.169.254",
        "2003:a9fe:a9fe::1",
        "2001:db8::a9fe:a9fe",
        "2001:1::5601:5601",
        "::1",
        "::",
    ];
    for text in allowed {
        assert_eq!(access.check_address(address(text)), Ok(()), "{text}");
    }
}

#[test]
fn the_unspecified_address_is_loopback() {
    let access = Access {
        deny_networks: networks(&["127.0.0.0/8", "::1/128"]),
        ..Access::default()
    };
    for text in [
        "0.0.0.0",
        "::",
        "::ffff:0.0.0.0",
        "127.0.0.1",
        "::1",
        "64:ff9b::0.0.0.0",
    ] {
        assert_eq!(
            access.check_address(address(text)),
            Err(Denied::Address),
            "{text}"
        );
    }
    let access = Access {
        deny_networks: networks(&["127.0.0.0/8"]),
        ..Access::default()
    };
    assert_eq!(access.check_address(address("::1")), Ok(()));
    assert_eq!(access.check_address(address("0.0.0.1")), Ok(()));
}

#[test]
fn denying_this_network_leaves_local_translation_usable() {
    let access = Access {
        deny_networks: networks(&["0.0.0.0/8"]),
        ..Access::default()
    };
    assert_eq!(
        access.check_address(address("64:ff9b:1::192.0.2.1")),
        Ok(())
    );
    assert_eq!(
        access.check_address(address("64:ff9b::0.1.2.3")),
        Err(Denied::Address)
    );
}

#[test]
fn a_mapped_network_denies_what_it_maps() {
    let access = Access {
        deny_networks: networks(&["::ffff:10.0.0.0/104"]),
        ..Access::default()
    };
    for text in ["10.9.8.7", "::ffff:10.9.8.7", "64:ff9b::10.9.8.7"] {
        assert_eq!(
            access.check_address(address(text)),
            Err(Denied::Address),
            "{text}"
        );
    }
    assert_eq!(access.check_address(address("11.0.0.1")), Ok(()));
}

#[test]
fn ports_count_for_connect_only() {
    let access = Access {
        connect_ports: vec![443, 8443],
        ..Access::default()
    };
    assert_eq!(access.check_name(b"example.org", 443, true), Ok(()));
    assert_eq!(access.check_name(b"example.org", 8443, true), Ok(()));
    assert_eq!(
        access.check_name(b"example.org", 25, true),
        Err(Denied::Port)
    );
    assert_eq!(
        access.check_name(b"example.org", 0, true),
        Err(Denied::Port)
    );
    assert_eq!(access.check_name(b"example.org", 25, false), Ok(()));
    assert_eq!(
        Access::default().check_name(b"example.org", 25, true),
        Ok(())
    );
}

#[test]
fn port_0_is_never_connected_to() {
    for connect_ports in [vec![], vec![0], vec![0, 443]] {
        let access = Access {
            connect_ports,
            ..Access::default()
        };
        assert_eq!(
            access.check_name(b"example.org", 0, true),
            Err(Denied::Port)
        );
    }
    let none = Access {
        connect_ports: vec![0],
        ..Access::default()
    };
    assert_eq!(
        none.check_name(b"example.org", 443, true),
        Err(Denied::Port)
    );
}

#[test]
fn names_and_literals_are_denied_before_resolution() {
    let access = Access {
        deny_names: vec![
            pattern("*.corp.example"),
            pattern("secret.example.org"),
            pattern("192.0.2.7"),
        ],
        deny_networks: networks(&["127.0.0.0/8", "fe80::/10"]),
        ..Access::default()
    };
    let denied: [(&[u8], Denied); 14] = [
        (b"a.corp.example", Denied::Name),
        (b"A.B.Corp.EXAMPLE.", Denied::Name),
        (b"SECRET.example.org", Denied::Name),
        (b"secret.example.org.", Denied::Name),
        (b"192.0.2.7", Denied::Name),
        (b"::ffff:192.0.2.7", Denied::Name),
        (b"127.0.0.1", Denied::Address),
        (b"::ffff:127.0.0.1", Denied::Address),
        (b"[::ffff:7f00:1]", Denied::Address),
        (b"fe80::1", Denied::Address),
        (b"2130706433", Denied::Form),
        (b"127.1", Denied::Form),
        (b"fe80::1%eth0", Denied::Form),
        (b"", Denied::Form),
    ];
    for (host, why) in denied {
        assert_eq!(
            access.check_name(host, 80, false),
            Err(why),
            "{:?}",
            String::from_utf8_lossy(host)
        );
    }
    for host in [
        "corp.example",
        "xcorp.example",
        "secret.example.org.example",
        "192.0.2.8",
        "::1",
        "example.org",
    ] {
        assert_eq!(
            access.check_name(host.as_bytes(), 80, false),
            Ok(()),
            "{host}"
        );
    }
}

#[test]
fn between_some_networks_nothing_can_be_refused() {
    let access = |clients: &[&str], denied: &[&str]| Access {
        clients: networks(clients),
        deny_networks: networks(denied),
        ..Access::default()
    };
    let net = |text: &str| text.parse::<IpNet>().unwrap();
    let (client, server) = (net("10.1.0.0/24"), net("10.2.0.0/24"));
    let (client6, server6) = (net("2001:db8:1::/48"), net("2001:db8:2::/48"));
    let inner = Access {
        deny_networks: super::inner_networks(),
        ..Access::default()
    };
    let rows: [(Access, IpNet, IpNet, bool); 17] = [
        (Access::default(), client, server, true),
        (inner.clone(), client, server, true),
        (inner.clone(), client6, server6, true),
        (inner.clone(), client, net("169.254.169.0/24"), false),
        (inner.clone(), client6, net("fd00:ec2::/48"), false),
        (inner, client6, net("64:ff9b::/48"), false),
        (access(&["10.0.0.0/8"], &[]), client, server, true),
        (access(&["::ffff:10.1.0.0/120"], &[]), client, server, true),
        (access(&["10.1.0.2/32"], &[]), client, server, false),
        (access(&["10.1.1.0/24"], &[]), client, server, false),
        (access(&["10.1.0.0/16"], &[]), client6, server6, false),
        (access(&[], &["10.2.0.7/32"]), client, server, false),
        (access(&[], &["::ffff:10.2.0.0/104"]), client, server, false),
        (access(&[], &["10.3.0.0/16", "::/0"]), client, server, true),
        (access(&[], &["10.0.0.0/8"]), client, server, false),
        (
            access(&[], &["10.2.0.7/32"]),
            client6,
            net("2002:a02::/48"),
            false,
        ),
        (access(&[], &["2001:db8:2::7/128"]), client6, server6, false),
    ];
    for (access, client, server, is_all) in rows {
        let allows = access.allows_all_between(client, server);
        assert_eq!(allows, is_all, "{client} {server}: {access:?}");
    }
    let named = Access {
        deny_names: vec![pattern("*.example")],
        ..Access::default()
    };
    assert!(!named.allows_all_between(client, server));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let access = Access { deny_names: vec![pattern("*.a"), pattern("::1")], ..Access::default() };
        let _ = access.check_name(&bytes, 1, true);
    }

    #[test]
    fn an_address_is_denied_in_every_embedding(bits in any::<u32>(), prefix in 1_u8..=32, suffix in any::<u32>()) {
        let v4 = Ipv4Addr::from(bits);
        let network = ipnet::Ipv4Net::new(v4, prefix).unwrap();
        let access = Access { deny_networks: vec![IpNet::V4(network)], ..Access::default() };
        let [a, b, c, d] = v4.octets();
        let [high, low] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        let mut ways = vec![
            v4.to_ipv6_mapped(),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, (suffix >> 16) as u16, suffix as u16),
            Ipv6Addr::new(0x2001, 0, 1, 2, 3, 4, !high, !low),
        ];
        if a != 0 && !v4.is_multicast() {
            ways.push(Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low));
            ways.push(Ipv6Addr::new(0x64, 0xff9b, 1, 7, 7, 7, high, low));
            ways.push(Ipv6Addr::new(0x64, 0xff9b, 1, high, u16::from(c), u16::from(d) << 8, suffix as u16, 0));
        }
        for way in ways {
            prop_assert_eq!(access.check_address(IpAddr::V6(way)), Err(Denied::Address), "{}", way);
        }
        prop_assert_eq!(access.check_address(IpAddr::V4(v4)), Err(Denied::Address));
    }

    /// ISATAP apart: any network has such addresses.
    #[test]
    fn where_an_address_is_denied_not_all_are_allowed(bits in any::<u32>(), prefix in 8_u8..=32, start in 0_usize..6, rest in any::<u128>()) {
        let denied = ipnet::Ipv4Net::new(Ipv4Addr::from(bits), prefix).unwrap();
        let access = Access { deny_networks: vec![IpNet::V4(denied)], ..Access::default() };
        let starts = ["::", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::", "2002::", "2001::"];
        let start: Ipv6Addr = starts[start].parse().unwrap();
        let address = Ipv6Addr::from(u128::from(start) | rest & u128::from(u32::MAX) | rest & 0xffff_ffff << 80);
        if access.check_address(IpAddr::V6(address)).is_err() && address.segments()[5] != 0x5efe {
            let server = ipnet::Ipv6Net::new(address, 48).unwrap().trunc();
            prop_assert!(!access.allows_all_between("fd00::/48".parse().unwrap(), IpNet::V6(server)), "{}", address);
        }
    }
}
