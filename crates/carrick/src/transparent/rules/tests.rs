//! The rules as text. Whether the kernel takes them, and what they do, is tried with the whole program (tests/suite).
use super::*;

fn interception(listener: &str) -> Interception {
    Interception {
        listener: listener.parse().unwrap(),
        ports: vec![80, 8000],
        interfaces: Vec::new(),
        from: Vec::new(),
        to: Vec::new(),
        except: Vec::new(),
        mark: 17,
        table: 1717,
        keeps_client: false,
    }
}

fn networks(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

/// The lines that intercept.
fn tproxy(interception: &Interception) -> Vec<String> {
    let text = nft_install(interception);
    let lines = text.lines().filter(|line| line.contains("tproxy"));
    lines.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn a_listener_everywhere_takes_the_families_of_its_address() {
    assert_eq!(
        tproxy(&interception("0.0.0.0:8080")),
        ["meta nfproto ipv4 tcp dport { 80, 8000 } tproxy ip to :8080 meta mark set 17 accept"]
    );
    assert_eq!(
        tproxy(&interception("[::]:8080")),
        [
            "meta nfproto ipv4 tcp dport { 80, 8000 } tproxy ip to :8080 meta mark set 17 accept",
            "meta nfproto ipv6 tcp dport { 80, 8000 } tproxy ip6 to :8080 meta mark set 17 accept",
        ]
    );
    assert_eq!(
        tproxy(&interception("[::1]:8080")),
        [
            "meta nfproto ipv6 tcp dport { 80, 8000 } tproxy ip6 to [::1]:8080 meta mark set 17 accept"
        ]
    );
}

#[test]
fn conditions_are_those_of_the_family() {
    let narrow = Interception {
        interfaces: vec!["eth1".to_owned(), "br*".to_owned()],
        from: networks(&["10.0.0.0/8"]),
        to: networks(&["192.0.2.0/24", "2001:db8::/32"]),
        ..interception("[::]:8080")
    };
    // Clients are IPv4 only, so no IPv6 is intercepted.
    assert_eq!(
        tproxy(&narrow),
        [
            "meta nfproto ipv4 iifname { \"eth1\", \"br*\" } ip saddr { 10.0.0.0/8 } ip daddr { 192.0.2.0/24 } tcp dport { 80, 8000 } tproxy ip to :8080 meta mark set 17 accept"
        ]
    );
}

#[test]
fn exceptions_come_before_and_go_both_ways() {
    let text = nft_install(&Interception {
        except: networks(&["10.0.0.5/32", "2001:db8::5/128"]),
        ..interception("[::]:8080")
    });
    for (rule, before) in [
        ("ip saddr { 10.0.0.5/32 } return", "tproxy ip to"),
        ("ip daddr { 10.0.0.5/32 } return", "tproxy ip to"),
        ("ip6 saddr { 2001:db8::5/128 } return", "tproxy ip6 to"),
        ("ip6 daddr { 2001:db8::5/128 } return", "tproxy ip6 to"),
        ("fib daddr type local return", "tproxy ip to"),
        ("iifname \"lo\" return", "tproxy ip to"),
    ] {
        let (rule_at, before_at) = (text.find(rule), text.find(before));
        assert!(rule_at.is_some() && rule_at < before_at, "{rule}: {text}");
    }
}

#[test]
fn answers_to_clients_addresses_are_taken_only_where_they_are_kept() {
    let with = Interception {
        keeps_client: true,
        ..interception("0.0.0.0:8080")
    };
    assert!(nft_install(&with).contains("socket transparent 1"));
    assert!(!nft_install(&interception("0.0.0.0:8080")).contains("socket transparent"));
}

#[test]
fn routes_and_rules_are_carricks() {
    assert_eq!(
        ip_install(&interception("0.0.0.0:8080"), 32_766),
        "route add local default dev lo table 1717 protocol 196\n\
         rule add priority 32765 fwmark 17 nop protocol 196\n\
         rule add priority 32764 fwmark 17 lookup 1717 protocol 196\n\
         rule add priority 32763 fwmark 17 iif lo goto 32765 protocol 196\n"
    );
    assert_eq!(
        nft_remove("carrick-8080"),
        "add table inet carrick-8080\ndelete table inet carrick-8080\n"
    );
}
