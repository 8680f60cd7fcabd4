//! Rules against a plain search through all of them, and the work that finding them takes.

use super::*;
use crate::wan::spec::Path;

fn rule(toml: &str) -> Rule {
    toml::from_str(toml).unwrap()
}

fn flow(from: &str, to: &str, ports: Option<[u16; 2]>) -> Flow {
    Flow {
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        ports,
    }
}

/// The meaning of a specification, without any cleverness.
fn plain_search(rules: &[Rule], flow: &Flow) -> Option<usize> {
    let is_in = |range: Option<[u16; 2]>, end: usize| {
        range.is_none_or(|[first, last]| {
            flow.ports
                .is_some_and(|ports| first <= ports[end] && ports[end] <= last)
        })
    };
    rules.iter().position(|rule| {
        rule.from.is_none_or(|subnet| subnet.contains(flow.from))
            && rule.to.is_none_or(|subnet| subnet.contains(flow.to))
            && is_in(rule.from_ports, 0)
            && is_in(rule.to_ports, 1)
    })
}

fn any_rule(random: &mut fastrand::Rng) -> Rule {
    let subnet = |random: &mut fastrand::Rng| match random.u8(0..4) {
        0 => None,
        1 => Some(format!("10.0.{}.0/24", random.u8(0..4))),
        2 => Some("10.0.0.0/16".to_owned()),
        _ => Some(format!("fd00:{}::/32", random.u8(0..3))),
    };
    let ports = |random: &mut fastrand::Rng| {
        let first = random.u16(0..12);
        match random.u8(0..3) {
            0 => None,
            1 => Some([first, first]),
            _ => Some([first, first + random.u16(0..5)]),
        }
    };
    Rule {
        from: subnet(random).map(|text| Subnet::try_from(text).unwrap()),
        to: subnet(random).map(|text| Subnet::try_from(text).unwrap()),
        from_ports: ports(random),
        to_ports: ports(random),
        for_each_port: false,
        path: Path::default(),
    }
}

#[test]
fn the_first_rule_that_matches_is_found() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut found = 0;
    for _ in 0..100 {
        let list: Vec<Rule> = (0..random.usize(0..40))
            .map(|_| any_rule(&mut random))
            .collect();
        let mut rules = Rules::new(&list);
        for _ in 0..300 {
            let is_ipv4 = random.bool();
            let address = |random: &mut fastrand::Rng| {
                if is_ipv4 {
                    format!("10.0.{}.9", random.u8(0..5))
                } else {
                    format!("fd00:{}::9", random.u8(0..4))
                }
            };
            let ports = random
                .bool()
                .then(|| [random.u16(0..16), random.u16(0..16)]);
            let flow = flow(&address(&mut random), &address(&mut random), ports);
            let expected = plain_search(&list, &flow);
            found += usize::from(expected.is_some());
            for _ in 0..2 {
                assert_eq!(
                    rules.meet(&flow).map(|met| met.rule),
                    expected,
                    "{flow:?} in {list:#?}"
                );
            }
        }
    }
    assert!(found > 3_000, "only {found} flows met a rule");
}

#[test]
fn a_rule_for_each_port_has_a_path_for_each() {
    let each = rule("from_ports = [10001, 16000]\nto_ports = [80, 90]\nfor_each_port = true");
    assert_eq!(paths_of(&each), 6_000);
    let mut rules = Rules::new(&[each]);
    let at = |port| flow("10.0.0.1", "10.0.1.1", Some([port, 85]));
    for (port, path) in [(10_001, 0), (10_002, 1), (16_000, 5_999)] {
        assert_eq!(rules.meet(&at(port)), Some(Met { rule: 0, path }));
    }
    assert_eq!(rules.meet(&at(16_001)), None);
    assert_eq!(rules.meet(&flow("10.0.0.1", "10.0.1.1", None)), None);

    let by_destination = rule("to_ports = [0, 65535]\nfor_each_port = true");
    assert_eq!(paths_of(&by_destination), 65_536);
    let mut rules = Rules::new(&[by_destination]);
    assert_eq!(
        rules.meet(&flow("10.0.0.1", "10.0.1.1", Some([1, 65_535]))),
        Some(Met {
            rule: 0,
            path: 65_535
        })
    );
}

/// Work for `flows` flows of `packets` packets each, through `count` rules that differ in a port or in a subnet.
fn work_of(count: u16, flows: u16, packets: usize) -> Work {
    let list: Vec<Rule> = (0..count)
        .map(|number| {
            if number % 2 == 0 {
                rule(&format!(
                    "from = \"10.0.0.0/16\"\nfrom_ports = [{0}, {0}]",
                    10_000 + number
                ))
            } else {
                rule(&format!(
                    "to = \"10.{}.{}.0/24\"",
                    number / 256,
                    number % 256
                ))
            }
        })
        .collect();
    let mut rules = Rules::new(&list);
    for _ in 0..packets {
        for number in 0..flows {
            let to = format!("10.{}.{}.7", number / 256, number % 256);
            rules.meet(&flow("10.0.0.1", &to, Some([10_000 + number, 80])));
        }
    }
    rules.work()
}

#[test]
fn six_thousand_rules_are_no_more_work_than_six() {
    let (few, many) = (work_of(6, 3_000, 5), work_of(6_000, 3_000, 5));
    assert_eq!((few.asked, few.missed), (15_000, 3_000));
    assert_eq!((many.asked, many.missed), (15_000, 3_000));
    // New flows take a look-up per shape and at most one comparison behind it; known flows take none.
    assert!(few.comparisons >= 2 * 3_000);
    assert!(
        many.comparisons <= 4 * many.missed,
        "{} comparisons for {} flows",
        many.comparisons,
        many.missed
    );
}

#[test]
#[ignore = "shows time, which depends on the machine: cargo test --release -- --ignored --nocapture time_of_rules"]
fn time_of_rules() {
    for count in [6, 60, 600, 6_000] {
        let started = std::time::Instant::now();
        let work = work_of(count, 6_000, 100);
        let ns = started.elapsed().as_nanos() / u128::from(work.asked);
        println!(
            "{count} rules: {ns} ns and {:.3} comparisons per packet",
            work.comparisons as f64 / work.asked as f64
        );
    }
}
