//! A whole network in virtual time: rules, ports of their own, counts, repetition; and the papers' settings.

use super::*;
use crate::wan::check;
use crate::wan::schedule::Schedule;

fn flow(from: &str, to: &str, ports: [u16; 2]) -> Flow {
    Flow {
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        ports: Some(ports),
    }
}

/// Rosu 2002, Table 2: corporate, both links in both directions.
const CORPORATE: &str = r#"
seed = 2002
[[rule]]
from = "10.0.1.0/24"
to = "10.0.2.0/24"
delay_ms = 10
loss = 0.001
loss_after_loss = 0.4
[[rule]]
from = "10.0.2.0/24"
to = "10.0.3.0/24"
delay_ms = 90
loss = 0.01
loss_after_loss = 0.4
"#;

#[test]
fn counts_and_arrivals_are_those_of_the_papers_corporate_setting() {
    let mut network = Emulation::new(&check::parse(CORPORATE).unwrap());
    let flows = [
        flow("10.0.1.2", "10.0.2.2", [40_000, 80]),
        flow("10.0.2.2", "10.0.3.2", [40_000, 80]),
        flow("10.0.3.2", "10.0.1.2", [80, 40_000]),
    ];
    let mut schedule = Schedule::default();
    let mut arrived = [0_u64; 3];
    const PACKETS: u64 = 300_000;
    for number in 0..PACKETS {
        let now_ns = number * 20_000;
        for (index, flow) in flows.iter().enumerate() {
            if let Fate::Sent { at_ns, .. } = network.pass(flow, now_ns, 1_500, false) {
                assert_eq!(at_ns - now_ns, [10_000_000, 90_000_000, 0][index]);
                schedule.push(at_ns, index);
            }
        }
        while let Some(index) = schedule.pop_due(now_ns) {
            arrived[index] += 1;
        }
    }
    while let Some(index) = schedule.pop_due(u64::MAX) {
        arrived[index] += 1;
    }
    let counts = network.counts();
    assert_eq!(counts.unmatched, PACKETS);
    assert_eq!(arrived[2], PACKETS);
    for (index, first) in [0.001, 0.01].into_iter().enumerate() {
        let rule = counts.rules[index];
        let lost = rule.lost_first + rule.lost_next;
        assert_eq!((rule.packets, rule.bytes), (PACKETS, PACKETS * 1_500));
        assert_eq!(arrived[index] + lost, PACKETS);
        let within = |hits: u64, trials: u64, p: f64| {
            let deviation = (trials as f64 * p * (1.0 - p)).sqrt();
            (hits as f64 - trials as f64 * p).abs() <= 5.0 * deviation
        };
        assert!(within(rule.lost_first, PACKETS - lost, first), "{rule:?}");
        assert!(within(rule.lost_next, lost, 0.4), "{rule:?}");
    }
}

#[test]
fn each_port_has_a_line_of_its_own() {
    let spec = check::parse(
        "[[rule]]\nto_ports = [10001, 16000]\nfor_each_port = true\nrate_kbit = 56\nqueue_packets = 0\n",
    )
    .unwrap();
    let mut network = Emulation::new(&spec);
    for port in 10_001..=16_000 {
        let flow = flow("10.0.2.2", "10.0.1.2", [80, port]);
        assert!(matches!(
            network.pass(&flow, 0, 700, false),
            Fate::Sent {
                at_ns: 100_000_000,
                ..
            }
        ));
        assert_eq!(network.pass(&flow, 0, 700, false), Fate::Dropped);
    }
    let counts = network.counts();
    assert_eq!(
        (counts.rules[0].packets, counts.rules[0].dropped),
        (12_000, 6_000)
    );
}

#[test]
fn ports_are_independent_and_a_seed_repeats_all_of_them() {
    let losses = |seed: u64| -> Vec<Vec<bool>> {
        let text = format!(
            "seed = {seed}\n[[rule]]\nto_ports = [1, 40]\nfor_each_port = true\nloss = 0.3\n"
        );
        let mut network = Emulation::new(&check::parse(&text).unwrap());
        (1..=40)
            .map(|port| {
                let flow = flow("10.0.2.2", "10.0.1.2", [80, port]);
                (0..64)
                    .map(|now| matches!(network.pass(&flow, now, 40, false), Fate::Lost { .. }))
                    .collect()
            })
            .collect()
    };
    let once = losses(1);
    assert_eq!(once, losses(1));
    assert_ne!(once, losses(2));
    for (index, one) in once.iter().enumerate() {
        assert!(once[..index].iter().all(|other| other != one));
    }
}

#[test]
fn joined_packets_are_noticed_where_each_should_count() {
    let lossy = "[[rule]]\nto_ports = [80, 80]\nloss = 0.1\n[[rule]]\ndelay_ms = 5\n";
    let mut network = Emulation::new(&check::parse(lossy).unwrap());
    network.pass(&flow("10.0.0.1", "10.0.1.1", [9, 80]), 0, 64_000, true);
    network.pass(&flow("10.0.0.1", "10.0.1.1", [9, 81]), 0, 64_000, true);
    assert_eq!(network.counts().joined, 1);
}
