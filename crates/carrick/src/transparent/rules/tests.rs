//! The rules as text. Whether the kernel takes them, and what they do, is tried with the whole program (tests/suite).
use super::*;

fn interception(listener: &str) -> Interception {
    Interception {
        listener: listener.parse().unwrap(),
        ports: vec![80.into(), 8000.into()],
        except_ports: Vec::new(),
        interfaces: Vec::new(),
        from: Vec::new(),
        to: Vec::new(),
        except: Vec::new(),
        mark: 17,
        table: 1717,
        keeps_client: false,
        local: None,
    }
}

fn networks(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

/// The lines with this part.
fn lines(interception: &Interception, part: &str) -> Vec<String> {
    let text = nft_install(interception, &[17]);
    let lines = text.lines().filter(|line| line.contains(part));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// Those that say which connections are meant.
fn chosen(interception: &Interception) -> Vec<String> {
    lines(interception, "goto take")
}

#[test]
fn a_listener_everywhere_takes_the_families_of_its_address() {
    let v4 = "meta nfproto ipv4 tcp dport { 80, 8000 } goto take-v4";
    let v6 = "meta nfproto ipv6 tcp dport { 80, 8000 } goto take-v6";
    assert_eq!(chosen(&interception("0.0.0.0:8080")), [v4]);
    assert_eq!(chosen(&interception("[::]:8080")), [v4, v6]);
    assert_eq!(chosen(&interception("[::1]:8080")), [v6]);
    let new = |listener| lines(&interception(listener), "update @");
    assert_eq!(
        new("[::]:8080"),
        [
            "update @began-v4 { ip saddr . tcp sport . ip daddr . tcp dport } meta nfproto ipv4 meta l4proto tcp tproxy ip to :8080 meta mark set 17 accept",
            "update @began-v6 { ip6 saddr . tcp sport . ip6 daddr . tcp dport } meta nfproto ipv6 meta l4proto tcp tproxy ip6 to :8080 meta mark set 17 accept",
        ]
    );
    assert_eq!(
        new("[::1]:8080"),
        [
            "update @began-v6 { ip6 saddr . tcp sport . ip6 daddr . tcp dport } meta nfproto ipv6 meta l4proto tcp tproxy ip6 to [::1]:8080 meta mark set 17 accept",
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
        chosen(&narrow),
        [
            "meta nfproto ipv4 iifname { \"eth1\", \"br*\" } ip saddr { 10.0.0.0/8 } ip daddr { 192.0.2.0/24 } tcp dport { 80, 8000 } goto take-v4"
        ]
    );
}

#[test]
fn ports_are_ranges_less_those_that_are_left_alone() {
    let all = Interception {
        ports: vec![PortRange::ALL],
        except_ports: vec![
            22.into(),
            PortRange {
                first: 6000,
                last: 6063,
            },
        ],
        ..interception("0.0.0.0:8080")
    };
    assert_eq!(
        chosen(&all),
        ["meta nfproto ipv4 tcp dport { 1-65535 } tcp dport != { 22, 6000-6063 } goto take-v4"]
    );
    for (port, is_taken) in [(1, true), (22, false), (6063, false), (6064, true)] {
        assert_eq!(all.takes_port(port), is_taken, "{port}");
    }
}

#[test]
fn while_the_set_is_full_clients_and_no_others_are_led_by_the_socket_of_their_request() {
    let only = Interception {
        interfaces: vec!["eth1".to_owned()],
        ..interception("0.0.0.0:8080")
    };
    let lead = "meta nfproto ipv4 meta l4proto tcp tproxy ip to :8080 meta mark set 17 accept";
    let text = nft_install(&only, &[17]);
    let new = text.split("chain new-v4 {").nth(1).unwrap();
    let rules: Vec<&str> = new.lines().map(str::trim).collect();
    assert!(
        rules[3].starts_with("update @began-v4") && rules[4] == lead,
        "{text}"
    );
    // Whose server was asked already is led once more, although the pair was left out since.
    assert!(
        rules[1].ends_with(&format!(" @began-v4 {lead}")) && rules[2].ends_with("@left-v4 return"),
        "{text}"
    );
    let answered = text.split("chain answered {").nth(1).unwrap();
    let rules: Vec<&str> = answered.lines().map(str::trim).collect();
    let by_socket = format!(
        "meta nfproto ipv4 iifname {{ \"eth1\" }} tcp dport {{ 80, 8000 }} socket transparent 1 {lead}"
    );
    assert!(
        rules[1].contains("@began-v4") && rules[2] == by_socket,
        "{text}"
    );
}

#[test]
fn exceptions_come_before_and_go_both_ways() {
    let excepting = Interception {
        except: networks(&["10.0.0.5/32", "2001:db8::5/128"]),
        ..interception("[::]:8080")
    };
    let text = nft_install(&excepting, &[17]);
    for (rule, before) in [
        ("ip saddr { 10.0.0.5/32 } return", "goto take-v4"),
        ("ip daddr { 10.0.0.5/32 } return", "goto take-v4"),
        ("ip6 saddr { 2001:db8::5/128 } return", "goto take-v6"),
        ("ip6 daddr { 2001:db8::5/128 } return", "goto take-v6"),
        ("fib daddr type local return", "goto take-v4"),
        ("tcp option 19 exists return", "goto take-v4"),
        ("iif \"lo\" goto local", "goto begin"),
        ("@left-v4 return", "update @began-v4"),
        // An ISATAP address stays with the listener.
        (
            "ip6 daddr & ::fdff:ffff:0:0 != ::5efe:0:0 ip6 saddr . ip6 daddr @left-v6 return",
            "update @began-v6",
        ),
        // Most packets need only this rule.
        ("tcp dport != 8080 socket mark 17", "iif \"lo\""),
    ] {
        let (rule_at, before_at) = (text.find(rule), text.find(before));
        assert!(rule_at.is_some() && rule_at < before_at, "{rule}: {text}");
    }
}

#[test]
fn programs_of_this_machine_have_a_mark_of_their_own_and_carrick_is_let_through() {
    let local = Interception {
        interfaces: vec!["eth1".to_owned()],
        from: networks(&["10.0.0.0/8"]),
        to: networks(&["192.0.2.0/24"]),
        local: Some(LocalInterception {
            mark: 18,
            idle_seconds: 3660,
        }),
        ..interception("0.0.0.0:8080")
    };
    let text = nft_install(&local, &[17, 19]);
    for part in [
        "    meta mark 18 meta nfproto ipv4 meta l4proto tcp tproxy ip to :8080 accept\n",
        "    meta mark { 17, 19 } return\n",
        // Before the rule for carrick's own sockets, which the local clients' connections have.
        "    iif \"lo\" goto local\n    tcp dport != 8080 socket mark 17 ",
        "timeout 3660s;",
        "  chain begin-local {\n    fib daddr type local return\n    fib saddr type != local return\n    tcp option 19 ",
        // Where their packets come from does not matter, but where they go.
        "    meta nfproto ipv4 ip daddr { 192.0.2.0/24 } tcp dport { 80, 8000 } update @local-v4",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!nft_install(&interception("[::]:8080"), &[17]).contains("hook output"));
    let rules = ip_rules(&local, 32_766);
    assert!(
        rules.contains("rule add priority 32762 fwmark 18 lookup 1717"),
        "{rules}"
    );
}

#[test]
fn when_carrick_drains_new_connections_of_programs_are_not_led_and_not_known() {
    let ends = "ip saddr . tcp sport . ip daddr . tcp dport";
    let drain = |listener| nft_pass_local(&interception(listener));
    let v4 = format!(
        "flush chain inet carrick-8080 begin-local\nadd rule inet carrick-8080 begin-local delete @local-v4 {{ {ends} }}\n"
    );
    let v6 = format!(
        "add rule inet carrick-8080 begin-local delete @local-v6 {{ {} }}\n",
        ends.replace("ip ", "ip6 ")
    );
    assert_eq!(drain("0.0.0.0:8080"), v4);
    assert_eq!(drain("[::]:8080"), v4 + &v6);
}

#[test]
fn a_pair_that_is_left_out_is_there_once() {
    let request = |line: &str| nft_leave_out(&ExclusionRequest::parse(line).unwrap());
    assert_eq!(
        request("leave-out 8080 10.1.0.0/24 192.0.2.0/24 60"),
        "add element inet carrick-8080 left-v4 { 10.1.0.0/24 . 192.0.2.0/24 }\n\
         delete element inet carrick-8080 left-v4 { 10.1.0.0/24 . 192.0.2.0/24 }\n\
         add element inet carrick-8080 left-v4 { 10.1.0.0/24 . 192.0.2.0/24 timeout 60s }\n"
    );
    assert_eq!(
        request("leave-out 8080 ::/0 ::/0 0"),
        "flush set inet carrick-8080 left-v6\n"
    );
}

#[test]
fn routes_and_rules_are_carricks() {
    assert_eq!(
        ip_route(&interception("0.0.0.0:8080")),
        "route replace local default dev lo table 1717 protocol 196\n"
    );
    assert_eq!(
        ip_rules(&interception("0.0.0.0:8080"), 32_766),
        "rule add priority 32765 fwmark 17 nop protocol 196\n\
         rule add priority 32764 fwmark 17 lookup 1717 protocol 196\n\
         rule add priority 32763 fwmark 17 iif lo goto 32765 protocol 196\n"
    );
    assert_eq!(
        nft_remove("carrick-8080"),
        "add table inet carrick-8080\ndelete table inet carrick-8080\n"
    );
}
